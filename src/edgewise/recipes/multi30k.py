"""Recipes on Multi30k, English to German: published BLEU 41.0 on test 2016 (text alone)."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

transformer_multi30k = Recipe(
    name="transformer-multi30k",
    summary="Transformer translates English captions to German; BLEU by beam search at the end",
    model=partial(
        models.transformer,
        width=128,
        depth=4,
        heads=4,
        feed_forward=256,
        dropout=0.3,
        order="pre",
    ),
    data=data.multi30k(vocabulary_size=10_000, batch_size=4096),
    task=tasks.translation(smoothing=0.1, beams=5),
    optimizer=training.Optimizer("adam", lr=3e-3),
    schedule=training.noam(warmup=0.1),
    trainer=training.Trainer(
        epochs=26, monitor="val/loss", better="lower", average_last=10, clip_norm=1.0
    ),
    protocol=Protocol(
        ("test/bleu",),
        "41.0 (Transformer-Tiny, text alone, a long run)",
        "test 2016, beam 5, sacrebleu; mean of the last 10 epochs' weights",
    ),
)
