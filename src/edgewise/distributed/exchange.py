"""Collective operations with gradients, and checks that all processes make the same call."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.distributed.device_mesh import DeviceMesh

from edgewise._utils.errors import ArgumentError, ProcessError

Counts = Sequence[int]
"""Number of rows for, or from, each process."""

LOST = re.compile(
    r"connection (closed|reset|refused)|connectfullmesh|broken pipe|socket closed|read error|"
    r"timed? ?out|unreachable",
    re.IGNORECASE,
)
"""Messages of gloo and of the operating system about a process that has ended or is late."""


@contextmanager
def communicating() -> Iterator[None]:
    """In a ``with`` block, replace errors of the network by a ProcessError.

    Example:
        >>> from edgewise import distributed
        >>> with distributed.communicating():  # doctest: +SKIP
        ...     loss.backward()  # DistributedDataParallel sends the gradients
    """
    try:
        yield
    except RuntimeError as error:
        # gloo raises plain RuntimeErrors; others, such as a lack of memory, are of this process.
        is_lost = isinstance(error, dist.DistError) or LOST.search(str(error))
        if isinstance(error, ProcessError) or not is_lost:
            raise
        reason = str(error).split(". This is typically", 1)[0]
        raise ProcessError(
            f"another process has ended or does not answer ({reason}). Remedy: read the error of "
            "the process that ended first; if all were at work, pass a longer timeout to "
            "torch.distributed.init_process_group."
        ) from error


class _AllToAll(Function):
    """``torch.distributed.all_to_all_single`` of rows ``[R, F]``; backward sends gradients back."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, send: Counts, receive: Counts, group: dist.ProcessGroup
    ) -> Tensor:
        ctx.back = receive, send, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        with communicating():
            dist.all_to_all_single(
                received, rows.contiguous(), list(receive), list(send), group=group
            )
        return received

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return all_to_all(grad, *ctx.back), None, None, None


def all_to_all(rows: Tensor, send: Counts, receive: Counts, group: dist.ProcessGroup) -> Tensor:
    """Send consecutive rows ``[R, F]`` to each process; return those received, ``[R', F]``."""
    received: Tensor = _AllToAll.apply(rows, send, receive, group)  # type: ignore[no-untyped-call]
    return received


class _Gather(Function):
    """Rows of an index for each process; backward adds the gradients in the order of processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Sequence[Tensor]) -> Tensor:
        ctx.rows, ctx.count = rows, len(x)
        return x.index_select(0, torch.cat(list(rows)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.new_zeros(ctx.count, *grad.shape[1:])
        # A row occurs once for each process, so the order of the sum is fixed on a GPU, too.
        received = grad.split([len(rows) for rows in ctx.rows])
        for rows, gradients in zip(ctx.rows, received, strict=True):
            total.index_add_(0, rows, gradients)
        return total, None


def gather(x: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Return the rows of ``x [N, F]`` for each process, ``[R, F]``."""
    gathered: Tensor = _Gather.apply(x, rows)  # type: ignore[no-untyped-call]
    return gathered


def sum_gradients(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """Return x, the same on all processes, whose gradient is the sum of those of all processes."""
    if not x.requires_grad:
        return x
    # Importing it takes as long as PyTorch.
    from torch.distributed.tensor import DTensor, Partial, Replicate

    replicated = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return replicated.to_local(grad_placements=[Partial()])


def as_rows(x: Tensor) -> Tensor:
    """Return nodes ``[..., N, H, D]`` as rows ``[N, F]``."""
    return x.movedim(-3, 0).flatten(1)


def as_nodes(rows: Tensor, like: Tensor) -> Tensor:
    """Undo :func:`as_rows` for any number of rows; ``like`` has the other sizes."""
    return rows.view(len(rows), *like.shape[:-3], *like.shape[-2:]).movedim(0, -3)


def sendable(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return a tensor on its device if the group can send it from there, or else on another."""
    # For example "cpu:gloo,cuda:nccl".
    devices = [pair.split(":")[0] for pair in dist.get_backend_config(group).split(",")]
    return x if x.device.type in devices else x.to(devices[0])


def gather_objects(value: Any, group: dist.ProcessGroup) -> list[Any]:
    """Return the object of each process."""
    values = [None] * dist.get_world_size(group)
    with communicating():
        dist.all_gather_object(values, value, group=group)
    return values


def check_agreement(
    facts: Mapping[str, Any],
    error: ArgumentError | None,
    group: dist.ProcessGroup,
) -> None:
    """Raise the same ArgumentError on all processes if one has an error, or a fact differs."""
    # Two numbers are compared in each call; the facts are sent only if the numbers differ.
    checksum = zlib.crc32(repr(list(facts.values())).encode())
    # Not on the device of the arguments, which may be no tensors on one of the processes.
    local = sendable(torch.tensor([error is not None, checksum], dtype=torch.long), group)
    gathered = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
    with communicating():
        dist.all_gather(gathered, local, group=group)
    failed, checksums = torch.stack(gathered, dim=1).tolist()
    if any(failed):
        raise_first(error, group)
    if len(set(checksums)) > 1:
        everywhere = gather_objects(facts, group)
        for name in facts:
            check_same(name, [values[name] for values in everywhere])


def check_same(name: str, values: Sequence[Any]) -> None:
    """Raise ArgumentError unless all processes have the same value."""
    other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
    if other is not None:
        raise ArgumentError(
            name,
            expected="the same on all processes",
            got=f"{values[0]} on process 0 and {values[other]} on process {other}",
            remedy="make the same call on all processes, each with its slice of the nodes",
        )


def raise_first(error: ArgumentError | None, group: dist.ProcessGroup) -> None:
    """Raise the error of the first process that has one, on all processes."""
    for rank, first in enumerate(gather_objects(error, group)):
        if first is not None:
            got = f"{first.got}, on process {rank}"
            raise ArgumentError(
                first.argument, expected=first.expected, got=got, remedy=first.remedy
            ) from error
