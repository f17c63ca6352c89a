"""Ctrl-C and SIGTERM end a run between two steps, so that it can be continued exactly.

Lightning does so at SIGTERM alone: Ctrl-C raises KeyboardInterrupt in the middle of a step, after
which weights and optimizer may be of different steps.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - an interruption is not an error
    """A run was asked to stop, and has left a checkpoint to continue from.

    Attributes:
        signal: the signal that asked.

    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"interrupted by {signal.Signals(number).name}")


class Request:
    """Whether, and by which signal, a run has been asked to stop."""

    signal: int | None = None


@contextmanager
def interruptible() -> Iterator[Request]:
    """Within, the first Ctrl-C or SIGTERM is only noted; a second one acts at once."""
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return
    watched = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in watched}

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    try:
        for number in watched:
            signal.signal(number, note)
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
