"""Recipes of text classification: film reviews, few labels, and the user's own texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import data, models, tasks, training
from edgewise.recipes.bert import trunk
from edgewise.recipes.recipe import Protocol, Recipe

SENTENCES = Protocol(
    ("test/accuracy",),
    "80 to 83 % (usual for models trained from scratch), 93.5 % (BERT-base, pre-trained)",
    "published split, trained from scratch",
    seeds=3,
)

reviews = data.sst2(lowercase=True, vocab_size=8000, word_dropout=0.2, batch_size=32)

sst2 = Recipe(
    name="sst2",
    summary="Small BERT, sentiment of film reviews; --from fine-tunes a run of bert-wikitext",
    model=partial(trunk, dropout=0.3),
    data=replace(reviews, naive_bayes=True),
    task=tasks.TextClassification(pool="mean", dropout=0.3),
    optimizer=training.OptimizerSettings(lr=5e-4, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=5, clip_norm=1.0),
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
        task=tasks.TextClassification(pool="max", dropout=0.5),
        optimizer=replace(sst2.optimizer, lr=1e-3),
        protocol=replace(
            SENTENCES, reference="80.7 % (the Transformer of `sst2`, without naive Bayes)"
        ),
    )


lstm_sst2 = _recurrent("lstm", models.lstm)
gru_sst2 = _recurrent("gru", models.gru)
rnn_sst2 = _recurrent("rnn", models.rnn)

# Without layers and positions, the mean of the token embeddings represents a text.
bag = partial(models.bert, width=128, depth=0, heads=4, max_length=384, positions="none", types=0)

contrastive_sst2 = Recipe(
    name="contrastive-sst2",
    summary="Mean of token embeddings, pre-trained to match the two halves of a film review",
    model=partial(bag, dropout=0.1),
    data=data.text_halves(sources=("sst2",)),
    task=tasks.Contrastive(temperature=0.2),
    optimizer=training.OptimizerSettings(lr=5e-3, weight_decay=0.01),
    schedule=training.CosineSchedule(warmup=0.1),
    trainer=training.TrainerSettings(epochs=16, clip_norm=1.0),
)

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
    data=data.text_table(
        lowercase=True, vocab_size=8000, word_dropout=0.2, naive_bayes=True, batch_size=32
    ),
    trainer=replace(sst2.trainer, epochs=8),
    protocol=None,
)
