"""Tagging recipe for the user's own sentences."""

from __future__ import annotations

from functools import partial

from edgewise import data, graphs, tasks, training
from edgewise.recipes.bert import trunk
from edgewise.recipes.recipe import Recipe

tags = Recipe(
    name="tags",
    summary="Small BERT tags your words: --data.path mine.conllu, or lines of a word and its tag",
    model=partial(trunk, dropout=0.2, graph=graphs.window(4)),
    data=data.tag_file(vocab_size=6000, word_dropout=0.1, batch_size=32),
    task=tasks.Tagging(dropout=0.2),
    optimizer=training.OptimizerSettings(lr=1e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=10, clip_norm=1.0, monitor="val/loss", mode="min"),
)
