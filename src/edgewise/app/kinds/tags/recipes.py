"""Recipes of tagging: parts of speech of English web texts, and the user's own sentences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import graphs, models
from edgewise.app.kinds.tags.files import EWT, TagFile
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule
from edgewise.app.train.tasks.text_classification import Tagging
from edgewise.app.train.text.small_bert import backbone

TAGS = Protocol(
    ("test/accuracy",), "none", "universal part-of-speech tags, published split", seeds=3
)

tag_ewt = Recipe(
    name="tag-ewt",
    summary="Small BERT, part-of-speech tagging of English web texts",
    model=partial(backbone, dropout=0.2, graph=graphs.window(4)),
    data=EWT(vocab_size=6000, word_dropout=0.1, batch_size=32),
    task=Tagging(dropout=0.2),
    optimizer=OptimizerSettings(lr=1e-3, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=6, clip_norm=1.0),
    protocol=TAGS,
)


def _recurrent(name: str, model: Any) -> Recipe:
    """Return a recipe of a bidirectional recurrent network, with settings tuned for the LSTM."""
    return replace(
        tag_ewt,
        name=f"{name}-ewt",
        summary=f"{name.upper()}, bidirectional, on English web texts: a baseline of tag-ewt",
        model=partial(model, width=128, depth=1, bidirectional=True, dropout=0.3),
        optimizer=replace(tag_ewt.optimizer, lr=3e-3),
        protocol=TAGS,
    )


lstm_ewt = _recurrent("lstm", models.lstm)
gru_ewt = _recurrent("gru", models.gru)
rnn_ewt = _recurrent("rnn", models.rnn)

tags = replace(
    tag_ewt,
    name="tags",
    summary="Small BERT tags your words: --data.path mine.conllu, or lines of a word and its tag",
    data=TagFile(vocab_size=6000, word_dropout=0.1, batch_size=32),
    trainer=replace(tag_ewt.trainer, epochs=10, monitor="val/loss", mode="min"),
    protocol=None,
)
