"""Recipes for distinguishing a ring of six nodes from two rings of three, by GPS.

Without positional encodings, message passing and attention compute the same at all nodes, so the
model can only guess. Random node features, sampled in every call, make the nodes different. The
model can then recognise that a path returns to its start after three steps, or only after six.
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
from edgewise_examples import data

random_rings = Recipe(
    name="random-rings",
    summary="GPS with random node features: one ring of six nodes or two rings of three",
    model=partial(
        models.gps,
        position="random",
        position_size=8,
        width=32,
        depth=3,
        heads=2,
        attention_dropout=0.0,
        pool="mean",
    ),
    data=data.rings(),
    task=Classification(),
    optimizer=OptimizerSettings("adamw", lr=2e-3),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=50, monitor="val/loss", mode="min"),
    protocol=Protocol(("test/accuracy",), "none", "best of 50 epochs by validation loss", seeds=3),
)

gps_rings = replace(
    random_rings,
    name="gps-rings",
    summary="GPS without positions: one ring of six nodes or two rings of three, at chance level",
    model=partial(random_rings.model, position="none"),
)
