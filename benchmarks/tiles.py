"""Attention over runs of sources beside ``scaled_dot_product_attention``, side by side.

    python benchmarks/tiles.py [--rounds N] [--threads N]

Causal and complete graphs of several lengths, a packed batch beside the padded one, and a window
beside a mask. Outputs and gradients are compared first. Then both take turns; the figures are
theirs / ours by the medians of each round, forward and forward with backward: above 1 Edgewise is
faster. It is wall time, of a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import edgewise as ew
from edgewise import graphs

Run = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Problem:
    """Two ways to the same ``[batch, N, H, D]``, and the shape of query, key and value."""

    name: str
    shape: tuple[int, int, int, int]
    ours: Run
    theirs: Run


def fused(mask: Tensor | None = None, causal: bool = False) -> Run:
    def run(*nodes: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in nodes)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return out.transpose(1, 2)

    return run


def ours_on(graph: graphs.Pattern) -> Run:
    return lambda query, key, value: ew.attend(query, key, value, graph, engine="tiles")


def packed(sizes: list[int]) -> tuple[Run, Run]:
    """The real tokens of a padded batch, packed; and the padded batch with a mask."""
    longest = max(sizes)
    real = torch.arange(longest) < torch.tensor(sizes)[:, None]
    graph = graphs.batch(graphs.complete(), sizes)
    whole = fused(real[:, None, None])

    def ours(*nodes: Tensor) -> Tensor:
        return ew.attend(*(x[real] for x in nodes), graph, engine="tiles")

    return ours, lambda *nodes: whole(*nodes)[real]


def problems() -> Iterator[Problem]:
    shapes = [(64, 32, 4, 32), (12, 64, 4, 32), (32, 128, 4, 64), (4, 512, 8, 64), (1, 2048, 4, 64)]
    for shape in shapes:
        causal, complete = graphs.causal(), graphs.complete()
        yield Problem("causal", shape, ours_on(causal), fused(causal=True))
        yield Problem("complete", shape, ours_on(complete), fused())
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(5, 65, (64,), generator=generator).tolist()
    yield Problem("packed, 5 to 64 long", (64, max(sizes), 4, 64), *packed(sizes))
    for n in (1024, 8192):
        window = graphs.window(128).bind(n)
        yield Problem("window ±128", (1, n, 4, 64), ours_on(window), fused(window.dense()))


def check(problem: Problem, nodes: list[Tensor]) -> None:
    outcomes = []
    for run in (problem.ours, problem.theirs):
        out = run(*nodes)
        outcomes.append([out, *torch.autograd.grad(out.square().sum(), nodes)])
    for mine, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def seconds(run: Callable[[], object], budget: float = 0.05) -> float:
    """The median of as many runs as the budget allows."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < budget and len(taken) < 100):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def ratios(problem: Problem, rounds: int) -> tuple[list[float], list[float]]:
    """Theirs / ours of every round: forward, and forward with backward."""
    nodes = [torch.randn(problem.shape, requires_grad=True) for _ in range(3)]
    check(problem, nodes)
    gradient = torch.randn_like(problem.ours(*nodes))

    def forward(run: Run) -> None:
        with torch.no_grad():
            run(*nodes)

    def both(run: Run) -> None:
        torch.autograd.grad(run(*nodes), nodes, gradient)

    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for ratio, step in zip(found, (forward, both), strict=True):
            ours, theirs = (
                seconds(lambda run=run, step=step: step(run))  # type: ignore[misc]
                for run in (problem.ours, problem.theirs)
            )
            ratio.append(theirs / ours)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"{'graph':<22} {'batch, n, H, D':<18} {'forward':>14} {'with backward':>16}")
    for problem in problems():
        cells = []
        for found in ratios(problem, options.rounds):
            low, _, high = statistics.quantiles(found, n=4)
            cells.append(f"{statistics.median(found):.2f}x ± {(high - low) / 2:.2f}")
        sizes = ", ".join(map(str, problem.shape))
        print(f"{problem.name:<22} {sizes:<18} {cells[0]:>14} {cells[1]:>16}", flush=True)


if __name__ == "__main__":
    main()
