"""Interruption of a run between two steps, so that it can be resumed exactly. On Ctrl-C, Lightning
stops within a step, when weights and optimizer state may belong to different steps.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
