"""A group of processes that computes one function after another."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.forked import CONTEXT

TIMEOUT = 120
"""Seconds after which a test fails instead of waiting."""


class Processes:
    """Processes of a gloo group, each on one thread."""

    def __init__(self, count: int, folder: Path) -> None:
        pipes = [CONTEXT.Pipe() for _ in range(count)]
        self.ends = [end for end, _ in pipes]
        self.processes = [
            CONTEXT.Process(target=serve, args=(rank, count, folder / "store", end), daemon=True)
            for rank, (_, end) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        for _, end in pipes:
            end.close()

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The result of ``function(*arguments)`` on each process, or the exception it raised.

        It is None for a process that has died.
        """
        for end in self.ends:
            end.send((function, arguments))
        return [self.answer(end) for end in self.ends]

    def answer(self, end: Connection) -> Any:
        assert end.poll(TIMEOUT), "a process hangs"
        try:
            return end.recv()
        except EOFError:
            return None

    def results(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Like ``run``; the test fails if a process raises."""
        results = self.run(function, *arguments)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def serve(rank: int, count: int, store: Path, end: Connection) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=TIMEOUT / 2),
    )
    while True:
        try:
            function, arguments = end.recv()
        except EOFError:
            return
        try:
            end.send(function(*arguments))
        except Exception as error:
            error.add_note(traceback.format_exc())
            end.send(error)
