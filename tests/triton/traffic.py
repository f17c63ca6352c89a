"""What the kernels move through memory, counted where their index arithmetic leads.

    TRITON_INTERPRET=1 EDGEWISE_TRITON=1 python -m tests.triton.traffic [--json bytes.json]

Triton's interpreter runs the kernels, and every load and store is counted: the bytes that were
asked for, and the sectors of 32 bytes that they lie in, which is what a GPU fetches. Beside them
stands the least: vectors gathered once an edge, vectors and two numbers a head of each node once.
Loads that nobody uses are counted here and left out by the compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.engines.triton_rows import launch, layout
from edgewise.graphs import Graph
from tests.triton.compiled import VARIANTS

NODES, SMALL, DEGREE = 48, 16, 16
FEW, PIECE = 4, 16
"""Number of edges of a short row, and of a piece of a row that is cut.

A merge moves only the sums of pieces, so it is counted on small pieces.
"""
BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12}
"""Bytes a second of their memory, by their data sheets."""
REACHED = 0.6
"""The share of it that gathers are to reach."""
MOST = 1.35
"""Times the least that a pass may fetch."""
SECTOR = 32


EDGES_OF_A_PIECE = layout.PIECE

Kernel = tuple[str, str]
"""Its name, and rows × edges of its tile; empty where it has none."""


@dataclass
class Traffic:
    """Bytes by kernel, and the edges of the rows that it was launched for."""

    asked: dict[Kernel, int] = field(default_factory=lambda: defaultdict(int))
    fetched: dict[Kernel, int] = field(default_factory=lambda: defaultdict(int))
    edges: dict[Kernel, int] = field(default_factory=lambda: defaultdict(int))
    kernel: Kernel = ("", "")

    def begin(self, name: str, own: dict[str, Any], edges: int) -> None:
        """A launch with arguments of its own."""
        self.kernel = name, f"{own['R']}×{own['E']}" if "R" in own else ""
        items = own.get("items")
        if items is None:
            self.edges[self.kernel] += edges
        else:  # rows from place to place, or of pieces from slot to slot
            spans = int((items[:, 2] - items[:, 1]).sum())
            self.edges[self.kernel] += spans * (1 if "R" in own else EDGES_OF_A_PIECE)

    def count(self, pointers: Any, mask: Any, size: int) -> None:
        """One load or store of a program."""
        places = np.unique(np.asarray(pointers)[np.asarray(mask, dtype=bool)])
        self.asked[self.kernel] += size * len(places)
        self.fetched[self.kernel] += SECTOR * len(np.unique(places // SECTOR))

    def an_edge(self) -> dict[Kernel, float]:
        """Bytes that each kernel fetches for an edge."""
        return {
            kernel: n / self.edges[kernel]
            for kernel, n in self.fetched.items()
            if self.edges[kernel]
        }


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count all that kernels move within this context."""
    from triton.runtime.interpreter import InterpreterBuilder, _get_np_dtype

    traffic = Traffic()
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    run = launch.Job.run

    def counting_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        size = np.dtype(_get_np_dtype(pointers.get_element_ty())).itemsize
        traffic.count(pointers.data, mask.data, size)
        return load(self, pointers, mask, *rest)

    def counting_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        traffic.count(pointers.data, mask.data, value.data.dtype.itemsize)
        return store(self, pointers, value, mask, *rest)

    def named_run(self: launch.Job, kernel: str, *rest: Any, **own: Any) -> None:
        traffic.begin(kernel, own, self.arguments.get("edges", 0))
        run(self, kernel, *rest, **own)

    with (
        patch.object(InterpreterBuilder, "create_masked_load", counting_load),
        patch.object(InterpreterBuilder, "create_masked_store", counting_store),
        patch.object(launch.Job, "run", named_run),
    ):
        yield traffic


def regular(degree: int, nodes: int) -> Graph:
    """Every node reads and is read by so many others."""
    node = torch.arange(nodes)
    source = (node[:, None] * 5 + torch.arange(degree) * 3) % nodes
    return graphs.edges(torch.stack([source.flatten(), node.repeat_interleave(degree)]), nodes)


def hubs() -> Graph:
    """Node 0 is read so often, and reads so much, that both rows are cut into two pieces."""
    others, hub = torch.arange(2 * PIECE) + 1, torch.zeros(2 * PIECE, dtype=torch.long)
    return graphs.edges(torch.stack([torch.cat([others, hub]), torch.cat([hub, others])]), NODES)


