"""Accuracy of the choice of engines: time all engines on many problems, and fit their costs.

    python benchmarks/planner.py | tee times.txt     # estimated and measured times, choice, regret
    python benchmarks/planner.py --only entmax       # only problems with entmax in the name
    python benchmarks/planner.py --read times.txt    # evaluate the current costs on these times
    python benchmarks/planner.py --read times.txt --refit      # and rewrite engines/costs.json

``engine="auto"`` chooses the engine with the lowest time estimated from ``engines/costs.json``. The
*regret* is the extra time of the chosen engine relative to the fastest engine.

Times are those of forward and backward with all gradients, the least of several runs, on one thread
or with ``--device cuda`` on a GPU. ``--dtype bfloat16`` or ``float16`` measures query, key and
value in 16 bits (bias and gain stay in float32), and fits the costs for 16 bits. The fit minimises
the relative errors of the estimated times, with costs of at least 0. Costs that no measured problem
involves are kept. The fit is evaluated by five-fold cross-validation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.attention.attend import _problem, checked_call
from edgewise.engines import ENGINES
from edgewise.engines.call import Problem
from edgewise.engines.costs import COSTS, TABLE, Costs, Work, costs_on, entry_name
from edgewise.engines.layouts import graph_facts
from edgewise.graphs import Graph

MOST_ELEMENTS = 3e7  # Maximum size of a tensor with an entry per edge or pair, in elements.
MOST_STEPS = 1e7  # Maximum number of scores for entmax, which passes over them several times.
NODES = (16, 64, 256, 1024, 4096)
DENSITIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
HEADS = ((1, 8), (8, 8), (4, 16), (1, 64), (8, 64))
RUNS: dict[str, graphs.Pattern] = {
    "causal()": graphs.causal(),
    "window(8)": graphs.window(8),
    "window(64)": graphs.window(64),
    "hub": graphs.window(8) | graphs.hubs([0]),
    "dilated": graphs.window(8, 4),
    "small, packed": graphs.complete(),
    "ragged, packed": graphs.causal(),
}
PACKED: dict[str, Callable[[int], list[int]]] = {
    "small, packed": lambda nodes: [16] * (nodes // 16),
    "ragged, packed": lambda nodes: [8, 24] * (nodes // 32),
}
"""Functions from the number of nodes to the sizes of the graphs in a packed batch."""
TERMS = ("plain", "bias", "gain", "additive", "lse", "entmax", "table", "sum")
BUDGET = 0.08  # Seconds of timing per engine and problem.
NAME, CELL = 36, 19
"""Widths of the table's columns."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ALLOWED = 0.1
"""A choice counts as right if its regret is at most this (10 % slower than the fastest engine)."""


