"""Recipes on NeighborsMatch, a test of over-squashing.

All models are trained with the same settings and number of steps. Message-passing networks have one
layer more than the tree is deep. GPS has two layers, in which all nodes attend to all nodes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.train import (
    Classification,
    CosineSchedule,
    OptimizerSettings,
    Protocol,
    Recipe,
    TrainerSettings,
)
from edgewise.models.fully_adjacent import Layer
from edgewise_examples import data

BY = "500 random trees of depth 4, chance 6.25 %; best epoch by validation loss"

gps_match = Recipe(
    name="gps-match",
    summary="GPS on NeighborsMatch: the root attends to the leaf that has its key",
    model=partial(
        models.gps,
        position="none",
        width=32,
        depth=2,
        heads=4,
        attention_dropout=0.0,
        pool="class",
    ),
    data=data.neighbors_match(tested=500, batch_size=100),
    task=Classification(),
    optimizer=OptimizerSettings("adam", lr=1e-2),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=4, monitor="val/loss", mode="min", clip_norm=1.0),
    protocol=Protocol(("test/accuracy",), "none", BY, seeds=2),
)


def _funnel(layer: Layer, fitted: int) -> Recipe:
    """Return the recipe for a message-passing network.

    ``fitted`` is its training accuracy in the paper, in percent.
    """
    reference = f"none ({fitted} % of the training set in Alon and Yahav, 2021)"
    return replace(
        gps_match,
        name=f"{layer}-match",
        summary=f"{layer.upper()} on NeighborsMatch, a test of over-squashing",
        model=partial(
            models.fully_adjacent, layer=layer, last="graph", width=32, depth=5, pool="class"
        ),
        protocol=Protocol(("test/accuracy",), reference, BY, seeds=2),
    )


gat_match = _funnel("gat", 100)
gcn_match = _funnel("gcn", 70)
gin_match = _funnel("gin", 77)
