"""Recipes on scikit-learn's handwritten digits."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

digits = Recipe(
    name="digits",
    summary="Vision Transformer on 8×8 handwritten digits, 16 patches: above 97 % in 20 s",
    model=partial(models.vit, patch=2, width=64, depth=2, heads=4, ffn_dim=128),
    # Without warping a model overfits the 1257 images: 96 % on the test split.
    data=data.digits(batch_size=32, warp=0.15),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings(name="adamw", lr=3e-3, weight_decay=0.05),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=50, clip_norm=1.0, monitor="val/loss", mode="min"),
    protocol=Protocol(
        ("test/accuracy",),
        "none on this split",
        "1797 images, 1/5 for test, 1/10 for validation; best epoch by validation loss",
    ),
)
