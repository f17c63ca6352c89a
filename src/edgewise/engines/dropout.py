"""Dropout masks that are a hash of (seed, example, edge, head), so they need not be stored."""

from __future__ import annotations

import torch
from torch import Tensor

WORD = 0xFFFFFFFF


def dropout_mask(
    seed: int,
    probability: float,
    *,
    batch: int,
    first_edge: int,
    edges: int,
    heads: int,
    like: Tensor,
) -> Tensor:
    """Return the dropout mask ``[batch, edges, heads]``: 1 / (1 - p) for kept weights, else 0.

    The C++ and Triton kernels compute the same mask, in the forward and again in the backward pass.
    ``first_edge`` is the index of the first edge in a larger graph, if the call computes a part of
    it.
    """
    edge = torch.arange(first_edge, first_edge + edges, device=like.device)[None, :, None]
    head = torch.arange(heads, device=like.device)
    member = torch.arange(batch, device=like.device)[:, None, None]
    word = mix((seed & WORD) ^ mix(edge & WORD))
    word = mix(word ^ mix((head + 0x9E3779B9) & WORD))
    word = mix(word ^ mix((member + (seed >> 32)) & WORD))
    is_kept = (word >= int(probability * 2**32)).to(like.dtype)
    return is_kept / (1.0 - probability) if probability < 1 else torch.zeros_like(is_kept)


def mix(word: Tensor) -> Tensor:
    """Hash 32-bit integers with lowbias32, a bijective hash (C. Wellons, hash-prospector)."""
    word = word ^ (word >> 16)
    word = (word * 0x7FEB352D) & WORD
    word = word ^ (word >> 15)
    word = (word * 0x846CA68B) & WORD
    return word ^ (word >> 16)
