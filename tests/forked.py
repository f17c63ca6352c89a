"""Processes that begin with everything imported, which takes longer than what most tests do."""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["lightning.pytorch", "sklearn.datasets", "edgewise.app.cli.commands"]
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


class Worker:
    """What :mod:`edgewise.app.runs.launch` asks of a process that it has started."""

    def __init__(self, *arguments: Any) -> None:
        self.process = CONTEXT.Process(target=_train, args=arguments)
        self.process.start()
        self.stdin = io.BytesIO()

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> None:
        self.process.join()

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


def start_workers(
    path: Path,
    devices: int,
    title: str,
    outputs: Sequence[IO[bytes]],
    errors: Sequence[IO[bytes]],
) -> list[Worker]:
    """In the place of ``launch._start``, whose processes import everything first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(devices)}
    return [
        Worker(
            {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (outputs[rank], errors[rank])],
            str(path),
            title,
        )
        for rank in range(devices)
    ]


def _train(environment: dict[str, str], files: list[str], path: str, title: str) -> None:
    os.setsid()  # Ctrl-C comes to the process that has launched it
    os.environ.update(environment)
    sys.stdin = os.fdopen(os.pipe()[0])  # ends with this process, and not before
    for stream, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY), stream)
    torch.set_num_threads(1)
    from edgewise.app.runs.worker import main

    sys.exit(main(path, title))


def main_with_forked_workers(argv: list[str]) -> int:
    """``edgewise.app.cli.main``, where the processes of one training are forked, too."""
    from edgewise.app.cli import main
    from edgewise.app.runs import launch

    launch._start = start_workers  # type: ignore[assignment]
    return main(argv)
