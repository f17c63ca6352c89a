"""Recipes on Facebook's ego networks."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

sage_facebook = Recipe(
    name="sage-facebook",
    summary="GraphSAGE, link prediction on ego-Facebook: AUC above 0.98",
    model=partial(models.link_predictor, width=64, depth=2),
    data=data.ego_facebook(),
    task=tasks.LinkPrediction(),
    optimizer=training.OptimizerSettings("adam", lr=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=40, monitor="val/auc"),
    protocol=Protocol(
        ("test/auc", "test/hits@50", "test/mrr"),
        "none for this split",
        "5 % of the edges for validation, 10 % for test, one sampled non-edge for each; "
        "best epoch by validation AUC",
    ),
)
