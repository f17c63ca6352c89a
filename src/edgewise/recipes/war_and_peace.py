"""Recipes on the characters of War and Peace; the test set is the last twentieth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import data, graphs, models
from edgewise.recipes.recipe import Protocol
from edgewise.recipes.shakespeare import gpt_shakespeare_best

LENGTH = 2048
SPLITS: dict[str, Any] = {"val": 0.005, "test": 0.05}
EVERY_64 = tuple(range(63, LENGTH, 64))

xl_war_and_peace = replace(
    gpt_shakespeare_best,
    name="xl-war-and-peace",
    summary="Transformer-XL with segments of 8 characters and a memory of 8, batch size 96",
    model=partial(models.transformer_xl, memory=8, order="pre", dropout=0.0),
    data=data.war_and_peace(
        context=8, consecutive=True, batch_size=96, windows=96 * 1000, **SPLITS
    ),
    optimizer=replace(gpt_shakespeare_best.optimizer, lr=3e-3),
    trainer=replace(gpt_shakespeare_best.trainer, epochs=1),
    protocol=Protocol(
        ("test/loss",),
        "the rows below, without memory: worse in the same time, better in 1.27 times the time",
        "nats per character on the last twentieth, each predicted once, in consecutive segments",
    ),
)

long_war_and_peace = replace(
    gpt_shakespeare_best,
    name="long-war-and-peace",
    summary="Causal window of 128 and hubs at every 64th of 2,048 characters",
    model=partial(
        gpt_shakespeare_best.model,
        graph=graphs.causal() & (graphs.window(128) | graphs.hubs(EVERY_64)),
    ),
    data=data.war_and_peace(
        context=LENGTH, stride=LENGTH // 2, batch_size=1, windows=100, **SPLITS
    ),
    trainer=replace(gpt_shakespeare_best.trainer, epochs=3),
    protocol=Protocol(
        ("test/loss",),
        "the row below: full attention",
        "nats per character on the last twentieth, each scored once with half a context or more",
    ),
)
