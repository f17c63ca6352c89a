"""Recipes for predicting the dependency relation of each word, if the syntax tree is given.

``--data.links chain`` replaces the tree by a chain of the words. The tree-LSTM then becomes a
bidirectional LSTM, and the tree Transformer a Transformer with relative positions.
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

BY = "2,000 training sentences, heads given; best of 5 epochs by validation"

tree_lstm_ewt = Recipe(
    name="tree-lstm-ewt",
    summary="Tree-LSTM on English syntax trees: the relation of each word to its head",
    model=partial(models.tree_lstm, width=96, bidirectional=True, dropout=0.2),
    data=data.ewt_trees(train_rows=2000),
    task=Classification(),
    optimizer=OptimizerSettings("adamw", lr=1e-2, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=5, monitor="val/accuracy", clip_norm=1.0),
    protocol=Protocol(("test/accuracy",), "none", BY, seeds=3),
)

tree_transformer_ewt = Recipe(
    name="tree-transformer-ewt",
    summary="Tree Transformer on English syntax trees: the relation of each word to its head",
    model=partial(models.tree_transformer, width=96, depth=2, heads=4, dropout=0.2),
    data=data.ewt_trees(train_rows=2000),
    task=Classification(),
    optimizer=OptimizerSettings("adamw", lr=4e-3, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=5, monitor="val/accuracy", clip_norm=1.0),
    protocol=Protocol(("test/accuracy",), "none", BY, seeds=3),
)
