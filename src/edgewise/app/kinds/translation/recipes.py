"""Recipes of text pairs: Multi30k from English to German, and the user's own pairs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import models
from edgewise.app.kinds.translation.data import Multi30k
from edgewise.app.kinds.translation.files import PairTable
from edgewise.app.kinds.translation.task import Translation
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule

SIZES: dict[str, Any] = {
    **{"width": 256, "depth": 3, "heads": 4, "ffn_dim": 512},
    **{"dropout": 0.2, "order": "pre"},
}

BLEU = Protocol(
    ("test/bleu",),
    "none (41.0 of Transformer-Tiny is for lower-cased, tokenised text, after 8,000 updates of "
    "4,096 tokens on two GPUs)",
    "test set of 2016, beam size 5, sacrebleu; best epoch by validation loss",
    seeds=2,
)

transformer_multi30k = Recipe(
    name="transformer-multi30k",
    summary="Transformer translates English captions to German with beam search",
    model=partial(models.transformer, **SIZES),
    data=Multi30k(vocab_size=8000, batch_size=4096),
    task=Translation(label_smoothing=0.1, num_beams=5),
    optimizer=OptimizerSettings("adam", lr=1e-3),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=12, monitor="val/loss", mode="min", clip_norm=1.0),
    protocol=BLEU,
)

SHORT = replace(BLEU, reference="none", seeds=3)

light_conv_multi30k = replace(
    transformer_multi30k,
    name="light-conv-multi30k",
    summary="Lightweight convolutions translate English captions to German, trained for 3 epochs",
    model=partial(models.light_conv, kernels=(3, 7, 15), **SIZES),
    trainer=replace(transformer_multi30k.trainer, epochs=3),
    protocol=SHORT,
)

dynamic_conv_multi30k = replace(
    light_conv_multi30k,
    name="dynamic-conv-multi30k",
    summary="Dynamic convolutions translate English captions to German, trained for 3 epochs",
    model=partial(models.dynamic_conv, kernels=(3, 7, 15), **SIZES),
)

pairs = replace(
    transformer_multi30k,
    name="pairs",
    summary="Transformer generates the second text of your pairs: --data.path mine.csv",
    data=PairTable(vocab_size=8000, batch_size=1024),
    trainer=replace(transformer_multi30k.trainer, epochs=20),
    protocol=None,
)
