"""Recipes on CSL: ten classes of circulant graphs, and what a model can tell apart of them.

All nodes look the same to a network of messages, which can therefore only guess. What the codes of
a model tell apart it can learn: all ten by eigenvectors or long walks, nine by the lengths of
shortest paths (skips 6 and 16 have equal ones).
"""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

BY = "stratified folds, epoch by a quarter of the other four"
_RISING = training.CosineSchedule(warmup=0.3)


def _trainer(epochs: int) -> training.TrainerSettings:
    return training.TrainerSettings(
        epochs=epochs, monitor="val/loss", better="lower", clip_norm=1.0
    )


gnn_csl = Recipe(
    name="gnn-csl",
    summary="Plain graph network on CSL: it can only guess",
    model=partial(models.graph_gnn, hidden=32),
    data=data.csl(),
    task=tasks.Classification(),
    optimizer=training.Optimizer("adamw", lr=3e-3),
    schedule=_RISING,
    trainer=_trainer(20),
    protocol=Protocol(("test/accuracy",), "10 % (Dwivedi et al., 2020)", BY, folds=True),
)

gin_csl = Recipe(
    name="gin-csl",
    summary="Graph isomorphism network on CSL: it can only guess",
    model=partial(models.graph_gin, hidden=32),
    data=data.csl(),
    task=tasks.Classification(),
    optimizer=training.Optimizer("adamw", lr=3e-3),
    schedule=_RISING,
    trainer=_trainer(20),
    protocol=Protocol(("test/accuracy",), "10 % (Dwivedi et al., 2020)", BY, folds=True),
)

gps_csl = Recipe(
    name="gps-csl",
    summary="GPS on CSL with 20-step random walks, which tell all classes apart",
    model=partial(models.gps, width=32, depth=2, heads=2, attention_dropout=0.0, pool="mean"),
    data=data.csl(),
    task=tasks.Classification(),
    optimizer=training.Optimizer("adamw", lr=3e-3),
    schedule=_RISING,
    trainer=_trainer(40),
    protocol=Protocol(("test/accuracy",), "100 % (Rampášek et al., 2022)", BY, folds=True),
)

laplacian_csl = Recipe(
    name="laplacian-csl",
    summary="GPS on CSL with 20 Laplacian eigenvectors of random signs",
    model=partial(
        models.gps,
        position="laplacian",
        width=32,
        depth=3,
        heads=2,
        attention_dropout=0.0,
        pool="mean",
    ),
    data=data.csl(),
    task=tasks.Classification(),
    optimizer=training.Optimizer("adamw", lr=3e-3),
    schedule=_RISING,
    trainer=_trainer(100),
    protocol=Protocol(("test/accuracy",), "100 % (Dwivedi et al., 2020)", BY, folds=True),
)

graphormer_csl = Recipe(
    name="graphormer-csl",
    summary="Graphormer on CSL: shortest paths tell nine classes apart, skips 6 and 16 are one",
    model=partial(models.graphormer, width=32, depth=2, heads=4, dropout=0.0, longest=10),
    # All training graphs at once: distances speak only through how much the nodes read of the
    # special one, too softly at first to be heard over another mixture of classes in each batch.
    data=data.csl(batch_size=100),
    task=tasks.Classification(),
    optimizer=training.Optimizer("adamw", lr=5e-3, beta2=0.99),
    schedule=_RISING,
    trainer=_trainer(600),
    protocol=Protocol(("test/accuracy",), "90 %: two classes have equal distances", BY, folds=True),
)
