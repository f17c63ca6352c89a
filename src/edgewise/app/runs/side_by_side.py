"""Several trainings in parallel, each in a separate process with one thread.

Small models gain little from a second thread, and results with one thread do not depend on the
number of cores. ``concurrent.futures.ProcessPoolExecutor`` is not used, because it has no public
way to send SIGTERM to its processes, and if one of them is killed, the jobs of all others fail.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TextIO

import torch

from edgewise._utils.errors import EdgewiseError, Interrupted, in_one_line
from edgewise.app.train.allocator import keep_freed_memory
from edgewise.app.train.interrupt import interruptible

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""Type of a job: a module-level function and its arguments. Both must be picklable."""
ASK_EVERY = 0.2  # Seconds between two checks for Ctrl-C.
PRELOADED = ["lightning.pytorch", "sklearn.datasets", "torchmetrics", "edgewise.app.runs"]


def side_by_side(jobs: Sequence[Job], workers: int) -> None:
    """Run all jobs in separate processes, at most ``workers`` of them at a time.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM, after the running jobs have been stopped.
        EdgewiseError: a job failed, and the other jobs have been stopped. The message is that of
            the failed job.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(PRELOADED)  # All workers share these imports.
    waiting, running, failed = list(jobs), dict[Connection, BaseProcess](), ""
    with interruptible() as request:
        try:
            while (waiting and not failed and request.signal is None) or running:
                while waiting and len(running) < workers and not failed and not request.signal:
                    answer, process = _start(context, *waiting.pop(0))
                    running[answer] = process
                ended: list[Any] = connection.wait(list(running), ASK_EVERY)
                for answer in ended:
                    said = _ended(answer, running.pop(answer))
                    failed = failed or said  # Keep the first error.
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
    with _safe_path():
        process.start()
    tell.close()
    return answer, process


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start Python processes that do not import modules of the current folder (``python -P``).

    The server that forks the workers is started with ``python -c``, which alone would import them.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _ended(answer: Connection, process: BaseProcess) -> str:
    """Return the error message of an ended process; empty if it succeeded.

    Args:
        answer: connection through which the process sends its error message.
        process: the process.
    """
    try:
        said: str = answer.recv()
    except EOFError:
        said = "a training process was killed, perhaps because memory was full"
    answer.close()
    process.join()
    return said


def _stop(processes: Any) -> None:
    """Send SIGTERM once to each process. A second one would end it without a checkpoint."""
    for process in processes:
        if not getattr(process, "asked_to_stop", False) and process.pid is not None:
            process.asked_to_stop = True
            os.kill(process.pid, signal.SIGTERM)


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
    except Interrupted as stop:
        tell.send(str(stop))
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
