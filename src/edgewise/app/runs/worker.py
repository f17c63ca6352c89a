"""Worker process of a distributed training: ``python -m edgewise.app.runs.worker DIR TITLE``.

The worker reads its rank from the environment variables of torchrun, and exits when its parent
process ends.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from edgewise._utils.errors import Interrupted, in_one_line
from edgewise.app.runs.record import load_recipe
from edgewise.app.runs.train_recipe import train_here
from edgewise.app.train.allocator import keep_freed_memory
from edgewise.app.train.folder import RunFolder

FAILED = 2


def main(path: str, title: str) -> int:
    """Train the recipe in a run folder, and return the exit code.

    Args:
        path: run folder.
        title: title of the progress display.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    folder = RunFolder(Path(path))
    try:
        train_here(load_recipe(folder), folder, title)
    except Interrupted as stop:
        return 128 + stop.signal
    except Exception as error:
        print(in_one_line(error))
        return FAILED
    return 0


def _end_with_parent() -> None:
    # The parent never writes, so this blocks until the parent ends.
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
