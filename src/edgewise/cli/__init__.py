"""The command ``edgewise``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from edgewise.cli.parser import parse
from edgewise.errors import EdgewiseError
from edgewise.training import Interrupted

USAGE, INTERRUPTED = 2, 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code.

    0 done, 1 a check failed, 2 bad input (said in one line, nothing written), 130 Ctrl-C.
    """
    try:
        arguments, fields = parse(sys.argv[1:] if argv is None else list(argv))
        code: int = arguments.run(arguments, fields)
    except EdgewiseError as error:
        print(f"edgewise: {error}", file=sys.stderr)
        return USAGE
    except Interrupted as stop:
        print(f"edgewise: {stop}. To continue, repeat the command with --resume.", file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt:
        print("edgewise: interrupted.", file=sys.stderr)
        return INTERRUPTED
    return code


__all__ = ["main"]
