"""Recommendation recipe for the user's own users and items."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

interactions = Recipe(
    name="interactions",
    summary="LightGCN recommends items to users: --data.path ratings.csv",
    model=partial(models.lightgcn, width=64, hops=2),
    data=data.interactions(val=0.1, negatives=512, batch_size=2048),
    task=tasks.Recommendation(temperature=0.15, k=10),
    optimizer=training.OptimizerSettings("adam", lr=0.01),
    schedule=training.CosineSchedule(warmup=0.0),
    trainer=training.TrainerSettings(epochs=50, patience=10, monitor="val/recall@10"),
)
