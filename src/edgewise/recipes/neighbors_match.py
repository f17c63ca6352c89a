"""Recipes on NeighborsMatch: what can be told through a funnel, and what goes around it.

All are trained alike and for as many steps. Networks of messages have as many layers as the root
needs to see the leaves, and one more; each of GPS's two has attention that reads them all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

BY = "500 trees of depth 4 that are drawn once, 6.25 % by chance; the epoch by validation loss"
_funnel = partial(models.fully_adjacent, last="graph", width=32, depth=5, pool="class")

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
    task=tasks.Classification(),
    optimizer=training.Optimizer("adam", lr=1e-2),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=4, monitor="val/loss", better="lower", clip_norm=1.0),
    protocol=Protocol(("test/accuracy",), "none published", BY, seeds=2),
)

gat_match = replace(
    gps_match,
    name="gat-match",
    summary="GAT on NeighborsMatch, whose root has to be told of all leaves",
    model=partial(_funnel, layer="gat"),
    protocol=Protocol(
        ("test/accuracy",),
        "100 % to train on, of many more steps (Alon and Yahav, 2021)",
        BY,
        seeds=2,
    ),
)

gcn_match = replace(
    gps_match,
    name="gcn-match",
    summary="GCN on NeighborsMatch, whose root has to be told of all leaves",
    model=partial(_funnel, layer="gcn"),
    protocol=Protocol(
        ("test/accuracy",),
        "70 % to train on, of many more steps (Alon and Yahav, 2021)",
        BY,
        seeds=2,
    ),
)

gin_match = replace(
    gps_match,
    name="gin-match",
    summary="GIN on NeighborsMatch, whose root has to be told of all leaves",
    model=partial(_funnel, layer="gin"),
    protocol=Protocol(
        ("test/accuracy",),
        "39 % to train on, of many more steps (Alon and Yahav, 2021)",
        BY,
        seeds=2,
    ),
)
