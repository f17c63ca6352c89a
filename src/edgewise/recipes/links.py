"""The recipe on your own network."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

links = Recipe(
    name="links",
    summary="GraphSAGE proposes new links, such as friends: --data.path friends.csv",
    model=partial(models.link_predictor, width=64, depth=2),
    data=data.edge_list(),
    task=tasks.LinkPrediction(),
    optimizer=training.Optimizer("adam", lr=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=100, patience=20, monitor="val/auc"),
)
