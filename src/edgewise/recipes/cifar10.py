"""Recipes on 12,000 images of CIFAR-10: models that train in 15 minutes on one core."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

SPLIT = "9,000 training, 1,000 validation, 2,000 test images; best epoch by validation loss"

vit_cifar10 = Recipe(
    name="vit-cifar10",
    summary="Vision Transformer on 9,000 images of CIFAR-10, 64 patches each",
    model=partial(models.vit, patch=4, width=64, depth=4, heads=4, ffn_dim=128, dropout=0.1),
    data=data.cifar10(flip=True, warp=0.1),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings(name="adamw", lr=1e-3, weight_decay=0.05),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=10, clip_norm=1.0, monitor="val/loss", mode="min"),
    protocol=Protocol(
        ("test/accuracy",),
        "72.1 % by six convolutions in 15 epochs, where this model had 53.2 % (`images.md`)",
        SPLIT,
    ),
)

swin_cifar10 = replace(
    vit_cifar10,
    name="swin-cifar10",
    summary="Swin on 9,000 images of CIFAR-10, windows of 4 × 4 patches",
    model=partial(models.swin, patch=4, width=48, depths=(2, 2), heads=2, window=4, dropout=0.1),
    protocol=Protocol(
        ("test/accuracy",),
        "50.8 % by `vit-cifar10` in as many epochs; 72.1 % by six convolutions in 15 epochs",
        SPLIT,
    ),
)
