"""Conversion of bias and gain to ``ew_term``, a C structure that the kernels read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.attention.biases import EdgeTerm, TableBias
from edgewise.engines.native.operator import Job


def put_term(job: Job, name: str, x: Tensor) -> None:
    """Write the address, strides and sizes of a bias or gain to the C structure ``job``.

    Args:
        job: C structure with the arguments of the kernel.
        name: "bias" or "gain", a field that is an ``ew_term``.
        x: ``[B or 1, E, H or 1]``, or a table ``[1, classes, H or 1]``.
    """
    job.array(f"{name}.data", x)
    job.fields[f"{name}.batch_stride"] = x[0].numel() if x.shape[0] > 1 else 0
    job.fields[f"{name}.rows"], job.fields[f"{name}.width"] = x.shape[1:]


def put_index(job: Job, name: str, index: Tensor) -> None:
    """Write the class of each edge to the C structure ``job``, for a bias or gain that is a table.

    Args:
        job: C structure with the arguments of the kernel.
        name: "bias_index" or "gain_index".
        index: class of each edge, ``[E]``: a row of the table.
    """
    term = name.removesuffix("_index")
    job.array(f"{term}.index", index)
    job.fields[f"{term}.index_bits"] = 8 * index.element_size()


def term_arguments(
    leaves: dict[str, Tensor], others: dict[str, Any], name: str, term: EdgeTerm, batch: torch.Size
) -> None:
    """Add a bias or gain to the arguments of an operator.

    Args:
        leaves: arguments that can have gradients, by name; gets the tensor or table.
        others: all other arguments, by name; gets the class of each edge, for a table.
        name: "bias" or "gain".
        term: tensor ``[..., E, H or 1]``, or a table with the class of each edge.
        batch: shape of the leading dimensions of the call.
    """
    if isinstance(term, TableBias):
        leaves[name], others[f"{name}_index"] = term.table[None], term.index
    else:
        leaves[name] = one_batch_axis(term, batch, 2)


def one_batch_axis(x: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """Reshape a tensor to one batch dimension, followed by its last ``dims`` dimensions.

    The batch dimension is 1 if the whole batch shares the tensor. Otherwise the leading dimensions
    are broadcast to the shape ``batch``, and it is their number of elements B.
    """
    if x.shape[:-dims].numel() == 1:
        return x.reshape(1, *x.shape[-dims:])
    return x.expand(*batch, *x.shape[-dims:]).flatten(0, -dims - 1)
