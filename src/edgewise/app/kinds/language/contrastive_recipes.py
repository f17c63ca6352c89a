"""Recipe that trains text embeddings on the two halves of each text."""

from __future__ import annotations

from functools import partial

from edgewise.app.kinds.language.contrastive import Contrastive
from edgewise.app.kinds.language.halves import TextHalves
from edgewise.app.train.recipe import OptimizerSettings, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule
from edgewise.app.train.text.small_bert import bag

contrastive_sst2 = Recipe(
    name="contrastive-sst2",
    summary="Mean of token embeddings, pre-trained to match the two halves of a film review",
    model=partial(bag, dropout=0.1),
    data=TextHalves(sources=("sst2",)),
    task=Contrastive(temperature=0.2),
    optimizer=OptimizerSettings(lr=5e-3, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.1),
    trainer=TrainerSettings(epochs=16, clip_norm=1.0),
)
