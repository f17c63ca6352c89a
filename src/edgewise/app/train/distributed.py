"""Rank, world size and collective operations of distributed training."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from edgewise._utils.errors import ArgumentError

if TYPE_CHECKING:
    import lightning.pytorch as lightning


@cache  # Lightning deletes the environment variables at the end of training.
def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process and the number of processes (the world size).

    They are read from the environment variables that torchrun and ``edgewise train`` set. Unlike
    Lightning's ``rank_zero_only.rank`` and ``trainer.world_size``, they are available before a
    Trainer exists.
    """
    if "LOCAL_RANK" not in os.environ:
        return 0, 1
    rank = int(os.environ.get("RANK", os.environ["LOCAL_RANK"]))
    return rank, int(os.environ["WORLD_SIZE"])


def check_world_size(devices: int) -> None:
    """Raise ArgumentError unless the number of processes is the setting ``trainer.devices``."""
    _, world_size = rank_and_world_size()
    if devices != world_size:
        raise ArgumentError(
            "trainer.devices",
            expected=f"the number of running processes, {world_size}",
            got=repr(devices),
            remedy=f"start the script with `torchrun --nproc-per-node {devices}`; "
            "runs.train and `edgewise train` start the processes themselves",
        )


def trainer_arguments() -> dict[str, Any]:
    """Return ``devices``, ``num_nodes`` and ``strategy`` for Lightning's Trainer."""
    from lightning.pytorch.strategies import DDPStrategy

    _, world_size = rank_and_world_size()
    if world_size == 1:
        return {"devices": 1}
    nodes = world_size // int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    # Some models do not use every weight in every step.
    strategy = DDPStrategy(find_unused_parameters=True)
    return {"devices": world_size // nodes, "num_nodes": nodes, "strategy": strategy}


def all_reduce(trainer: lightning.Trainer, number: int, op: str) -> int:
    """Return the sum or maximum of a number over all processes; ``op`` is "sum" or "max"."""
    if trainer.world_size == 1:
        return number
    value = torch.tensor(number, device=trainer.strategy.root_device)
    return int(trainer.strategy.reduce(value, reduce_op=op))


def all_gather(own: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a list of the dictionaries that all processes pass, ordered by rank."""
    _, world_size = rank_and_world_size()
    if world_size == 1 or not torch.distributed.is_initialized():
        return [own]
    every: list[Any] = [None] * world_size
    torch.distributed.all_gather_object(every, own)
    return every


def lightning_accelerator(name: str) -> str:
    """Return the accelerator for Lightning: "cpu" for "auto" with an Apple GPU.

    Apple GPUs have no float64, in which metrics and rescaled outputs are computed.
    """
    return "cpu" if name == "auto" and torch.backends.mps.is_available() else name
