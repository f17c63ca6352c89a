"""Output of all commands, with control characters escaped, because it may come from a file."""

from __future__ import annotations

import sys

from edgewise._utils.errors import printable, printable_line


def say(text: object, *, flush: bool = False) -> None:
    """Print a text on the standard output stream."""
    print(printable(text), flush=flush)


def warn(text: object) -> None:
    """Print one line on the standard error stream, after the name of the program."""
    print(f"edgewise: {printable_line(text)}", file=sys.stderr, flush=True)