@dataclass(frozen=True)
class Case:
    """A call, and the least that each of its passes must move, in bytes an edge."""

    name: str
    heads: int
    width: int
    value_width: int
    dtype: torch.dtype
    additive: bool = False

    def least(self, kernel: str) -> float:
        """Gathered vectors and an index; and of each node its vectors and numbers a head."""
        size = self.dtype.itemsize
        key, value = (size * self.heads * n for n in (self.width, self.value_width))
        head = 4 * self.heads
        edge, node = {
            "attend_forward": (key + value, key + value + 2 * head),
            "attend_backward_rows": (key + value, 2 * key + 2 * value + 3 * head),
            "attend_backward_columns": (key + value + 3 * head, 2 * key + 2 * value),
        }[kernel]
        return edge + 4 + (node + 12) / DEGREE

    def run(self, over: Graph) -> Traffic:
        """Forward and backward."""
        widths = (self.width, self.width, self.value_width)
        nodes = [
            torch.randn(NODES, self.heads, n, dtype=self.dtype, requires_grad=True) for n in widths
        ]
        score: Any = ew.Dot()
        if self.additive:
            weight = torch.randn(self.heads, self.width) if self.width > 1 else None
            score = ew.Additive(weight=weight)
        with counted() as traffic:
            ew.attend(*nodes, over, score=score, engine="rows").sum().backward()
        return traffic


CASES = (
    Case("dot 8×16 float32", 8, 16, 16, torch.float32),
    Case("dot 8×16 bfloat16", 8, 16, 16, torch.bfloat16),
    Case("GATv2 4×32 bfloat16", 4, 32, 32, torch.bfloat16, additive=True),
    Case("GAT 8×1, values 8×8", 8, 1, 8, torch.float32, additive=True),
)


def of_variants(only: str) -> dict[str, dict[str, float]]:
    """Bytes an edge that each kernel of each call fetches, of those that are compiled ahead.

    Long rows have ``DEGREE`` edges, short rows ``FEW``, and rows that are merged have two pieces.
    """
    found: dict[str, dict[str, float]] = {}
    for name, run in VARIANTS.items():
        if only not in name:
            continue
        print(name, flush=True)
        known: dict[Kernel, float] = {}
        for over, piece in (
            (hubs(), PIECE),
            (regular(FEW, SMALL), layout.PIECE),
            (regular(DEGREE, SMALL), layout.PIECE),  # the last word counts
        ):
            with counted() as traffic, patch.object(layout, "PIECE", piece):
                run(over)
            known |= traffic.an_edge()
        found[name] = {" ".join(kernel): n for kernel, n in known.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="bytes of every call, for tests.triton.table")
    parser.add_argument("--only", default="", help="calls whose name contains this, with --json")
    options = parser.parse_args()
    if options.json:
        options.json.write_text(json.dumps(of_variants(options.only)))
        return
    over = regular(DEGREE, NODES)
    gpu = "H200"
    print(
        f"Bytes an edge, of a graph of degree {DEGREE}; milliseconds for a million edges at "
        f"{REACHED:.0%} of an {gpu}'s {BANDWIDTH[gpu] / 1e12} TB/s, nothing in its caches."
    )
    print(
        f"{'call':<20} {'kernel':<24} {'asked':>7} {'fetched':>8} {'least':>7} "
        f"{'times':>6} {'ms':>6}"
    )
    wasteful = 0
    for case in CASES:
        traffic = case.run(over)
        for kernel in ("attend_forward", "attend_backward_rows", "attend_backward_columns"):
            (key,) = (key for key in traffic.fetched if key[0] == kernel)
            asked, fetched = (x[key] / over.num_edges for x in (traffic.asked, traffic.fetched))
            least = case.least(kernel)
            time = fetched * 1e6 / (REACHED * BANDWIDTH[gpu]) * 1e3
            wasteful += fetched > MOST * least or asked < 0.95 * least
            print(
                f"{case.name:<20} {kernel:<24} {asked:7.0f} {fetched:8.0f} {least:7.0f} "
                f"{fetched / least:6.2f} {time:6.3f}"
            )
    sys.exit(wasteful > 0)


if __name__ == "__main__":
    main()
