"""The command ``edgewise``."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

# Threads that have nothing to do sleep. PyTorch's would spin for milliseconds, and where another
# process has the core that they wait for, a training takes ten times as long for it. OpenMP reads
# this once, when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from edgewise.cli.parser import parse
from edgewise.errors import EdgewiseError, in_one_line
from edgewise.training import Interrupted

USAGE, DEFECT, INTERRUPTED = 2, 70, 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code.

    0 done, 1 a check failed, 2 bad input or a file that cannot be read or written (said in one
    line), 70 an error of Edgewise itself, 130 Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _in_one_line  # type: ignore[assignment]
            arguments, fields = parse(sys.argv[1:] if argv is None else list(argv))
            code: int = arguments.run(arguments, fields)
        sys.stdout.flush()  # here, where a full disk is named
    except Interrupted as stop:
        print(f"edgewise: {stop}. To continue, repeat the command with --resume.", file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt:
        print("edgewise: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as head, has closed it
        _discard_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        print(f"edgewise: {in_one_line(error)}", file=sys.stderr)
        _discard_output()
        return USAGE if isinstance(error, (EdgewiseError, OSError)) else DEFECT
    return code


def _in_one_line(message: Warning | str, *_: Any) -> None:
    print(f"edgewise: warning: {message}.", file=sys.stderr)


def _discard_output() -> None:
    """What is still to be printed is not tried again when Python ends, where it cannot be."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["main"]
