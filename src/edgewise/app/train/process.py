"""State of this process: memory allocator, signals, random numbers, rank and devices."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    import lightning.pytorch as lightning

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX in glibc's malloc.h
_NEVER = -1


def keep_freed_memory() -> None:
    """Let glibc keep the memory of freed tensors: no page faults in each step, but a higher peak.
    Nothing changes if an environment variable configures the allocator.
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ)
    configured = configured or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if platform.libc_ver()[0] == "glibc" and not configured:
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)


class Request:
    """Request to stop a run: ``signal`` is the number of the received signal, or None."""

    signal: int | None = None


@contextmanager
def interruptible() -> Iterator[Request]:
    """Record the first Ctrl-C or SIGTERM in the yielded request; a second stops the process."""
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python allows signal handlers only in the main thread.
        return
    watched = (signal.SIGINT, signal.SIGTERM)
    old_handlers = {number: signal.getsignal(number) for number in watched}

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    try:
        for number in watched:
            signal.signal(number, note)
        yield request
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def seed_everything(seed: int) -> None:
    """Seed the random number generators of Python, NumPy, and PyTorch on every device. Unlike
    Lightning's function, it sets no environment variable that later Trainers read.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Return the states of all generators, in a form that ``torch.load`` reads without code."""
    algorithm, keys, *counters = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (algorithm, np.asarray(keys).tolist(), *counters),
        "python": random.getstate(),
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set all generators to the states that :func:`rng_state` returned."""
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])


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
