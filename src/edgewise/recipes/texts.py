"""Recipe of text classification on texts of the user."""

from __future__ import annotations

from functools import partial

from edgewise import data, tasks, training
from edgewise.recipes.bert import trunk
from edgewise.recipes.recipe import Recipe

texts = Recipe(
    name="texts",
    summary="Small BERT classifies your texts: --data.path mine.csv; --from fine-tunes",
    model=partial(trunk, dropout=0.3),
    data=data.text_table(lowercase=True, vocab_size=8000, word_dropout=0.2, batch_size=32),
    task=tasks.TextClassification(pool="mean", dropout=0.3),
    optimizer=training.OptimizerSettings(lr=5e-4, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=8, clip_norm=1.0, monitor="val/loss", mode="min"),
)