@dataclass(frozen=True)
class Task:
    """Problem to measure: a graph, number and width of heads, and a kind of call (``term``)."""

    name: str
    graph: Graph
    heads: int
    width: int
    term: str
    dtype: torch.dtype = torch.float32

    def call(self) -> tuple[Callable[[str], object], Problem]:
        """Return a function that runs the task on a named engine, and the call's properties."""
        graph, heads, width = self.graph, self.heads, self.width
        nodes = graph.num_targets
        if self.term == "additive" and heads == 8 and width == 8:
            width = 1  # As in GAT.
        device = graph.device
        of_nodes = {"dtype": self.dtype, "device": device}
        leaves = [torch.randn(nodes, heads, width, **of_nodes) for _ in range(3)]
        options: dict[str, Any] = {}
        if self.term in ("bias", "gain"):
            options[self.term] = torch.randn(graph.num_edges, heads, device=device)
            leaves.append(options[self.term])
        elif self.term == "table":
            table = torch.randn(32, heads, device=device)
            classes = torch.arange(graph.num_edges, device=device) % 32
            options["bias"] = ew.TableBias(classes, table)
            leaves.append(table)
        elif self.term == "offset":
            table = torch.randn(32, heads, device=device)
            place = torch.arange(nodes, device=device)
            classes = torch.arange(2 * nodes - 1, device=device) % 32
            offsets = ew.Offsets(place - (nodes - 1), place, classes, graph)
            options["bias"] = ew.OffsetBias(offsets, table)
            leaves.append(table)
        elif self.term == "additive":
            weight = torch.randn(heads, width, device=device)
            options["score"] = ew.Additive(weight=weight)
            leaves.append(weight)
        elif self.term == "entmax":
            options["normaliser"] = "entmax"
        for leaf in leaves:
            leaf.requires_grad_()

        def run(engine: str) -> object:
            nodes, value = leaves[:3], leaves[2]
            if self.term == "lse":
                out, lse = ew.attend_with_lse(*nodes, graph, engine=engine, **options)
                total = out.sum() + lse.masked_fill(lse == -torch.inf, 0).sum()
            elif self.term == "sum":
                total = ew.aggregate(value, graph, engine=engine).sum()
            else:
                total = ew.attend(*nodes, graph, engine=engine, **options).sum()
            return torch.autograd.grad(total, leaves, allow_unused=True)

        if self.term == "sum":
            return run, aggregation(leaves[2], graph)
        call, bound = checked_call(*leaves[:3], graph, **options)
        problem = _problem(call, bound, lse=self.term == "lse")
        return run, problem._replace(duplicates=bound.has_duplicates)


def aggregation(value: Tensor, graph: Graph) -> Problem:
    """Return the properties of a call of ``aggregate`` that sums, for the cost model."""
    return Problem(
        *graph.derived(graph_facts),
        operation="aggregate",
        batch=1,
        heads=value.shape[-2],
        width=0,
        value_width=value.shape[-1],
        device=value.device,
        dtype=value.dtype,
        duplicates=graph.has_duplicates,
    )


@dataclass(frozen=True)
class Row:
    """Measured seconds and operation counts of a task, for each engine that supports it."""

    name: str
    times: dict[str, float]
    works: dict[str, Work]

    def estimates(self, costs: Costs) -> dict[str, float]:
        """Return ``{engine: estimated seconds}``."""
        return dict(zip(self.works, costs.of(self.works.values()), strict=True))

    def regret(self, costs: Costs) -> float:
        """Return the extra time of the engine with the lowest estimate, relative to the fastest."""
        estimates = self.estimates(costs)
        choice = min(estimates, key=lambda engine: estimates[engine])
        return self.times[choice] / min(self.times.values()) - 1

    def line(self, costs: Costs) -> str:
        """Return the line of this task in the printed table."""
        estimates = self.estimates(costs)
        cells = [
            f"{estimates[e] * 1e3:9.3f} {self.times[e] * 1e3:9.3f}" if e in estimates else "-"
            for e in ENGINES
        ]
        choice = min(estimates, key=lambda engine: estimates[engine])
        shown = " ".join(cell.rjust(CELL) for cell in cells)
        return f"{self.name:<{NAME}} {shown} {choice:<10} {self.regret(costs):6.0%}"


