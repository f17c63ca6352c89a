"""The command ``edgewise``: it runs one subcommand and returns the exit code."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

# Idle OpenMP threads sleep instead of spinning. Spinning makes training ten times slower when
# another process uses the same core. OpenMP reads this variable once, when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Child processes do not import modules of the current folder, which may hold received files.
os.environ.setdefault("PYTHONSAFEPATH", "1")

from edgewise.cli.output import warn
from edgewise.cli.parser import parse
from edgewise.errors import EdgewiseError, in_one_line
from edgewise.training import Interrupted
from edgewise.training.allocator import keep_freed_memory

USAGE, DEFECT = 2, 70


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM. As after Ctrl-C, the command removes partial files and ends."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    * 0: success.
    * 1: a check of ``verify`` failed, or some inputs of ``predict`` or ``explain`` are invalid; the
      valid inputs are processed.
    * 2: the command cannot run, for example because an option is invalid or a file cannot be read
      or written. The error is printed on one line.
    * 70: internal error.
    * 130: Ctrl-C. 141: the program that reads the output has ended. 143: SIGTERM.

    Args:
        argv: command-line arguments, without the name of the program. Defaults to ``sys.argv[1:]``.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Some terminals do not support Unicode.
        sys.stdout.reconfigure(errors="backslashreplace")
    if argv is None:  # A Python program that calls main(argv) keeps its own allocator settings.
        keep_freed_memory()
    try:
        with warnings.catch_warnings(), _terminable(), _printed_notes():
            warnings.showwarning = _in_one_line  # type: ignore[assignment]
            arguments = parse(sys.argv[1:] if argv is None else list(argv))
            code: int = arguments.run(arguments)
        # Flush here, so that the error of a full disk is caught below.
        sys.stdout.flush()
    except Interrupted as stop:
        warn(f"{stop}. To continue, repeat the command with --resume.")
        return 128 + stop.signal
    except KeyboardInterrupt as stop:
        warn("interrupted.")
        return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # The program that reads the output, such as head, has ended.
        _discard_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        warn(in_one_line(error))
        _discard_output()
        return USAGE if isinstance(error, (EdgewiseError, OSError)) else DEFECT
    return code


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM within the ``with`` block.

    Another handler that the program has set for SIGTERM stays in place.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _NotePrinter(logging.Handler):
    """Handler that prints each note once; a command may load its data several times."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self.printed:
            self.printed.add(text)
            print(f"edgewise: {text}.", file=sys.stderr)


@contextmanager
def _printed_notes() -> Iterator[None]:
    """Print the notes on how data are read, within the ``with`` block."""
    log, printer = logging.getLogger("edgewise.data"), _NotePrinter()
    level = log.level
    log.addHandler(printer)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(printer)
        log.setLevel(level)


def _in_one_line(message: Warning | str, *_: Any) -> None:
    warn(f"warning: {str(message).removesuffix('.')}.")


def _discard_output() -> None:
    """Discard printed text that cannot be written, so that Python does not fail at exit."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["main"]
