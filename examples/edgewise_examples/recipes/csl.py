"""Recipes for classifying CSL graphs, circulant graphs of ten classes.

The neighbourhoods of all nodes look the same to message passing, so it can only guess. Eigenvectors
and long random walks distinguish all ten classes. Shortest paths distinguish nine: graphs with skip
6 and graphs with skip 16 have the same distances.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

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

gnn_csl = Recipe(
    name="gnn-csl",
    summary="Plain graph network on CSL, at chance level",
    model=partial(models.graph_gnn, width=32),
    data=data.csl(),
    task=Classification(),
    optimizer=OptimizerSettings("adamw", lr=3e-3),
    schedule=CosineSchedule(warmup=0.3),
    trainer=TrainerSettings(epochs=20, monitor="val/loss", mode="min", clip_norm=1.0),
    protocol=Protocol(
        ("test/accuracy",),
        "10 % (Dwivedi et al., 2020)",
        "stratified folds, best epoch on a quarter of the other four folds",
        folds=True,
    ),
)


def _beside(recipe: Recipe, *, epochs: int, reference: str, **changes: Any) -> Recipe:
    """Return a recipe with ``changes``, evaluated in the same way; ``reference`` is published."""
    trainer, protocol = replace(recipe.trainer, epochs=epochs), recipe.protocol
    assert protocol is not None
    protocol = replace(protocol, reference=reference)
    return replace(recipe, trainer=trainer, protocol=protocol, **changes)


gin_csl = replace(
    gnn_csl,
    name="gin-csl",
    summary="Graph isomorphism network on CSL, at chance level",
    model=partial(models.graph_gin, width=32),
)

gps_csl = _beside(
    gnn_csl,
    name="gps-csl",
    summary="GPS on CSL with 20-step random walks, which distinguish all classes",
    model=partial(models.gps, width=32, depth=2, heads=2, attention_dropout=0.0, pool="mean"),
    epochs=40,
    reference="none",
)

laplacian_csl = _beside(
    gps_csl,
    name="laplacian-csl",
    summary="GPS on CSL with 20 Laplacian eigenvectors with random signs",
    model=partial(gps_csl.model, position="laplacian", depth=3),
    epochs=100,
    reference="100 % (Dwivedi et al., 2020)",
)

graphormer_csl = _beside(
    gnn_csl,
    name="graphormer-csl",
    summary="Graphormer on CSL: shortest paths distinguish nine of ten classes",
    model=partial(models.graphormer, width=32, depth=2, heads=4, dropout=0.0, max_distance=10),
    # Put all training graphs in one batch. The gradient of the distance bias is small at first, and
    # small batches with random classes would hide it.
    data=data.csl(batch_size=100),
    optimizer=OptimizerSettings("adamw", lr=5e-3, beta2=0.99),
    epochs=600,
    reference="none (at most 90 %: two classes have equal distances)",
)
