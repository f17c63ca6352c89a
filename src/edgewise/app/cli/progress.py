"""Progress display of a long loop, on the standard error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from importlib.util import find_spec
from typing import Any

from edgewise.app.cli.output import warn

SECONDS = 10.0
"""Seconds between two lines of progress if the error stream is not a terminal."""


def with_progress(items: Iterable[Any], done: str) -> Iterator[Any]:
    """Yield all items, and show how many are ``done``: a bar on a terminal, or lines."""
    total = len(items) if isinstance(items, Sized) else None
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield from items if total is None else _with_lines(items, total, done)
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    count = "{task.completed}" + (" of {task.total}" if total else "")
    clock = TimeRemainingColumn() if total else TimeElapsedColumn()
    columns = TextColumn("{task.description}"), TextColumn(count), clock
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(done, total=total)
        for item in items:
            bar.advance(task)
            yield item


def _with_lines(items: Iterable[Any], total: int, done: str) -> Iterator[Any]:
    start = last = time.perf_counter()
    for count, item in enumerate(items, 1):
        yield item
        now = time.perf_counter()
        if now - last >= SECONDS:
            last, left = now, (now - start) / count * (total - count)
            warn(f"{done} {count:,} of {total:,}, about {left:.0f} s left")
