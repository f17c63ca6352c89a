"""Recipes of link prediction: Facebook's ego networks, and the user's own network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

sage_facebook = Recipe(
    name="sage-facebook",
    summary="GraphSAGE, common neighbours and degrees, link prediction on ego-Facebook",
    model=partial(
        models.link_predictor, width=64, depth=2, decoder="dot", dropout=0.5, overlap=True
    ),
    data=data.ego_facebook(),
    task=tasks.LinkPrediction(),
    optimizer=training.OptimizerSettings("adam", lr=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=10, monitor="val/mrr"),
    protocol=Protocol(
        ("test/auc", "test/hits@50", "test/mrr"),
        "0.9934, 0.8410, 0.2801: Adamic–Adar; 0.9942, 0.8880, 0.3146: resource allocation, so this "
        "model is no better than the best count (`edgewise baseline sage-facebook`)",
        "5 % of the edges for validation, 10 % for test, one non-edge for each; "
        "best epoch by validation MRR",
    ),
)

links = replace(
    sage_facebook,
    name="links",
    summary="GraphSAGE predicts links in your network: --data.path friends.csv",
    # Validation AUC of the inner product and of a network as decoder: 0.824 and 0.687 on 5,278
    # citations, 0.992 and 0.994 on 88,234 friendships.
    model=partial(
        models.link_predictor, width=128, depth=2, decoder="dot", dropout=0.3, overlap=True
    ),
    data=data.edge_list(),
    trainer=replace(sage_facebook.trainer, epochs=100, patience=20),
    protocol=None,
)
