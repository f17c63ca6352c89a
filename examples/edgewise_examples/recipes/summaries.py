"""Recipe for extractive summarisation of Wikipedia articles."""

from __future__ import annotations

from functools import partial

from edgewise.app.train import LinearSchedule, OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.text.small_bert import backbone
from edgewise_examples import data, tasks

summarise_wikitext = Recipe(
    name="summarise-wikitext",
    summary="Small BERT selects 3 sentences of a Wikipedia article; fine-tunes with --from",
    model=partial(backbone, dropout=0.2),
    data=data.wiki_summaries(),
    task=tasks.Extraction(),
    optimizer=OptimizerSettings(lr=3e-4, weight_decay=0.01),
    schedule=LinearSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=8, clip_norm=1.0, monitor="val/auc"),
    protocol=Protocol(
        ("test/rouge1", "test/rouge2", "test/rougeL"),
        "none",
        "three chosen sentences, compared with the lead section by ROUGE; 48 / 12 / 61 articles of "
        "WikiText-2; the three longest sentences have 0.351, 0.082 and 0.175",
        seeds=3,
    ),
)
