"""Recipes on tiny Shakespeare, character by character; the test split is the whole last tenth."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

CONTEXT = 64
MATRICES = r"(?<!norm\.)weight$|table$"  # what decays: not biases, not norms


gpt_shakespeare = Recipe(
    name="gpt-shakespeare",
    summary="GPT with nanoGPT's numbers for a CPU, 2000 steps",
    model=partial(models.gpt, width=128, depth=4, heads=4, length=CONTEXT, dropout=0.0),
    data=data.shakespeare(context=CONTEXT, batch_size=12, windows=12 * 200),
    task=tasks.language_modeling(),
    optimizer=training.Optimizer(lr=1e-3, beta2=0.99, weight_decay=0.1, decay_only=MATRICES),
    schedule=training.cosine(warmup=0.05, floor=0.1),
    trainer=training.Trainer(epochs=10, clip_norm=1.0, monitor="val/loss", better="lower"),
)
