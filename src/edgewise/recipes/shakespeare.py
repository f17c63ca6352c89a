"""Recipes on the characters of tiny Shakespeare; the test set is the last tenth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from edgewise import data, graphs, models, tasks, training
from edgewise.recipes.recipe import Protocol, Recipe

CONTEXT = 64
MATRICES = r"(?<!norm\.)weight$|table$"  # Weight decay applies to these, not to biases and norms.
PLAIN = Protocol(
    ("test/loss",),
    "1.88 (nanoGPT's recipe, on a sample)",
    "nats per character on the last tenth, each predicted once with half a context or more"
    " (0.02 higher with disjoint windows)",
)
LAST: dict[str, Any] = {"monitor": "val/loss", "mode": "min"}
gpt = partial(models.gpt, width=128, depth=4, heads=4, max_length=CONTEXT, act="gelu", dropout=0.0)

gpt_shakespeare = Recipe(
    name="gpt-shakespeare",
    summary="GPT with nanoGPT's settings for a CPU, 2000 steps",
    model=gpt,
    data=data.shakespeare(context=CONTEXT, stride=CONTEXT // 2, batch_size=12, windows=12 * 200),
    task=tasks.LanguageModeling(),
    optimizer=training.OptimizerSettings(
        lr=1e-3, beta2=0.99, weight_decay=0.1, decay_only=MATRICES
    ),
    schedule=training.CosineSchedule(warmup=0.05, floor=0.1),
    trainer=training.TrainerSettings(epochs=10, clip_norm=1.0, **LAST),
    protocol=replace(PLAIN, seeds=3),
)

gpt_shakespeare_best = Recipe(
    name="gpt-shakespeare-best",
    summary="As gpt-shakespeare, with rotary positions, gated FFN and a higher learning rate",
    model=partial(models.llama, width=128, depth=4, heads=4, ffn_dim=344, tied=True),
    data=data.shakespeare(context=128, stride=64, batch_size=6, windows=6 * 200),
    task=tasks.LanguageModeling(),
    optimizer=training.OptimizerSettings(
        lr=4e-3, beta2=0.99, weight_decay=0.1, decay_only=MATRICES
    ),
    schedule=training.CosineSchedule(warmup=0.05),
    trainer=training.TrainerSettings(epochs=8, clip_norm=1.0, ema_decay=0.99, **LAST),
    protocol=PLAIN,
)

gpt_shakespeare_long = replace(
    gpt_shakespeare_best,
    name="gpt-shakespeare-long",
    summary="As gpt-shakespeare-best, with twice the context and windows of 64",
    model=partial(gpt_shakespeare_best.model, graph=graphs.causal() & graphs.window(64)),
    data=data.shakespeare(context=256, stride=128, batch_size=3, windows=3 * 200),
)

lstm_shakespeare = replace(
    gpt_shakespeare,
    name="lstm-shakespeare",
    summary="LSTM baseline with the size and context of gpt-shakespeare",
    model=partial(models.lstm, width=224, depth=2, dropout=0.0),
    optimizer=replace(gpt_shakespeare.optimizer, lr=4e-3),
    protocol=PLAIN,
)