def tasks(
    device: str, only: str, *, quick: bool, dtype: torch.dtype = torch.float32
) -> Iterator[Task]:
    """Yield all tasks: first patterns made of intervals, then random graphs of many densities.

    Args:
        device: device of the graphs.
        only: yield only tasks whose name contains this text.
        quick: leave out the largest graphs.
        dtype: dtype of query, key and value.
    """
    sizes = NODES[:4] if quick else NODES
    for nodes, (kind, pattern) in itertools.product(sizes, RUNS.items()):
        if kind in PACKED and nodes == NODES[0]:
            continue
        packed = graphs.batch(pattern, PACKED[kind](nodes)) if kind in PACKED else pattern
        graph = packed.bind(nodes).to(device)
        for (heads, width), term in itertools.product(HEADS, ("plain", "lse", "offset")):
            name = f"{nodes:5} {kind} {heads}x{width:<3} {term}"
            if nodes * nodes * heads * width < MOST_ELEMENTS and only in name:
                yield Task(name, graph, heads, width, term, dtype)
    for nodes, density in itertools.product(sizes, DENSITIES):
        degree = round(density * nodes)
        if degree == 0:
            continue
        random = graphs.complete() if degree == nodes else graphs.random(degree)
        graph = random.bind(nodes).to(device)
        for (heads, width), term in itertools.product(HEADS, TERMS):
            name = f"{nodes:5} {density:6} {heads}x{width:<3} {term}"
            pairs = nodes * nodes * heads * (width if term == "additive" else 1)
            most = MOST_STEPS if term == "entmax" else MOST_ELEMENTS
            fits = max(graph.num_edges * heads * width, pairs) < most
            if fits and only in name:
                yield Task(name, graph, heads, width, term, dtype)


def seconds(runs: Mapping[str, Callable[[], object]], device: str) -> dict[str, float]:
    """Return the least seconds of each function over at least three rounds; functions alternate.

    On a CPU, these are CPU times of this process, which depend little on other load. On another
    device, they are wall times, after waiting for the device.
    """

    def clock() -> float:
        if device == "cpu":
            return time.process_time()
        torch.accelerator.synchronize()
        return time.perf_counter()

    best = dict.fromkeys(runs, math.inf)
    spent, turns = 0.0, 0
    for run in runs.values():
        run()
    while turns < 3 or (spent < BUDGET * len(runs) and turns < 200):
        for name, run in runs.items():
            start = clock()
            run()
            elapsed = clock() - start
            best[name], spent = min(best[name], elapsed), spent + elapsed
        turns += 1
    return best


def measured(task: Task) -> Row:
    """Return the measured row of a task, which is run on all engines that support it."""
    run, problem = task.call()
    works = {
        e: engine.work(problem) for e, engine in ENGINES.items() if not engine.refuses(problem)
    }
    times = seconds({e: partial(run, e) for e in works}, problem.device.type)
    return Row(task.name, times, works)


def read(path: Path, given: Iterable[Task]) -> Iterator[Row]:
    """Yield the rows of a table that this benchmark has printed to a file."""
    known = {}
    for line in path.read_text().splitlines():
        cells = [line[NAME + 1 + i * (CELL + 1) :][:CELL].split() for i in range(len(ENGINES))]
        pairs = [cell for cell in cells if len(cell) == 2]
        try:
            times = {
                e: float(c[1]) / 1e3 for e, c in zip(ENGINES, cells, strict=True) if c != ["-"]
            }
        except (IndexError, ValueError):  # This line is not a row, such as the heading.
            continue
        if pairs:
            known[line[:NAME].rstrip()] = times
    for task in given:
        if task.name in known:
            _, problem = task.call()
            times = known[task.name]
            yield Row(task.name, times, {e: ENGINES[e].work(problem) for e in times})


def fitted(rows: Sequence[Row], costs: Costs) -> Costs:
    """Return costs fitted to the measured times, separately for each method of computation."""
    samples: dict[str, list[tuple[dict[str, float], float]]] = defaultdict(list)
    for row in rows:
        for engine, (form, amounts) in row.works.items():
            samples[form].append((amounts, row.times[engine]))
    new = {form: dict(each) for form, each in costs.seconds.items()}
    for form, found in samples.items():
        new[form] |= fit(found, new[form])
    return replace(costs, seconds=new)


