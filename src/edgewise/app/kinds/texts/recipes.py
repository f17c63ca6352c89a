"""Recipes of text classification: film reviews, few labels, and the user's own texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import models
from edgewise.app.kinds.texts.files import SST2, TextTable
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule
from edgewise.app.train.tasks.text_classification import TextClassification
from edgewise.app.train.text.small_bert import backbone, bag

SENTENCES = Protocol(
    ("test/accuracy",),
    "none (88.1 % in Kim, 2014, with pre-trained word vectors and labelled phrases)",
    "published split, trained from scratch",
    seeds=3,
)

reviews = SST2(lowercase=True, vocab_size=8000, word_dropout=0.2, batch_size=32)

sst2 = Recipe(
    name="sst2",
    summary="Small BERT, sentiment of film reviews; --from fine-tunes a run of bert-wikitext",
    model=partial(backbone, dropout=0.3),
    data=replace(reviews, naive_bayes=True),
    task=TextClassification(pool="mean", dropout=0.3),
    optimizer=OptimizerSettings(lr=5e-4, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=5, clip_norm=1.0),
    protocol=SENTENCES,
)


def _recurrent(name: str, model: Any) -> Recipe:
    """Return a recipe of a bidirectional recurrent network, with settings tuned for the LSTM."""
    return replace(
        sst2,
        name=f"{name}-sst2",
        summary=f"{name.upper()}, bidirectional, on film reviews: a baseline of sst2",
        model=partial(model, width=128, depth=1, bidirectional=True, dropout=0.5),
        data=reviews,
        task=TextClassification(pool="max", dropout=0.5),
        optimizer=replace(sst2.optimizer, lr=1e-3),
        protocol=SENTENCES,
    )


lstm_sst2 = _recurrent("lstm", models.lstm)
gru_sst2 = _recurrent("gru", models.gru)
rnn_sst2 = _recurrent("rnn", models.rnn)


bag_sst2 = replace(
    sst2,
    name="bag-sst2",
    summary="Mean of token embeddings, sentiment of film reviews; --from a run of contrastive-sst2",
    model=partial(bag, dropout=0.3),
    data=reviews,
    optimizer=replace(sst2.optimizer, lr=2e-3),
    trainer=replace(sst2.trainer, epochs=20),
    protocol=None,
)

# The validation accuracy chooses the epoch. The validation loss is lowest early, because the model
# becomes too confident while its accuracy still increases (SST-2: accuracy 75.5 % at the lowest
# loss, 79.4 % at the end).
texts = replace(
    sst2,
    name="texts",
    summary="Small BERT classifies your texts: --data.path mine.csv; --from fine-tunes a run",
    data=TextTable(
        lowercase=True, vocab_size=8000, word_dropout=0.2, naive_bayes=True, batch_size=32
    ),
    trainer=replace(sst2.trainer, epochs=8),
    protocol=None,
)
