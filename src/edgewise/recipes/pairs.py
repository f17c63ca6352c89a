"""The recipe on pairs of texts of your own, of which one is written from the other."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

pairs = Recipe(
    name="pairs",
    summary="Your own pairs of texts, the second written from the first: --data.path mine.csv",
    model=partial(
        models.transformer,
        width=256,
        depth=3,
        heads=4,
        feed_forward=512,
        dropout=0.2,
        order="pre",
    ),
    data=data.pair_table(vocabulary_size=8000, batch_size=4096),
    task=tasks.Translation(label_smoothing=0.1, beams=5),
    optimizer=training.Optimizer("adam", lr=1e-3),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=20, monitor="val/loss", better="lower", clip_norm=1.0),
)
