"""Backbones that recipes on texts share: a small BERT, and a bag of tokens."""

from __future__ import annotations

from functools import partial

from edgewise import models

backbone = partial(models.bert, width=128, depth=2, heads=4, ffn_dim=512, max_length=384, types=0)
"""Small BERT. With ``--from RUN``, its sizes and kind of positions are those of the run."""

# Without layers and positions, the mean of the token embeddings represents a text.
bag = partial(models.bert, width=128, depth=0, heads=4, max_length=384, positions="none", types=0)
