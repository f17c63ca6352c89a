"""Recipes on MNIST: models that train in a few minutes on one core."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

SPLIT = "55,000 training, 5,000 validation, 10,000 test images; best epoch by validation loss"

vit_mnist = Recipe(
    name="vit-mnist",
    summary="Vision Transformer on MNIST, 49 patches each",
    model=partial(models.vit, patch=4, width=64, depth=4, heads=4, ffn_dim=128),
    data=data.mnist(warp=0.1),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings(name="adamw", lr=1e-3, weight_decay=0.05),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=2, clip_norm=1.0, monitor="val/loss", mode="min"),
    protocol=Protocol(
        ("test/accuracy",),
        "`convolutions-vit-mnist`: six convolutions, the same number of epochs",
        SPLIT,
    ),
)

swin_mnist = replace(
    vit_mnist,
    name="swin-mnist",
    summary="Swin on MNIST, windows of 7 × 7 patches",
    model=partial(models.swin, patch=2, width=32, depths=(2, 2), heads=2, window=7),
    protocol=Protocol(
        ("test/accuracy",),
        "96.6 % by `vit-mnist` in as many epochs, with patches of 4 times the pixels",
        SPLIT,
    ),
)
