"""Recipe for captioning images of several MNIST digits."""

from __future__ import annotations

from functools import partial

from edgewise import models
from edgewise.app.train import CosineSchedule, OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise_examples import data, tasks

caption_digits = Recipe(
    name="caption-digits",
    summary="Captioner on rows of two to four MNIST digits: three seven one",
    model=partial(models.captioner, patch=7, width=64, depth=4, heads=4, ffn_dim=128),
    data=data.caption_digits(places=4, least=2, count=20_000, batch_size=64),
    task=tasks.Captioning(),
    optimizer=OptimizerSettings("adamw", lr=1.5e-3, weight_decay=0.05),
    schedule=CosineSchedule(warmup=0.05),
    trainer=TrainerSettings(epochs=24, monitor="val/loss", mode="min", clip_norm=1.0),
    protocol=Protocol(
        ("test/exact",), "none", "rows of digits of MNIST's test set; greedy decoding", seeds=3
    ),
)
