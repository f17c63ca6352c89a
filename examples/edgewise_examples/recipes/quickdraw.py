"""Recipe on sketches of Quick, Draw! as graphs.

The field ``data.joined`` selects the graph: ``complete`` is a Transformer over the points,
``two_hop`` links points near each other on a stroke, ``multi`` has a graph for each third of the
heads.
"""

from __future__ import annotations

from functools import partial

from edgewise import models, tasks, training
from edgewise.recipes import Protocol, Recipe
from edgewise_examples import data

sketches = Recipe(
    name="sketches",
    summary="Multi-graph Transformer on sketches of 150 categories, 15 training sketches each",
    model=partial(models.multi_graph_transformer, width=60, depth=3, heads=6, dropout=0.0),
    data=data.quickdraw(categories=150, flip=True, warp=0.2, batch_size=25),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings("adamw", lr=3e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=30, monitor="val/accuracy", clip_norm=1.0),
    protocol=Protocol(
        ("test/accuracy",),
        "72.8 % (Xu et al., 2019; 1,000 sketches per category); not reached",
        "150 categories, 15 / 5 / 5 sketches of each; best of 30 epochs by validation",
        seeds=3,
    ),
)
