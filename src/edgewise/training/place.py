"""Which of several processes this one is, where they train one model together."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    from edgewise.training.settings import Trainer


@cache  # Lightning clears the environment when it is done
def place() -> tuple[int, int]:
    """The number of this process and how many there are, as torchrun and ``edgewise train`` say."""
    if "LOCAL_RANK" not in os.environ:
        return 0, 1
    rank = int(os.environ.get("RANK", os.environ["LOCAL_RANK"]))
    return rank, int(os.environ["WORLD_SIZE"])


def check_place(settings: Trainer) -> None:
    """There is a process for each device.

    Raises:
        ArgumentError: there is not.
    """
    _, world = place()
    if settings.devices != world:
        raise ArgumentError(
            "trainer.devices",
            expected=f"as many devices as there are processes, {world}",
            got=repr(settings.devices),
            remedy=f"start the script with `torchrun --nproc-per-node {settings.devices}`; "
            "runs.train and `edgewise train` start the processes themselves",
        )
