"""Recipes of character-level language models: Shakespeare, War and Peace, the user's texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import graphs, models
from edgewise.app.kinds.language.files import Shakespeare, TextFiles, WarAndPeace
from edgewise.app.kinds.language.task import LanguageModeling
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule

CONTEXT = 64
MATRICES = r"(?<!norm\.)weight$|table$"  # Weight decay applies to these, not to biases and norms.
PLAIN = Protocol(
    ("test/loss",),
    "1.88 (nanoGPT on a CPU, on a sample, also at positions with little context)",
    "nats per character on the last tenth of the text, with at least half a window of context",
    seeds=3,
)
LAST: dict[str, Any] = {"monitor": "val/loss", "mode": "min"}
gpt = partial(models.gpt, width=128, depth=4, heads=4, max_length=CONTEXT, act="gelu", dropout=0.0)

gpt_shakespeare = Recipe(
    name="gpt-shakespeare",
    summary="GPT on the characters of Shakespeare, with nanoGPT's settings for a CPU, 2,000 steps",
    model=gpt,
    data=Shakespeare(context=CONTEXT, stride=CONTEXT // 2, batch_size=12, windows=12 * 200),
    task=LanguageModeling(),
    optimizer=OptimizerSettings(lr=1e-3, beta2=0.99, weight_decay=0.1, decay_only=MATRICES),
    schedule=CosineSchedule(warmup=0.05, floor=0.1),
    trainer=TrainerSettings(epochs=10, clip_norm=1.0, **LAST),
    protocol=PLAIN,
)

gpt_shakespeare_best = Recipe(
    name="gpt-shakespeare-best",
    summary="gpt-shakespeare with rotary positions, a gated FFN and a higher learning rate",
    model=partial(models.llama, width=128, depth=4, heads=4, ffn_dim=344, tied=True),
    data=Shakespeare(context=128, stride=64, batch_size=6, windows=6 * 200),
    task=LanguageModeling(),
    optimizer=OptimizerSettings(lr=4e-3, beta2=0.99, weight_decay=0.1, decay_only=MATRICES),
    schedule=CosineSchedule(warmup=0.05),
    trainer=TrainerSettings(epochs=8, clip_norm=1.0, ema_decay=0.99, **LAST),
    protocol=PLAIN,
)

gpt_shakespeare_long = replace(
    gpt_shakespeare_best,
    name="gpt-shakespeare-long",
    summary="gpt-shakespeare-best with twice the context and attention to the last 64 characters",
    model=partial(gpt_shakespeare_best.model, graph=graphs.causal() & graphs.window(64)),
    data=Shakespeare(context=256, stride=128, batch_size=3, windows=3 * 200),
    protocol=PLAIN,
)

lstm_shakespeare = replace(
    gpt_shakespeare,
    name="lstm-shakespeare",
    summary="LSTM baseline with the size and context of gpt-shakespeare",
    model=partial(models.lstm, width=224, depth=2, dropout=0.0),
    optimizer=replace(gpt_shakespeare.optimizer, lr=4e-3),
    protocol=PLAIN,
)

LENGTH = 2048
SPLITS: dict[str, Any] = {"val": 0.005, "test": 0.05}
EVERY_64 = tuple(range(63, LENGTH, 64))

xl_war_and_peace = replace(
    gpt_shakespeare_best,
    name="xl-war-and-peace",
    summary="Transformer-XL on War and Peace: segments of 8 characters, memory of 8 characters",
    model=partial(models.transformer_xl, memory=8, order="pre", dropout=0.0),
    data=WarAndPeace(context=8, consecutive=True, batch_size=96, windows=96 * 1000, **SPLITS),
    optimizer=replace(gpt_shakespeare_best.optimizer, lr=3e-3),
    trainer=replace(gpt_shakespeare_best.trainer, epochs=1),
    protocol=Protocol(
        ("test/loss",),
        "none",
        "nats per character on the last twentieth of the text, read in consecutive segments",
        seeds=3,
    ),
)

long_war_and_peace = replace(
    gpt_shakespeare_best,
    name="long-war-and-peace",
    summary="Llama on War and Peace: a window of 128, and hubs at every 64th of 2,048 characters",
    model=partial(
        gpt_shakespeare_best.model,
        graph=graphs.causal() & (graphs.window(128) | graphs.hubs(EVERY_64)),
    ),
    data=WarAndPeace(context=LENGTH, stride=LENGTH // 2, batch_size=1, windows=100, **SPLITS),
    trainer=replace(gpt_shakespeare_best.trainer, epochs=3),
    protocol=Protocol(
        ("test/loss",),
        "none",
        "nats per character on the last twentieth of the text, with at least half a window of "
        "context",
        seeds=3,
    ),
)

writing = replace(
    gpt_shakespeare_best,
    name="writing",
    summary="Language model of your text files: --data.paths book.txt",
    data=TextFiles(context=128, stride=64, batch_size=6, windows=6 * 200),
    protocol=None,
)
