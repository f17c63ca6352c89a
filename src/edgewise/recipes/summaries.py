"""The recipe on summaries: which sentences of an article are in its lead?"""

from __future__ import annotations

from functools import partial

from edgewise import data, tasks, training
from edgewise.recipes.recipe import Recipe
from edgewise.recipes.texts import trunk

summarise_wikitext = Recipe(
    name="summarise-wikitext",
    summary="BERT, small, chooses 3 sentences of a Wikipedia article as its lead; --from tunes",
    model=partial(trunk, dropout=0.2),
    data=data.wiki_summaries(),
    task=tasks.extraction(),
    optimizer=training.Optimizer(lr=3e-4, weight_decay=0.01),
    schedule=training.linear(warmup=0.1),
    trainer=training.Trainer(epochs=8, clip_norm=1.0, monitor="val/auc"),
)
