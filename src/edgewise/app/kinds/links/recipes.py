"""Recipes of link prediction: Facebook's ego networks, and the user's own network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.links.data import EdgeList, EgoFacebook
from edgewise.app.kinds.links.task import LinkPrediction
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule

sage_facebook = Recipe(
    name="sage-facebook",
    summary="Link prediction on ego-Facebook with GraphSAGE, common neighbours and degrees",
    model=partial(
        models.link_predictor, width=64, depth=2, decoder="dot", dropout=0.5, overlap=True
    ),
    data=EgoFacebook(),
    task=LinkPrediction(),
    optimizer=OptimizerSettings("adam", lr=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=10, monitor="val/mrr"),
    protocol=Protocol(
        ("test/auc", "test/hits@50", "test/mrr"),
        "none",
        "5 % of the edges for validation, 10 % for test, one non-edge for each edge; "
        "best epoch by validation MRR",
        seeds=3,
    ),
)

links = replace(
    sage_facebook,
    name="links",
    summary="GraphSAGE predicts links in your network: --data.path friends.csv",
    # Validation AUC on 5,278 citations: 0.869 with the inner product and 0.763 with a network as
    # decoder (three seeds).
    model=partial(
        models.link_predictor, width=128, depth=2, decoder="dot", dropout=0.3, overlap=True
    ),
    data=EdgeList(),
    trainer=replace(sage_facebook.trainer, epochs=100, patience=20),
    protocol=None,
)
