"""The command ``edgewise``."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

# Threads that have nothing to do sleep. PyTorch's would spin for milliseconds, and where another
# process has the core that they wait for, a training takes ten times as long for it. OpenMP reads
# this once, when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from edgewise.cli.parser import parse
from edgewise.errors import EdgewiseError, in_one_line
from edgewise.training import Interrupted

USAGE, DEFECT = 2, 70


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what is half written is taken away."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code.

    0 done, 1 a check failed, 2 bad input or a file that cannot be read or written (said in one
    line), 70 an error of Edgewise itself, 130 Ctrl-C, 143 SIGTERM.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every terminal has every letter
    try:
        with warnings.catch_warnings(), _terminable():
            warnings.showwarning = _in_one_line  # type: ignore[assignment]
            arguments, fields = parse(sys.argv[1:] if argv is None else list(argv))
            code: int = arguments.run(arguments, fields)
        sys.stdout.flush()  # here, where a full disk is named
    except Interrupted as stop:
        print(f"edgewise: {stop}. To continue, repeat the command with --resume.", file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt as stop:
        print("edgewise: interrupted.", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # the reader of the output, such as head, has closed it
        _discard_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        print(f"edgewise: {in_one_line(error)}", file=sys.stderr)
        _discard_output()
        return USAGE if isinstance(error, (EdgewiseError, OSError)) else DEFECT
    return code


@contextmanager
def _terminable() -> Iterator[None]:
    """Within, SIGTERM raises :class:`Terminated`; training has its own way, and so may a caller."""

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


def _in_one_line(message: Warning | str, *_: Any) -> None:
    print(f"edgewise: warning: {message}.", file=sys.stderr)


def _discard_output() -> None:
    """What is still to be printed is not tried again when Python ends, where it cannot be."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["main"]
