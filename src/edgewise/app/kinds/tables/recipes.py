"""Recipes on tables with keys: a generated shop, and the user's database."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.tables.data import Shop, Tables
from edgewise.app.train.recipe import OptimizerSettings, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule
from edgewise.app.train.tasks.property_prediction import PropertyPrediction

shop = Recipe(
    name="shop",
    summary="Relational Transformer on a generated shop: which customers leave",
    model=partial(models.relational_transformer, width=64, depth=2, heads=4, dropout=0.1),
    data=Shop(),
    task=PropertyPrediction(),
    optimizer=OptimizerSettings("adamw", lr=1e-3, weight_decay=0.05),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=10, clip_norm=1.0, monitor="val/loss", mode="min"),
)

tables = replace(
    shop,
    name="tables",
    summary="Relational Transformer on your tables: --data.path FOLDER --data.target TABLE.COLUMN",
    data=Tables(),
)
