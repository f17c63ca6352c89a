"""Recipes on texts that are drawn: what a model can reach from far away."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

duplication = Recipe(
    name="duplication",
    summary="Reformer says a text of 63 symbols again, with four rounds of hashes",
    model=partial(
        models.reformer,
        width=64,
        depth=1,
        heads=4,
        feed_forward=64,
        kinds=("lsh",),
        chunk=16,
        hashes=4,
        length=128,
        dropout=0.0,
    ),
    data=data.duplication(length=128, symbols=32, batch_size=16, count=3200),
    task=tasks.MaskedLanguageModeling(),
    optimizer=training.Optimizer(name="adamw", lr=3e-3),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=10, clip_norm=1.0, monitor="val/loss", better="lower"),
    protocol=Protocol(("test/accuracy",), "99.9 % (LSH-4)", "500 texts that are drawn once"),
)
