"""The table of all kernels on ``docs/background/gpu_kernels.md``: compiled, counted and written.

    python -m tests.triton.page                 # minutes: each kernel for three machines
    python -m tests.triton.page --only GATv2    # calls with this in their name; other lines stay
    python -m tests.triton.page --bytes         # compile nothing, count again
    python -m tests.triton.page --check         # whether the page has the kernels of the code

The check compiles nothing, so that it can stand among the tests: a kernel, a call or a tile that
changes makes it fail.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.triton.compiled import TARGETS, VARIANTS, Compiled, sources

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/background/gpu_kernels.md"
START = "<!-- written by `python -m tests.triton.page` -->\n"
END = "<!-- end -->\n"
HEADER = """\
| call | kernel | tile | warps | registers | spills | shared | occupancy | widest load | bytes |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
Key = tuple[str, str, str, str]
"""Call, kernel, tile and warps."""


def run(module: str, *arguments: str, **environment: str) -> None:
    """One of the two commands, shown as it goes."""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.triton.{module}", *arguments]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)


def compiled(only: str, workers: int) -> dict[Key, str]:
    """A line for each kernel, its numbers for the machines in the order of ``TARGETS``."""
    moved = fetched(only)
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder) / "kernels.json"
        run("compiled", "--json", str(kernels), "--only", only, "--workers", str(workers))
        made = [Compiled(**row) for row in json.loads(kernels.read_text())]
    lines: dict[Key, dict[str, Compiled]] = defaultdict(dict)
    for one in made:  # of those that differ in the size of what they merge, the largest
        known = lines[one.variant, one.kernel, one.tile, str(one.warps)]
        if one.target not in known or known[one.target].registers < one.registers:
            known[one.target] = one
    return {key: line(key, found, moved) for key, found in lines.items()}


Fetched = dict[str, dict[str, float]]
"""Bytes an edge by call, and by kernel and tile."""


def fetched(only: str) -> Fetched:
    """What the interpreter counts."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "bytes.json"
        switches = {"TRITON_INTERPRET": "1", "EDGEWISE_TRITON": "1"}
        run("traffic", "--json", str(counts), "--only", only, **switches)
        found: Fetched = json.loads(counts.read_text())
        return found


def cell_of_bytes(key: Key, moved: Fetched) -> str:
    """The last of a line; empty where no row of the graphs that are counted is for this tile."""
    variant, kernel, tile, _ = key
    an_edge = moved[variant].get(f"{kernel} {tile}")
    return "" if an_edge is None else f"{an_edge:.0f}"


def counted_again(page: dict[Key, str], moved: Fetched) -> dict[Key, str]:
    """Lines of these calls with their last cell as counted now."""
    return {
        key: f"{row.rpartition('|')[0].rpartition('|')[0]}| {cell_of_bytes(key, moved)} |\n"
        for key, row in page.items()
        if key[0] in moved
    }


def line(key: Key, found: dict[str, Compiled], moved: Fetched) -> str:
    """One kernel on all machines."""
    each = [found[target] for target in TARGETS]
    variant, kernel, tile, warps = key
    cells = [
        variant,
        f"`{kernel}`",
        tile,
        warps,
        " / ".join(str(one.registers) for one in each),
        " / ".join(str(one.spills) for one in each),
        " / ".join(str(one.shared) for one in each),
        " / ".join(f"{one.occupancy:.0%}" for one in each),
        " / ".join(str(one.widest or "–") for one in each),
        cell_of_bytes(key, moved),
    ]
    return f"| {' | '.join(cells)} |\n"


def on_the_page(text: str) -> dict[Key, str]:
    """The lines that the page has."""
    found = {}
    for row in text.splitlines(keepends=True)[2:]:
        call, kernel, tile, warps = (cell.strip() for cell in row.split("|")[1:5])
        found[call, kernel.strip("`"), tile, warps] = row
    return found


def in_the_code() -> dict[Key, None]:
    """The kernels that calls launch, in their order."""
    found = sources(list(VARIANTS))
    keys = [(source.variant, source.kernel, source.tile, str(source.warps)) for source in found]
    return dict.fromkeys(keys)


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compile nothing")
    parser.add_argument("--bytes", action="store_true", help="count alone, and compile nothing")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    before, _, rest = PAGE.read_text().partition(START)
    table, _, after = rest.partition(END)
    page, code = on_the_page(table), in_the_code()
    if not options.check:
        if options.bytes:
            page |= counted_again(page, fetched(options.only))
        else:
            page |= compiled(options.only, options.workers)
        page = {key: page[key] for key in code if key in page}
        PAGE.write_text(before + START + HEADER + "".join(page.values()) + END + after)
    for key in sorted(page.keys() ^ code.keys()):
        print(f"{PAGE.name}: {'no longer there' if key in page else 'missing'}: {' '.join(key)}")
    print(f"{len(code)} kernels in the code, {len(page)} on the page")
    sys.exit(page.keys() != code.keys())


if __name__ == "__main__":
    main()
