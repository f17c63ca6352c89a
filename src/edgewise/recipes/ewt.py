"""Recipes on English web texts: the part of speech of each word."""

from __future__ import annotations

from functools import partial

from edgewise import data, graphs, tasks, training
from edgewise.recipes.bert import trunk
from edgewise.recipes.recipe import Protocol, Recipe

tag_ewt = Recipe(
    name="tag-ewt",
    summary="BERT, small, on English web texts: the part of speech of each word",
    model=partial(trunk, dropout=0.2, graph=graphs.window(4)),
    data=data.ewt(vocabulary_size=6000, word_dropout=0.1, batch_size=32),
    task=tasks.Tagging(dropout=0.2),
    optimizer=training.Optimizer(lr=1e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=6, clip_norm=1.0),
    protocol=Protocol(("test/accuracy",), "none", "universal tags, the published test sentences"),
)
