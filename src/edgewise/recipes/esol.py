"""Recipes on ESOL, solubility in water in log10 mol/L: random 5-fold cross-validation."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.masked_molecules import trunk
from edgewise.recipes.recipe import Protocol, Recipe

BY_FOLDS = "random folds, best epoch on 1/10 of the other four"

gin_esol = Recipe(
    name="gin-esol",
    summary="Graph isomorphism network on ESOL; --folds gives the RMSE over 5 random folds",
    model=partial(models.graph_gin, width=64, depth=3, dropout=0.1, pool="mean"),
    data=data.esol(bonds=False),
    task=tasks.Regression(),
    optimizer=training.OptimizerSettings("adamw", lr=2e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(),
    trainer=training.TrainerSettings(epochs=60, monitor="val/rmse", mode="min", clip_norm=5.0),
    protocol=Protocol(("test/rmse",), "none on this split", BY_FOLDS, folds=True),
)

attentive_esol = Recipe(
    name="attentive-esol",
    summary="Molecule transformer on ESOL; --folds gives the RMSE over 5 random folds",
    model=partial(models.molecule_transformer, width=64, depth=4, heads=4, dropout=0.05),
    data=data.esol(),
    task=tasks.Regression(),
    optimizer=training.OptimizerSettings("adamw", lr=1e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(),
    trainer=training.TrainerSettings(
        epochs=50, monitor="val/rmse", mode="min", ema_decay=0.99, clip_norm=5.0
    ),
    protocol=Protocol(("test/rmse",), "0.592 (AttentiveFP in one study)", BY_FOLDS, folds=True),
)

gps_esol = Recipe(
    name="gps-esol",
    summary="GPS on ESOL with the size of masked-molecules, for fine-tuning with --from",
    model=partial(trunk, dropout=0.05, pool="sum"),
    data=data.esol(),
    task=tasks.Regression(),
    optimizer=training.OptimizerSettings("adamw", lr=3e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(
        epochs=40, monitor="val/rmse", mode="min", ema_decay=0.99, clip_norm=5.0
    ),
    protocol=Protocol(("test/rmse",), "`attentive-esol` on the same folds", BY_FOLDS, folds=True),
)
