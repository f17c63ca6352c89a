"""Chart of the time and memory of attention, by number of edges and by number of nodes.

python -m benchmarks.cpu.picture docs/background/scaling.png
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from benchmarks.cpu.measure import peak_memory, times
from benchmarks.cpu.problems import Problem, build

mpl.use("Agg")
import matplotlib.pyplot as plt

BASE = Problem("transformer", nodes=20_000)
SWEEPS = {
    "edges (20,000 nodes)": [replace(BASE, degree=d) for d in (1, 2, 4, 8, 16, 32, 64)],
    "nodes (degree 16)": [replace(BASE, nodes=n) for n in (1000, 3000, 10_000, 30_000, 100_000)],
}
COLOURS = {"edgewise": "tab:blue", "pyg": "tab:orange"}


def measure(problem: Problem) -> dict[str, tuple[float, float]]:
    """Return ``{implementation: (seconds of forward and backward, bytes of memory)}``."""
    built = build(problem)
    medians = {name: statistics.median(v["both"]) for name, v in times(built, 3).items()}
    del built
    return {name: (seconds, peak_memory(problem, name)) for name, seconds in medians.items()}


def draw(path: Path) -> None:
    """Save a chart with two columns, by edges and by nodes; time is above and memory below."""
    figure, axes = plt.subplots(2, len(SWEEPS), figsize=(10, 7), sharey="row")
    for column, (title, problems) in enumerate(SWEEPS.items()):
        sizes = [p.nodes * (p.degree if "edges" in title else 1) for p in problems]
        results = [measure(problem) for problem in problems]
        for name, colour in COLOURS.items():
            for row, scale in enumerate((1e3, 1e-6)):
                values = [result[name][row] * scale for result in results]
                axes[row, column].loglog(sizes, values, "o-", color=colour, label=name)
        axes[1, column].set_xlabel(title)
    axes[0, 0].set_ylabel("forward + backward, ms")
    axes[1, 0].set_ylabel("memory added, MB")
    axes[0, 0].legend()
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    figure.suptitle("Attention over a uniform random graph, 8 heads of width 16, float32")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="image file to write")
    draw(parser.parse_args().path)
