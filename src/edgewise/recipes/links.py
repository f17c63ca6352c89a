"""Recipe of link prediction on a network of the user."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

links = Recipe(
    name="links",
    summary="GraphSAGE predicts links in your network: --data.path friends.csv",
    # Validation AUC of the inner product and of a network as decoder: 0.824 and 0.687 on 5,278
    # citations, 0.992 and 0.994 on 88,234 friendships.
    model=partial(models.link_predictor, width=128, depth=2, decoder="dot", dropout=0.3),
    data=data.edge_list(),
    task=tasks.LinkPrediction(),
    optimizer=training.OptimizerSettings("adam", lr=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=100, patience=20, monitor="val/auc"),
)
