"""Several trainings at once, each in a process of its own and on one thread.

Small models gain little from a second thread, and much from another training beside them; and
what one thread computes does not depend on how many the machine has.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TextIO

import torch

from edgewise.errors import EdgewiseError, in_one_line
from edgewise.training.interrupt import Interrupted, interruptible

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, by name of a module, and arguments that can be pickled."""
ASK_EVERY = 0.2  # seconds between looks whether someone wants an end
PRELOADED = ["lightning.pytorch", "sklearn.datasets", "torchmetrics", "edgewise.runs"]


def side_by_side(jobs: Sequence[Job], workers: int) -> None:
    """Run all jobs, ``workers`` at a time.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; those that were running have been asked to stop.
        EdgewiseError: a job has failed; with what it said. The others have been asked to stop.

    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(PRELOADED)  # so that each begins with everything imported
    waiting, running, failed = list(jobs), dict[Connection, BaseProcess](), ""
    with interruptible() as request:
        try:
            while (waiting and not failed and request.signal is None) or running:
                while waiting and len(running) < workers and not failed and not request.signal:
                    answer, process = _start(context, *waiting.pop(0))
                    running[answer] = process
                told: list[Any] = connection.wait(list(running), ASK_EVERY)
                for answer in told:
                    said = _ended(answer, running.pop(answer))
                    failed = failed or said  # the first: the others are asked to stop for it
                if failed or request.signal:
                    _stop(running.values())
        except BaseException:
            for process in running.values():
                process.kill()
            raise
    if request.signal:
        raise Interrupted(request.signal)
    if failed:
        raise EdgewiseError(failed)


def _start(
    context: Any, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Connection, BaseProcess]:
    answer, tell = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(tell, function, arguments), daemon=True)
    process.start()
    tell.close()
    return answer, process


def _ended(answer: Connection, process: BaseProcess) -> str:
    """What a process said that has failed; nothing of one that has done its work."""
    try:
        said: str = answer.recv()
    except EOFError:
        said = "a training was ended by someone else"
    answer.close()
    process.join()
    return said


def _stop(processes: Any) -> None:
    """Ask each once: a second request would end it in the middle of a step."""
    for process in processes:
        if not getattr(process, "asked_to_stop", False) and process.pid is not None:
            process.asked_to_stop = True
            os.kill(process.pid, signal.SIGTERM)


def _work(tell: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C comes to the parent alone, which passes it on
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    # Lines in place of bars, several of which would overwrite each other.
    sys.stderr = _Lines(sys.stderr)
    try:
        function(*arguments)
    except Interrupted as stop:
        tell.send(str(stop))
    except Exception as error:
        tell.send(in_one_line(error))
    else:
        tell.send("")


class _Lines:
    """A stream that is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        return False


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
