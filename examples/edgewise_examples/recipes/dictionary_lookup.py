"""Recipes on DictionaryLookup, a data set that GATv2 can fit and GAT cannot."""

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

BY = "500 random dictionaries of 10 keys; best epoch by validation loss"

gatv2_dictionary = Recipe(
    name="gatv2-dictionary",
    summary="GATv2 with one head on DictionaryLookup, which it can fit",
    model=partial(models.gatv2, head_width=64, heads=1, dropout=0.0),
    data=data.dictionary_lookup(),
    task=Classification(),
    optimizer=OptimizerSettings("adam", lr=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=25, monitor="val/loss", mode="min"),
    protocol=Protocol(("test/accuracy",), "fitted by one head (Brody et al., 2022)", BY, seeds=3),
)

gat_dictionary = replace(
    gatv2_dictionary,
    name="gat-dictionary",
    summary="GAT with one head on DictionaryLookup, which it cannot fit",
    model=partial(models.gat, head_width=64, heads=1, output_heads=1, dropout=0.0),
    protocol=Protocol(
        ("test/accuracy",), "not fitted by one head (Brody et al., 2022)", BY, seeds=3
    ),
)
