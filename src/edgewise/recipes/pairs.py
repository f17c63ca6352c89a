"""The recipe on pairs of texts of your own, of which one is written from the other."""

from __future__ import annotations

from dataclasses import replace

from edgewise import data
from edgewise.recipes.multi30k import transformer_multi30k

pairs = replace(
    transformer_multi30k,
    name="pairs",
    summary="Your own pairs of texts, the second written from the first: --data.path mine.csv",
    data=data.pair_table(vocabulary_size=8000, batch_size=1024),
    trainer=replace(transformer_multi30k.trainer, epochs=20),
    protocol=None,
)
