"""Rank, world size and collectives of the processes that train one model together."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    import lightning.pytorch as lightning

    from edgewise.training.settings import TrainerSettings


@cache  # Lightning clears the environment when it is done
def rank_and_world_size() -> tuple[int, int]:
    """The rank of this process and how many there are, as torchrun and ``edgewise train`` say.

    Known before there is a Trainer, which Lightning's ``rank_zero_only.rank`` and
    ``trainer.world_size`` are not.
    """
    if "LOCAL_RANK" not in os.environ:
        return 0, 1
    rank = int(os.environ.get("RANK", os.environ["LOCAL_RANK"]))
    return rank, int(os.environ["WORLD_SIZE"])


def check_world_size(settings: TrainerSettings) -> None:
    """There is a process for each device.

    Raises:
        ArgumentError: there is not.
    """
    _, world_size = rank_and_world_size()
    if settings.devices != world_size:
        raise ArgumentError(
            "trainer.devices",
            expected=f"as many devices as there are processes, {world_size}",
            got=repr(settings.devices),
            remedy=f"start the script with `torchrun --nproc-per-node {settings.devices}`; "
            "runs.train and `edgewise train` start the processes themselves",
        )


def trainer_arguments() -> dict[str, Any]:
    """``devices``, ``num_nodes`` and ``strategy`` of Lightning's Trainer, for this world size."""
    from lightning.pytorch.strategies import DDPStrategy

    _, world_size = rank_and_world_size()
    if world_size == 1:
        return {"devices": 1}
    nodes = world_size // int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    # Not every model uses all its weights in every step.
    strategy = DDPStrategy(find_unused_parameters=True)
    return {"devices": world_size // nodes, "num_nodes": nodes, "strategy": strategy}


def all_reduce(trainer: lightning.Trainer, number: int, op: str) -> int:
    """The ``sum`` or ``max`` of every process's number."""
    if trainer.world_size == 1:
        return number
    value = torch.tensor(number, device=trainer.strategy.root_device)
    return int(trainer.strategy.reduce(value, reduce_op=op))


def all_gather(own: dict[str, Any]) -> list[dict[str, Any]]:
    """Every process's own, by rank."""
    _, world_size = rank_and_world_size()
    if world_size == 1 or not torch.distributed.is_initialized():
        return [own]
    every: list[Any] = [None] * world_size
    torch.distributed.all_gather_object(every, own)
    return every
