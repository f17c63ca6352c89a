"""Time and memory of reading a file of edges, compared with pandas alone.

    python -m benchmarks.reading [--edges 1000000] [--rounds 5]

Each file has random edges between nodes of which there are a tenth as many. pandas alone is
``pandas.read_csv`` and one ``pandas.factorize`` of both columns, without checks. Runs alternate in
one process. The table shows the minimum and the median over rounds of wall time in seconds, the
minimum of processor time, and the peak memory in MB without that of the imports, measured in a
separate process. Ratios are Edgewise's value divided by that of pandas.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas

from edgewise.app.files.edges import read_edges

FORMATS = {
    "integers": ("source,target\n", "{},{}\n"),
    "texts": ("source,target\n", "user_{},user_{}\n"),
    "weights": ("source,target,weight\n", "{},{},{:.4f}\n"),
    "tabs": ("", "{}\t{}\n"),
}
"""Header and line of each format, for source, target and weight."""


def write(path: Path, file_format: str, edges: int) -> None:
    """Write a file of random edges."""
    header, line = FORMATS[file_format]
    generator = np.random.default_rng(0)
    nodes = generator.integers(max(edges // 10, 2), size=(edges, 2)).tolist()
    weights = generator.random(edges).tolist()
    lines = (line.format(*pair, weight) for pair, weight in zip(nodes, weights, strict=True))
    path.write_text(header + "".join(lines))


def read_with_pandas(path: Path) -> None:
    delimiter = "\t" if path.stem == "tabs" else ","
    table = pandas.read_csv(path, sep=delimiter, header=None if path.stem == "tabs" else 0)
    pandas.factorize(pandas.concat([table.iloc[:, 0], table.iloc[:, 1]], ignore_index=True))


READERS: dict[str, Callable[[Path], object]] = {"pandas": read_with_pandas, "edgewise": read_edges}


def peak_memory(reader: str, path: Path) -> float:
    """Return by how much reading a file increases the peak memory of a forked process, in MB."""
    context = multiprocessing.get_context("fork")
    increase = context.SimpleQueue()

    def measure() -> None:
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        READERS[reader](path)
        increase.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024)

    process = context.Process(target=measure)
    process.start()
    megabytes: float = increase.get()
    process.join()
    return megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    columns = ("minimum", "median", "processor", "memory MB")
    print(f"{'':20}" + "".join(f"{column:>11}" for column in columns))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.txt") for name in FORMATS]
        tiny = Path(folder, "tiny.txt")
        tiny.write_text("1,2\n")
        for path in paths:
            write(path, path.stem, arguments.edges)
        for read in READERS.values():
            read(tiny)  # Loads modules.
        memory = {(reader, path): peak_memory(reader, path) for path in paths for reader in READERS}
        for path in paths:
            seconds: dict[str, list[tuple[float, float]]] = {reader: [] for reader in READERS}
            for _ in range(arguments.rounds):
                for reader, read in READERS.items():
                    wall, processor = time.perf_counter(), time.process_time()
                    read(path)
                    wall, processor = time.perf_counter() - wall, time.process_time() - processor
                    seconds[reader].append((wall, processor))
            rows = []
            for reader, times in seconds.items():
                walls, processors = zip(*times, strict=True)
                measured = min(walls), statistics.median(walls), min(processors)
                rows.append([*measured, memory[reader, path]])
                print_row(f"{path.stem} {reader}", rows[-1])
            print_row("  ratio", [value / base for base, value in zip(*rows[:2], strict=True)])


def print_row(name: str, values: list[float]) -> None:
    print(f"{name:20}" + "".join(f"{value:11.2f}" for value in values))


if __name__ == "__main__":
    main()