def fit(samples: list[tuple[dict[str, float], float]], start: dict[str, float]) -> dict[str, float]:
    """Return the non-negative costs that minimise the mean of abs(estimate / time - 1).

    Absolute errors are more robust to outliers than squares. They are minimised by iteratively
    reweighted least squares.

    Args:
        samples: operation counts by name, and measured seconds, for each measurement.
        start: current costs. Those of operations that occur in the samples are fitted; the others
            are kept.
    """
    from scipy.optimize import nnls

    names = [name for name in start if any(amounts.get(name) for amounts, _ in samples)]
    times = np.array([seconds for _, seconds in samples])
    matrix = np.array([[float(a.get(name, 0)) for name in names] for a, _ in samples])
    matrix /= times[:, None]
    scale = np.maximum(matrix.max(0), 1e-300)
    weight = np.ones(len(times))
    found = np.zeros(len(names))
    for _ in range(30):
        root = np.sqrt(weight)
        found = nnls(matrix / scale * root[:, None], root)[0]
        weight = 1 / np.maximum(np.abs(matrix / scale @ found - 1), 0.02)
    return {
        name: float(f"{x:.3g}") for name, x in zip(names, (found / scale).tolist(), strict=True)
    }


def judged(name: str, regrets: Sequence[float], rows: Sequence[Row]) -> str:
    """Return a sentence that summarises the regrets of all rows."""
    right = sum(regret <= ALLOWED for regret in regrets) / len(regrets)
    wrong = sum(regret > 0.25 for regret in regrets)
    best = [min(row.times.values()) for row in rows]
    total = sum(r * t for r, t in zip(regrets, best, strict=True)) / sum(best)
    return (
        f"{name}: {len(regrets)} problems, {right:.1%} within {ALLOWED:.0%} of the best engine; "
        f"{wrong} with a regret above 25 %; {total:.1%} extra time in total"
    )


def held_out(rows: Sequence[Row], costs: Costs, folds: int = 5) -> list[float]:
    """Return the regret of each row, with costs fitted to the rows of the other folds."""
    regrets = [0.0] * len(rows)
    order = np.random.default_rng(0).permutation(len(rows))  # Each fold gets calls of all kinds.
    for fold in range(folds):
        mine = set(order[fold::folds].tolist())
        fold_costs = fitted([row for i, row in enumerate(rows) if i not in mine], costs)
        for i in mine:
            regrets[i] = rows[i].regret(fold_costs)
    return regrets


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest graphs")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--device", default="cpu", help="device to measure on")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of query, key, value")
    parser.add_argument("--read", type=Path, nargs="+", help="read times from printed tables")
    parser.add_argument("--refit", action="store_true", help="fit costs and write costs.json")
    parser.add_argument("--origin", help="text that says where the times come from, for --refit")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dtype = DTYPES[options.dtype]
    device = torch.device(options.device)
    costs = costs_on(device, dtype)
    grid = tasks(options.device, options.only, quick=options.quick, dtype=dtype)
    heading = "nodes density HxD".ljust(NAME), *(f"{e}, ms".rjust(CELL) for e in ENGINES)
    print(" ".join(heading), "choice     regret")
    if options.read:
        given = list(grid)
        rows = [row for path in options.read for row in read(path, given)]
    else:
        rows = []
        for task in grid:
            rows.append(measured(task))
            print(rows[-1].line(costs), flush=True)
    if not rows:
        sys.exit(f"no problem has {options.only!r} in its name")
    regrets = [row.regret(costs) for row in rows]
    for row, regret in zip(rows, regrets, strict=True):
        if options.read and regret > ALLOWED:
            print(row.line(costs))
    print(judged("current costs", regrets, rows))
    if options.refit:
        print(judged("fitted, cross-validated", held_out(rows, costs), rows))
        new = fitted(rows, costs)
        print(judged("fitted to all", [row.regret(new) for row in rows], rows))
        written = {name: vars(each) for name, each in COSTS.items()}
        origin = f"benchmarks/planner.py --device {options.device} --dtype {options.dtype}"
        entry = {"origin": options.origin or origin, "measured": True, "seconds": new.seconds}
        written[entry_name(device.type, dtype)] = entry
        TABLE.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
