"""Is "auto" right? Times all engines over a grid of problems and prints what the planner says.

    python benchmarks/planner.py            # the table: estimate, time, choice, regret
    python benchmarks/planner.py --quick    # a few minutes less

Forward and backward of every argument, best of several runs, float32, one thread. ``regret`` is how
much longer the engine that ``plan`` chose took than the best one.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import edgewise as ew
from edgewise import graphs
from edgewise.attention import _problem, prepare
from edgewise.engines import ENGINES
from edgewise.graphs import Graph

MOST_ELEMENTS = 3e7  # of an edge or pair tensor, so that a run fits in memory and patience
NODES = (16, 64, 256, 1024, 4096)
DENSITIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
HEADS = ((1, 8), (8, 8), (4, 16), (1, 64), (8, 64))
TERMS = ("plain", "bias", "gain", "additive", "lse")


@dataclass(frozen=True)
class Row:
    name: str
    estimates: dict[str, float]
    times: dict[str, float]  # of the engines that can serve

    @property
    def choice(self) -> str:
        return min(self.estimates, key=lambda engine: self.estimates[engine])

    @property
    def regret(self) -> float:
        return self.times[self.choice] / min(self.times.values()) - 1

    def __str__(self) -> str:
        cells = [
            f"{self.estimates[e] * 1e3:9.3f} {self.times[e] * 1e3:9.3f}"
            if e in self.times
            else "-".rjust(19)
            for e in ENGINES
        ]
        return f"{self.name:<36} {' '.join(cells)} {self.choice:<10} {self.regret:6.0%}"


def seconds(run: Callable[[], Any], budget: float = 0.08) -> float:
    """The best of as many runs as the budget allows, three at least.

    Time of this process's thread, so that the table can be made on a machine that others use.
    """
    run()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or (spent < budget and runs < 200):
        start = time.process_time()
        run()
        elapsed = time.process_time() - start
        best, spent, runs = min(best, elapsed), spent + elapsed, runs + 1
    return best


def measure(name: str, graph: Graph, heads: int, width: int, term: str) -> Row:
    nodes = graph.num_targets
    if term == "additive" and heads == 8 and width == 8:
        width = 1  # GAT
    query, key, value = (torch.randn(nodes, heads, width, requires_grad=True) for _ in range(3))
    leaves, options = [query, key, value], {}
    if term in ("bias", "gain"):
        options[term] = torch.randn(graph.num_edges, heads, requires_grad=True)
        leaves.append(options[term])
    if term == "additive":
        weight = torch.randn(heads, width, requires_grad=True)
        options["score"] = ew.Additive(weight=weight)
        leaves.append(weight)
    call, graph = prepare(query, key, value, graph, **options)
    problem = _problem(call, graph, lse=term == "lse")

    def run(engine: str) -> None:
        if term == "lse":
            out, lse = ew.attend_with_lse(query, key, value, graph, engine=engine, **options)
            total = out.sum() + lse.masked_fill(lse == -torch.inf, 0).sum()
        else:
            total = ew.attend(query, key, value, graph, engine=engine, **options).sum()
        torch.autograd.grad(total, leaves, allow_unused=True)

    serving = {e: engine for e, engine in ENGINES.items() if not engine.refuses(problem)}
    estimates = {e: engine.seconds(problem) for e, engine in serving.items()}
    times = {e: seconds(lambda e=e: run(e)) for e in serving}
    return Row(name, estimates, times)


def problems(quick: bool) -> Iterator[tuple[str, Graph, int, int, str]]:
    runs = (graphs.causal(), graphs.window(8), graphs.window(64))
    for nodes, graph in itertools.product(NODES[:4] if quick else NODES, runs):
        for heads, width in HEADS:
            if nodes * nodes * heads * width < MOST_ELEMENTS:
                for term in ("plain", "lse"):
                    name = f"{nodes:5} {graph!r} {heads}x{width:<3} {term}"
                    yield name, graph.bind(nodes), heads, width, term
    for nodes in NODES[:4] if quick else NODES:
        for density in DENSITIES:
            degree = round(density * nodes)
            if degree == 0:
                continue
            graph = graphs.complete() if degree == nodes else graphs.random(degree)
            bound = graph.bind(nodes)
            for heads, width in HEADS:
                for term in TERMS:
                    pairs = nodes * nodes * heads * (width if term == "additive" else 1)
                    if max(bound.num_edges * heads * width, pairs) < MOST_ELEMENTS:
                        yield (
                            f"{nodes:5} {density:6} {heads}x{width:<3} {term}",
                            bound,
                            heads,
                            width,
                            term,
                        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(
        " ".join(
            (
                "nodes density HxD".ljust(36),
                *(f"{e}, ms".rjust(19) for e in ENGINES),
                "choice     regret",
            )
        )
    )
    rows = []
    for problem in problems(arguments.quick):
        rows.append(measure(*problem))
        print(rows[-1], flush=True)
    wrong = [row for row in rows if row.regret > 0.25]
    total = sum(row.times[row.choice] for row in rows) / sum(
        min(row.times.values()) for row in rows
    )
    print(f"{len(rows)} problems; {len(wrong)} with a regret over 25 %; {total - 1:.1%} in all")


if __name__ == "__main__":
    main()
