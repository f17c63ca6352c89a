"""What the processes that train one model together tell each other."""

from __future__ import annotations

import os
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.strategies import DDPStrategy, Strategy

from edgewise.training.place import place


def spread() -> dict[str, Any]:
    """Lightning's arguments for so many processes."""
    _, world = place()
    if world == 1:
        return {"devices": 1}
    nodes = world // int(os.environ.get("LOCAL_WORLD_SIZE", world))
    # Not every model uses all its weights in every step.
    strategy = DDPStrategy(find_unused_parameters=True)
    return {"devices": world // nodes, "num_nodes": nodes, "strategy": strategy}


def most(trainer: lightning.Trainer, number: int) -> int:
    """The largest of every process's number."""
    return int(_reduced(trainer, number, "max"))


def total(trainer: lightning.Trainer, number: int) -> int:
    """The sum of every process's number."""
    return int(_reduced(trainer, number, "sum"))


def _reduced(trainer: lightning.Trainer, number: int, how: str) -> int | torch.Tensor:
    if trainer.world_size == 1:
        return number
    strategy: Strategy = trainer.strategy
    value = torch.tensor(number, device=strategy.root_device)
    reduced: torch.Tensor = strategy.reduce(value, reduce_op=how)
    return reduced


def gathered(own: dict[str, Any]) -> list[dict[str, Any]]:
    """Every process's own, in the order of their numbers."""
    _, world = place()
    if world == 1 or not torch.distributed.is_initialized():
        return [own]
    every: list[Any] = [None] * world
    torch.distributed.all_gather_object(every, own)
    return every
