"""Several trainings in parallel, or one training on several devices, in separate processes.

``concurrent.futures.ProcessPoolExecutor`` is not used, because it has no public way to send signals
to its processes, and if one of them is killed, the jobs of all others fail. torchrun is not used,
because its processes survive if it is killed. Lightning's launcher is not used, because it starts
the script of the first process again, which fails in a notebook or a test.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TextIO

import torch

from edgewise._utils.errors import EdgewiseError, Interrupted, in_one_line
from edgewise.app.train.process import interruptible, keep_freed_memory

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""Type of a job: a module-level function and its arguments. Both must be picklable."""
ASK_EVERY = 0.2  # Seconds between two checks for Ctrl-C.
PATIENCE = 30.0  # After an error, seconds until the remaining processes are killed.
PRELOADED = ["lightning.pytorch", "sklearn.datasets", "torchmetrics", "edgewise.app.runs"]


def side_by_side(jobs: Sequence[Job], workers: int) -> None:
    """Run all jobs in processes of one thread, at most ``workers`` of them at a time. The first
    error or interruption stops the running jobs.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(PRELOADED)  # All workers share these imports.
    waiting, running = list(jobs), dict[Connection, BaseProcess]()
    stopped: set[int] = set()
    failure, deadline = "", math.inf
    with interruptible() as request:
        try:
            while running or (waiting and not failure and not request.signal):
                while waiting and len(running) < workers and not failure and not request.signal:
                    answer, process = _start(context, *waiting.pop(0))
                    running[answer] = process
                ended: list[Any] = connection.wait(list(running), ASK_EVERY)
                for answer in ended:
                    message = _message_of(answer, running.pop(answer))
                    if message and not failure:  # Later errors may be consequences of the first.
                        failure, deadline = message, time.monotonic() + PATIENCE
                if failure or request.signal:
                    _stop(running.values(), stopped)
                if time.monotonic() > deadline:
                    for process in running.values():
                        process.kill()
        except BaseException:
            for process in running.values():
                process.kill()
            raise
    if request.signal:
        raise Interrupted(request.signal)
    if failure:
        raise EdgewiseError(failure)


def _start(
    context: Any, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Connection, BaseProcess]:
    answer, tell = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(tell, function, arguments))
    with _environment_of_workers():
        process.start()
    tell.close()
    return answer, process


@contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Set the environment variables of the server that forks the workers, in a ``with`` block."""
    variables = {
        # Do not import modules of the current folder, as ``python -c`` would, which starts it.
        "PYTHONSAFEPATH": "1",
        # The edgewise command sets this by default, so that waiting threads do not spin.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # Hide PyTorch's warnings on find_unused_parameters.
    }
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _message_of(answer: Connection, process: BaseProcess) -> str:
    """Return the error message that an ended process has sent; empty if it succeeded."""
    try:
        message: str = answer.recv()
    except EOFError:
        message = "a training process was killed, perhaps because memory was full"
    answer.close()
    process.join(PATIENCE)
    process.kill()
    return message


def _stop(processes: Iterable[BaseProcess], stopped: set[int]) -> None:
    """Send SIGINT once to each process. A second one would end it without a checkpoint.

    On SIGTERM, Lightning's handler would wait for the other processes of a distributed training.
    """
    for process in processes:
        if process.pid is not None and process.pid not in stopped and process.is_alive():
            stopped.add(process.pid)
            os.kill(process.pid, signal.SIGINT)


def _work(tell: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C must reach only the parent.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    # Print lines, because progress bars of several processes would overwrite each other.
    sys.stderr = _Lines(sys.stderr)
    try:
        function(*arguments)
    except (Interrupted, KeyboardInterrupt) as stop:
        tell.send(str(stop) or "interrupted")
    except Exception as error:
        tell.send(in_one_line(error))
    else:
        tell.send("")


class _Lines:
    """Wrapper of a stream, whose ``isatty`` returns False."""

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
