"""Execution of one command: signals, warnings, errors and the exit code."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from edgewise._utils.errors import EdgewiseError, Interrupted, in_one_line
from edgewise.app.cli.names import COMMANDS
from edgewise.app.cli.output import warn
from edgewise.app.cli.parser import parse

USAGE, DEFECT = 2, 70
CONTINUE = "To continue, repeat the command with --resume."


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM. As after Ctrl-C, the command removes partial files and ends."""


def run(argv: Sequence[str] | None, start_handler: Callable[[int, object], None]) -> int:
    """Run one command; ``start_handler`` is the handler of Ctrl-C during the imports."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Some terminals do not support Unicode.
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = Namespace()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _in_one_line  # type: ignore[assignment]
            arguments = parse(sys.argv[1:] if argv is None else list(argv))
            module, function = COMMANDS[arguments.command]
            command = getattr(import_module(f"edgewise.app.cli.{module}"), function)
            if argv is None:  # A Python program that calls main(argv) keeps its own settings.
                # Child processes do not import modules of the current folder, which may hold
                # received files.
                os.environ.setdefault("PYTHONSAFEPATH", "1")
                from edgewise.app.train.process import keep_freed_memory

                keep_freed_memory()
                if signal.getsignal(signal.SIGINT) is start_handler:
                    signal.signal(signal.SIGINT, signal.default_int_handler)
            with _terminable(), _printed_notes():
                code: int = command(arguments)
        # Flush here, so that the error of a full disk is caught below.
        sys.stdout.flush()
    except Interrupted as stop:
        warn(f"{stop}. {CONTINUE}")
        return 128 + stop.signal
    except KeyboardInterrupt as stop:
        advice = f" {CONTINUE}" if _is_resumable(arguments) else ""
        warn(f"interrupted.{advice}")
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
    """Raise :class:`Terminated` on SIGTERM, unless the program has a handler of its own."""

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
        from edgewise.app.train.process import rank_and_world_size

        text = record.getMessage()
        if text not in self.printed and not rank_and_world_size()[0]:
            self.printed.add(text)
            warn(f"{text}.")


@contextmanager
def _printed_notes() -> Iterator[None]:
    """Print the notes on data and training, within the ``with`` block."""
    log, printer = logging.getLogger("edgewise.app"), _NotePrinter()
    level = log.level
    log.addHandler(printer)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(printer)
        log.setLevel(level)


def _is_resumable(arguments: Namespace) -> bool:
    """Return whether the command has ``--resume``, and the run folder has its first files."""
    folder: Path | None = getattr(arguments, "out", None) if "resume" in arguments else None
    return folder is not None and folder.is_dir() and any(folder.iterdir())


def _in_one_line(message: Warning | str, *_: Any) -> None:
    warn(f"warning: {str(message).removesuffix('.')}.")


def _discard_output() -> None:
    """Discard printed text that cannot be written, so that Python does not fail at exit."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
