"""Processes that begin with everything imported, which takes longer than what most tests do."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "lightning.pytorch",
        "sklearn.datasets",
        "edgewise.app.cli.commands",
        "edgewise.layers.parallel",
    ]
)


def start(said: Path, run: Callable[..., int | None], *arguments: Any) -> ForkServerProcess:
    """``run(*arguments)`` on one thread, its result the exit code; ``said`` is all it prints."""
    process = CONTEXT.Process(target=_work, args=(said, run, *arguments))
    process.start()
    return process


def _work(said: Path, run: Callable[..., int | None], *arguments: Any) -> None:
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    torch.set_num_threads(1)
    sys.exit(run(*arguments))
