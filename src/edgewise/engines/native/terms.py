"""Conversion of bias and gain to ``ew_term``, a C structure that the kernels read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.attention.biases import EdgeTerm, TableBias
from edgewise.engines.native.operator import Job


def put_term(job: Job, name: str, x: Tensor) -> None:
    """Write a bias or gain ``[B or 1, E, H or 1]`` or table ``[1, classes, H or 1]`` to ``job``."""
    job.array(f"{name}.data", x)
    job.fields[f"{name}.batch_stride"] = x[0].numel() if x.shape[0] > 1 else 0
    job.fields[f"{name}.rows"], job.fields[f"{name}.width"] = x.shape[1:]


def put_index(job: Job, name: str, index: Tensor) -> None:
    """Write the class of each edge to ``job``; ``name`` is "bias_index" or "gain_index"."""
    term = name.removesuffix("_index")
    job.array(f"{term}.index", index)
    job.fields[f"{term}.index_bits"] = 8 * index.element_size()


def term_arguments(
    leaves: dict[str, Tensor], others: dict[str, Any], name: str, term: EdgeTerm, batch: torch.Size
) -> None:
    """Add a bias or gain to the arguments ``leaves``, and the index of its table to ``others``."""
    if isinstance(term, TableBias):
        leaves[name], others[f"{name}_index"] = term.table[None], term.index
    else:
        leaves[name] = one_batch_axis(term, batch, 2)


def one_batch_axis(x: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """Reshape to one batch axis, of length 1 if shared, and the last ``dims`` axes."""
    if x.shape[:-dims].numel() == 1:
        return x.reshape(1, *x.shape[-dims:])
    return x.expand(*batch, *x.shape[-dims:]).flatten(0, -dims - 1)
