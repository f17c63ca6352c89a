"""Recipe for classifying sketches of Quick, Draw! as graphs.

The field ``data.joined`` selects the graph:

- ``strokes``: all strokes attend to all strokes
- ``complete``: all points attend to all points
- ``two_hop``: points up to two steps apart on a stroke attend to each other
- ``multi``: each third of the heads has another graph of points
"""

from __future__ import annotations

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
from edgewise_examples import data

sketches = Recipe(
    name="sketches",
    summary="Transformer over strokes of sketches of 150 categories, 15 training sketches each",
    model=partial(models.multi_graph_transformer, width=120, depth=1, heads=6, dropout=0.3),
    data=data.quickdraw(categories=150, flip=True, warp=0.2, batch_size=100),
    task=Classification(label_smoothing=0.1),
    optimizer=OptimizerSettings("adamw", lr=2e-3, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=40, monitor="val/accuracy", clip_norm=1.0),
    protocol=Protocol(
        ("test/accuracy",),
        "none (72.8 % in Xu et al., 2019, for 345 categories with 1,000 sketches of each)",
        "150 categories, 15 / 5 / 5 sketches of each; best of 40 epochs by validation",
        seeds=3,
    ),
)
