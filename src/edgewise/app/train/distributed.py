"""Rank, world size and collective operations of distributed training."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import lightning.pytorch as lightning


@cache  # Lightning deletes the environment variables at the end of training.
def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, also before a Trainer exists,
    from the environment variables of torchrun.
    """
    if "LOCAL_RANK" not in os.environ:
        return 0, 1
    rank = int(os.environ.get("RANK", os.environ["LOCAL_RANK"]))
    return rank, int(os.environ["WORLD_SIZE"])


def device_arguments(accelerator: str) -> dict[str, Any]:
    """Return device arguments of Lightning's Trainer.

    Apple GPUs are not used, because they lack float64, in which metrics are computed.
    """
    from lightning.pytorch.strategies import DDPStrategy

    if accelerator == "auto" and torch.backends.mps.is_available():
        accelerator = "cpu"
    _, world_size = rank_and_world_size()
    if world_size == 1:
        return {"accelerator": accelerator, "devices": 1}
    nodes = world_size // int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    return {
        "accelerator": accelerator,
        "devices": world_size // nodes,
        "num_nodes": nodes,
        # Some models do not use every weight in every step.
        "strategy": DDPStrategy(find_unused_parameters=True),
    }


def all_reduce(trainer: lightning.Trainer, number: int, op: str) -> int:
    """Return the sum or maximum of a number over all processes; ``op`` is "sum" or "max"."""
    value = torch.tensor(number, device=trainer.strategy.root_device)
    return int(trainer.strategy.reduce(value, reduce_op=op))


def all_gather(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a list of the dictionaries that all processes pass, ordered by rank."""
    _, world_size = rank_and_world_size()
    if world_size == 1 or not torch.distributed.is_initialized():
        return [state]
    states: list[Any] = [None] * world_size
    torch.distributed.all_gather_object(states, state)
    return states
