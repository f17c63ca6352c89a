"""Recipes on CSL: ten classes of circulant graphs, and what a model can tell apart of them.

All nodes look the same to a network of messages, which can therefore only guess. What the codes of
a model tell apart it can learn: all ten by eigenvectors or long walks, nine by the lengths of
shortest paths (skips 6 and 16 have equal ones).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import models, tasks, training
from edgewise.recipes import Protocol, Recipe
from edgewise_examples import data

gnn_csl = Recipe(
    name="gnn-csl",
    summary="Plain graph network on CSL: it can only guess",
    model=partial(models.graph_gnn, hidden=32),
    data=data.csl(),
    task=tasks.Classification(),
    optimizer=training.OptimizerSettings("adamw", lr=3e-3),
    schedule=training.CosineSchedule(warmup=0.3),
    trainer=training.TrainerSettings(epochs=20, monitor="val/loss", better="lower", clip_norm=1.0),
    protocol=Protocol(
        ("test/accuracy",),
        "10 % (Dwivedi et al., 2020)",
        "stratified folds, epoch by a quarter of the other four",
        folds=True,
    ),
)


def _beside(recipe: Recipe, *, epochs: int, reference: str, **changes: Any) -> Recipe:
    """Another model on the same graphs, measured in the same way."""
    trainer, protocol = replace(recipe.trainer, epochs=epochs), recipe.protocol
    assert protocol is not None
    protocol = replace(protocol, reference=reference)
    return replace(recipe, trainer=trainer, protocol=protocol, **changes)


gin_csl = replace(
    gnn_csl,
    name="gin-csl",
    summary="Graph isomorphism network on CSL: it can only guess",
    model=partial(models.graph_gin, hidden=32),
)

gps_csl = _beside(
    gnn_csl,
    name="gps-csl",
    summary="GPS on CSL with 20-step random walks, which tell all classes apart",
    model=partial(models.gps, width=32, depth=2, heads=2, attention_dropout=0.0, pool="mean"),
    epochs=40,
    reference="100 % (Rampášek et al., 2022)",
)

laplacian_csl = _beside(
    gps_csl,
    name="laplacian-csl",
    summary="GPS on CSL with 20 Laplacian eigenvectors of random signs",
    model=partial(gps_csl.model, position="laplacian", depth=3),
    epochs=100,
    reference="100 % (Dwivedi et al., 2020)",
)

graphormer_csl = _beside(
    gnn_csl,
    name="graphormer-csl",
    summary="Graphormer on CSL: shortest paths tell nine classes apart, skips 6 and 16 are one",
    model=partial(models.graphormer, width=32, depth=2, heads=4, dropout=0.0, longest=10),
    # All training graphs at once: distances speak only through how much the nodes read of the
    # special one, too softly at first to be heard over another mixture of classes in each batch.
    data=data.csl(batch_size=100),
    optimizer=training.OptimizerSettings("adamw", lr=5e-3, beta2=0.99),
    epochs=600,
    reference="90 %: two classes have equal distances",
)
