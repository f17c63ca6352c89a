"""Table of every compiled GPU kernel, ``tests/triton/kernels.csv``.

    python -m tests.triton.table                 # minutes: each kernel for three GPUs
    python -m tests.triton.table --only GATv2    # calls with this in their name; other rows stay
    python -m tests.triton.table --bytes         # count the bytes again without compiling
    python -m tests.triton.table --check         # compare the rows with the kernels of the code

Every form ends with a summary for each GPU. The check compiles nothing and runs among the tests. It
fails if the code launches a kernel or a tile that the table lacks, or no longer launches one that
the table has.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.triton.compiled import TARGETS, VARIANTS, Compiled, sources

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("kernels.csv")
KEY = ("call", "kernel", "tile", "warps")
MEASURES = ("registers", "spills", "shared", "occupancy", "widest")
BYTES = "bytes per edge"
COLUMNS = (*KEY, *(f"{measure} {target}" for measure in MEASURES for target in TARGETS), BYTES)
Key = tuple[str, ...]
"""Values of the columns of ``KEY``."""
Rows = dict[Key, dict[str, str]]


def run(module: str, *arguments: str, **environment: str) -> None:
    """Run a module of this package, with its output shown."""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.triton.{module}", *arguments]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)


def compiled(only: str, workers: int) -> Rows:
    """Compile the kernels of these calls and return their rows."""
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder) / "kernels.json"
        run("compiled", "--json", str(kernels), "--only", only, "--workers", str(workers))
        made = [Compiled(**row) for row in json.loads(kernels.read_text())]
    rows: Rows = {}
    for one in made:
        key = (one.variant, one.kernel, one.tile, str(one.warps))
        row = rows.setdefault(key, dict(zip(KEY, key, strict=True)))
        column = f"registers {one.target}"
        if column in row and int(row[column]) >= one.registers:
            continue  # kernels that differ in the size of a merge: the largest counts
        values = {measure: f"{getattr(one, measure)}" for measure in MEASURES}
        values["occupancy"] = f"{one.occupancy:.2f}"
        row |= {f"{measure} {one.target}": value for measure, value in values.items()}
    return rows


def count_bytes(rows: Rows, only: str) -> None:
    """Set the bytes per edge of these calls, as counted by the interpreter.

    A cell stays empty if no row of the counted graphs uses its tile.
    """
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "bytes.json"
        switches = {"TRITON_INTERPRET": "1", "EDGEWISE_TRITON": "1"}
        run("traffic", "--json", str(counts), "--only", only, **switches)
        moved: dict[str, dict[str, float]] = json.loads(counts.read_text())
    for (call, kernel, tile, _), row in rows.items():
        if call in moved:
            per_edge = moved[call].get(f"{kernel} {tile}")
            row[BYTES] = "" if per_edge is None else f"{per_edge:.0f}"


def in_the_code() -> dict[Key, None]:
    """Return the kernels that calls launch, in their order."""
    found = sources(list(VARIANTS))
    keys = [(source.variant, source.kernel, source.tile, str(source.warps)) for source in found]
    return dict.fromkeys(keys)


def read() -> Rows:
    """Return the rows of the table."""
    with TABLE.open(newline="") as file:
        return {tuple(row[column] for column in KEY): row for row in csv.DictReader(file)}


def write(rows: Rows) -> None:
    """Write the table."""
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def summary(rows: Rows) -> str:
    """Return a line for each GPU."""
    lines = ["GPU     kernels  with spills  most registers  median occupancy  128-bit loads"]
    for target in TARGETS:
        columns = {m: [float(row[f"{m} {target}"]) for row in rows.values()] for m in MEASURES}
        spilling = sum(spills > 0 for spills in columns["spills"])
        wide = sum(widest == 128 for widest in columns["widest"])
        lines.append(
            f"{target:<7} {len(rows):7} {spilling:12} {max(columns['registers']):15.0f} "
            f"{statistics.median(columns['occupancy']):17.0%} {wide:14}"
        )
    return "\n".join(lines)


def main(arguments: Any = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the table with the code")
    parser.add_argument("--bytes", action="store_true", help="count the bytes without compiling")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--workers", type=int, default=2, help="number of compiling processes")
    options = parser.parse_args(arguments)
    rows, code = read(), in_the_code()
    if not options.check:
        if not options.bytes:
            rows |= compiled(options.only, options.workers)
        count_bytes(rows, options.only)
        rows = {key: rows[key] for key in code if key in rows}
        write(rows)
    for key in sorted(rows.keys() ^ code.keys()):
        print(f"{TABLE.name}: {'no longer there' if key in rows else 'missing'}: {' '.join(key)}")
    print(f"{len(code)} kernels in the code, {len(rows)} in the table\n{summary(rows)}")
    sys.exit(rows.keys() != code.keys())


if __name__ == "__main__":
    main()
