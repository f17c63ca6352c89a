"""Recipe of sequence-to-sequence learning on pairs of texts."""

from __future__ import annotations

from dataclasses import replace

from edgewise import data
from edgewise.recipes.multi30k import transformer_multi30k

pairs = replace(
    transformer_multi30k,
    name="pairs",
    summary="Transformer generates the second text of your pairs: --data.path mine.csv",
    data=data.pair_table(vocab_size=8000, batch_size=1024),
    trainer=replace(transformer_multi30k.trainer, epochs=20),
    protocol=None,
)
