"""Recipe for naming one digit in a row of handwritten digits."""

from __future__ import annotations

from functools import partial

from edgewise import models
from edgewise.app.train import (
    Classification,
    CosineSchedule,
    OptimizerSettings,
    Protocol,
    Recipe,
    TrainerSettings,
)
from edgewise_examples import data

# Initialise position embeddings as large as the pixels. With a standard deviation of 0.02, models
# on graphs that need both layers learn nothing in the first 200 steps.
digit_rows = Recipe(
    name="digit-rows",
    summary="ViT on rows of eight digits: the last token predicts the first digit",
    model=partial(
        models.vit,
        patch=8,
        width=64,
        depth=2,
        heads=4,
        ffn_dim=128,
        pool="last",
        position_std=0.2,
    ),
    data=data.digit_rows(),
    task=Classification(),
    optimizer=OptimizerSettings(name="adamw", lr=2e-3, weight_decay=0.05),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=8, clip_norm=1.0, monitor="val/loss", mode="min"),
    protocol=Protocol(
        ("test/accuracy",),
        "none",
        "1,000 rows of test digits, chance 10 %; best epoch by validation loss",
        seeds=3,
    ),
)
