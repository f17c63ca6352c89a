"""State of this process: memory allocator, signals, random numbers, rank and devices."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from edgewise._utils.errors import ArgumentError, EdgewiseError, message_of
from edgewise.distributed.exchange import communicating

if TYPE_CHECKING:
    import lightning.pytorch as lightning
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

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


def cluster_environment() -> ClusterEnvironment | None:
    """Return Lightning's description of the processes that torchrun, srun or
    :func:`edgewise.app.runs.train` has started; None in a process that was started alone.
    """
    # srun sets SLURM_STEP_ID; the script of a job, which is one process, has only SLURM_NTASKS.
    if not {"LOCAL_RANK", "SLURM_STEP_ID"} & os.environ.keys():
        return None
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if TorchElasticEnvironment.detect():
        return TorchElasticEnvironment()
    if "LOCAL_RANK" in os.environ:
        return LightningEnvironment()
    if not SLURMEnvironment.detect():
        return None
    if int(os.environ["SLURM_NTASKS"]) > 1 and "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise ArgumentError(
            "--ntasks-per-node",
            expected="the number of processes on each machine, which Lightning needs",
            got="--ntasks alone",
            remedy="start with srun --nodes N --ntasks-per-node M",
        )
    # Lightning need not send the job again, because Edgewise has its own checkpoint.
    return SLURMEnvironment(auto_requeue=False)


@cache  # Lightning deletes the environment variables at the end of training.
def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, also before a Trainer exists."""
    if "LOCAL_RANK" in os.environ:
        rank = int(os.environ.get("RANK", os.environ["LOCAL_RANK"]))
        return rank, int(os.environ["WORLD_SIZE"])
    environment = cluster_environment()
    return (environment.global_rank(), environment.world_size()) if environment else (0, 1)


def connect() -> None:
    """Create the process group that Lightning will use, unless it exists or there is one process.

    Before training, processes agree by it that all of them can train.
    """
    rank, world_size = rank_and_world_size()
    environment = cluster_environment()
    if world_size == 1 or environment is None or torch.distributed.is_initialized():
        return
    os.environ["MASTER_ADDR"] = environment.main_address
    os.environ["MASTER_PORT"] = str(environment.main_port)
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(environment.local_rank() % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    with communicating():
        torch.distributed.init_process_group(backend, rank=rank, world_size=world_size)


@contextmanager
def agreed() -> Iterator[None]:
    """Raise the error of a ``with`` block on all processes if it fails on one of them."""
    connect()
    message = ""
    try:
        yield
    except BaseException as error:
        message = message_of(error)
        raise
    finally:
        messages = all_gather({"message": message})
        for rank, other in enumerate(messages):
            if other["message"] and not message:
                raise EdgewiseError(
                    f"process {rank} of {len(messages)} has failed: {other['message']}"
                )


def check_same_data(sizes: Mapping[str, int]) -> None:
    """Raise the same ArgumentError on all processes if their data or models have other sizes: they
    would wait for each other in vain.
    """
    first, *others = all_gather(dict(sizes))
    for rank, other in enumerate(others, 1):
        for what, size in other.items():
            if size != first[what]:
                raise ArgumentError(
                    "data",
                    expected="the same data on all processes",
                    got=f"{first[what]:,} {what} on process 0 and {size:,} on process {rank}",
                    remedy="give all machines the same files",
                )


def device_arguments(accelerator: str, *, sharded: int = 0) -> dict[str, Any]:
    """Return device arguments of Lightning's Trainer.

    Apple GPUs are not used, because they lack float64, in which metrics are computed.

    Args:
        accelerator: ``auto``, ``cpu`` or ``gpu``.
        sharded: number of processes that divide the heads, if processes divide the weights; 0 if
            each process has all weights.
    """
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.pytorch.strategies import DDPStrategy

    if accelerator == "auto" and torch.backends.mps.is_available():
        accelerator = "cpu"
    _, world_size = rank_and_world_size()
    if world_size == 1:
        # In the script of a job, Lightning would wait for tasks that srun has not started.
        plugins = [LightningEnvironment()] if "SLURM_NTASKS" in os.environ else []
        return {"accelerator": accelerator, "devices": 1, "plugins": plugins}
    connect()
    per_node = world_size // int(os.environ.get("SLURM_NNODES", "1"))
    # torchrun may run in a job.
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", str(per_node)))
    # Some models do not use every weight in every step.
    strategy: Any = DDPStrategy(find_unused_parameters=True)
    if sharded:
        from edgewise.app.train.sharding import ShardedStrategy

        strategy = ShardedStrategy(world_size // sharded, sharded)
    return {
        "accelerator": accelerator,
        "devices": per_node,
        "num_nodes": world_size // per_node,
        "strategy": strategy,
        "plugins": [cluster_environment()],
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
    with communicating():
        torch.distributed.all_gather_object(states, state)
    return states
