"""Time of the engine ``tiles`` versus ``scaled_dot_product_attention``, on graphs of intervals.

    python benchmarks/tiles.py [--rounds N] [--threads N] [--only WORD]
    python benchmarks/tiles.py --lists [--lengths 4096 16384 65536]

These problems are timed:

- causal and complete graphs of several lengths
- a packed batch versus a padded batch
- the graphs of sliding windows, Longformer and BigBird versus a mask
- relative position biases of T5 and Swin versus dense biases, with the gradient of the bias table
- grouped-query attention versus ``enable_gqa``

Outputs and gradients are compared first. Then runs alternate. Results are the time of PyTorch
divided by that of Edgewise, for forward, and for forward and backward: above 1, Edgewise is faster.
They are medians over rounds. Times are wall times, so the machine should be idle.

With ``--lists``, only Edgewise is timed: windows with hubs and other graphs with several intervals
per token are compared with a plain window, at several lengths. The table shows the time, the
operations per second, the time per edge relative to the window of the same length (forward, then
with backward), and the growth of the time since the shortest length.
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
from edgewise.encodings import Buckets
from edgewise.models.swin import ShiftedWindows

Run = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Problem:
    """Attention in Edgewise and in PyTorch, and the shape ``[batch, N, H, D]`` of the inputs."""

    name: str
    shape: tuple[int, int, int, int]
    ours: Run
    theirs: Run
    leaves: tuple[Tensor, ...] = ()  # Tensors besides the inputs that get gradients.
    key_heads: int = 0  # Number of key and value heads (0 = as many as query heads).


WINDOW = graphs.window(256)
LISTS: dict[str, graphs.Pattern] = {
    "window ±256": WINDOW,
    "with a hub": WINDOW | graphs.hubs([0]),
    "with 16 hubs": WINDOW | graphs.hubs(range(16)),
    "BigBird": WINDOW | graphs.hubs([0]) | graphs.expand(graphs.random(3), 64),
    "BigBird of blocks": graphs.expand(
        graphs.window(1) | graphs.hubs([0, -1]) | graphs.random(3), 64
    ),
    "causal": graphs.causal() & (WINDOW | graphs.hubs([0])),
    "4 apart": graphs.window(256, dilation=4),
}
"""Graphs for ``--lists``; windows and blocks are as large as in Longformer and BigBird."""


def fused(mask: Tensor | None = None, causal: bool = False) -> Run:
    def run(*nodes: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in nodes)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return out.transpose(1, 2)

    return run


def ours_on(graph: graphs.Pattern) -> Run:
    return lambda query, key, value: ew.attend(query, key, value, graph, engine="tiles")


def packed(sizes: list[int]) -> tuple[Run, Run]:
    """Return attention on a batch of texts: packed in Edgewise, padded with a mask in PyTorch."""
    longest = max(sizes)
    real = torch.arange(longest) < torch.tensor(sizes)[:, None]
    graph = graphs.batch(graphs.complete(), sizes)
    whole = fused(real[:, None, None])

    def ours(*nodes: Tensor) -> Tensor:
        return ew.attend(*(x[real] for x in nodes), graph, engine="tiles")

    return ours, lambda *nodes: whole(*nodes)[real]


def with_buckets(tokens: int, heads: int) -> Problem:
    """Return full attention with T5's relative position bias, versus a dense bias in PyTorch."""
    graph = graphs.complete().bind(tokens)
    encoding = Buckets(heads)
    behind = torch.arange(tokens)[:, None] - torch.arange(tokens)
    classes = encoding.bucket(behind)

    def ours(*nodes: Tensor) -> Tensor:
        return ew.attend(*nodes, graph, engine="tiles", **encoding(graph))

    def theirs(*nodes: Tensor) -> Tensor:
        return fused(encoding.table[classes].permute(2, 0, 1)[None])(*nodes)

    return Problem("T5's bias", (1, tokens, heads, 64), ours, theirs, (encoding.table,))


def in_windows(images: int, side: int, heads: int) -> Problem:
    """Return attention in Swin's windows of 7 × 7 patches: packed, versus a batch of windows."""
    windows = ShiftedWindows(side, side, 7, shifted=False)
    table = (0.02 * torch.randn(13 * 13, heads)).requires_grad_()
    place = torch.stack([torch.arange(49) // 7, torch.arange(49) % 7])
    apart = place[:, :, None] - place[:, None] + 6
    classes = apart[0] * 13 + apart[1]

    def ours(*nodes: Tensor) -> Tensor:
        bias = ew.OffsetBias(windows.offsets, table)
        return ew.attend(*nodes, windows.offsets.graph, bias=bias, engine="tiles")

    def theirs(*nodes: Tensor) -> Tensor:
        split = [x.reshape(-1, 49, heads, 32) for x in nodes]
        out = fused(table[classes].permute(2, 0, 1)[None])(*split)
        return out.reshape(nodes[0].shape)

    return Problem("Swin's windows", (images, side * side, heads, 32), ours, theirs, (table,))


def grouped(tokens: int) -> Problem:
    """Return causal grouped-query attention with eight query heads and two key heads."""

    def theirs(*nodes: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in nodes)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return out.transpose(1, 2)

    return Problem("grouped heads", (1, tokens, 8, 64), ours_on(graphs.causal()), theirs, (), 2)


def problems() -> Iterator[Problem]:
    """Yield all problems."""
    shapes = [(64, 32, 4, 32), (12, 64, 4, 32), (32, 128, 4, 64), (4, 512, 8, 64), (1, 2048, 4, 64)]
    for shape in shapes:
        causal, complete = graphs.causal(), graphs.complete()
        yield Problem("causal", shape, ours_on(causal), fused(causal=True))
        yield Problem("complete", shape, ours_on(complete), fused())
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(5, 65, (64,), generator=generator).tolist()
    yield Problem("packed, 5 to 64 long", (64, max(sizes), 4, 64), *packed(sizes))
    yield with_buckets(512, 12)
    yield with_buckets(2048, 12)
    yield in_windows(4, 56, 3)
    yield grouped(2048)
    for n in (1024, 8192):
        window = graphs.window(128).bind(n)
        yield Problem("window ±128", (1, n, 4, 64), ours_on(window), fused(window.dense()))
    for name, pattern in LISTS.items():
        bound = pattern.bind(4096)
        yield Problem(name, (1, 4096, 12, 64), ours_on(bound), fused(bound.dense()))


def nodes_of(problem: Problem) -> list[Tensor]:
    """Return random query, key and value."""
    *lead, heads, width = problem.shape
    shapes = [heads, problem.key_heads or heads, problem.key_heads or heads]
    return [torch.randn(*lead, own, width, requires_grad=True) for own in shapes]


def check(problem: Problem, nodes: list[Tensor]) -> None:
    """Raise an error if outputs or gradients of the two implementations disagree."""
    outcomes = []
    for run in (problem.ours, problem.theirs):
        out = run(*nodes)
        found = torch.autograd.grad(out.square().mean(), [*nodes, *problem.leaves])
        outcomes.append([out, *found])
    for mine, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def seconds(run: Callable[[], object], budget: float = 0.05) -> float:
    """Return the median seconds of a run, over as many runs as fit into ``budget`` seconds."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < budget and len(taken) < 100):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def ratios(problem: Problem, rounds: int) -> tuple[list[float], list[float]]:
    """Return PyTorch's time divided by Edgewise's in each round.

    The first list is for forward, the second for forward and backward.
    """
    nodes = nodes_of(problem)
    check(problem, nodes)
    gradient = torch.randn_like(problem.ours(*nodes))

    def forward(run: Run) -> None:
        with torch.no_grad():
            run(*nodes)

    def both(run: Run) -> None:
        torch.autograd.grad(run(*nodes), [*nodes, *problem.leaves], gradient)

    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for ratio, step in zip(found, (forward, both), strict=True):
            ours, theirs = (
                seconds(lambda run=run, step=step: step(run))  # type: ignore[misc]
                for run in (problem.ours, problem.theirs)
            )
            ratio.append(theirs / ours)
    return found


def lists(lengths: list[int], rounds: int) -> None:
    """Print the table of ``--lists``."""
    print(f"{'graph':<20} {'n':>6} {'forward':>24} {'with backward':>24} {'per pair':>14} growth")
    shortest: dict[str, float] = {}
    for n in lengths:
        nodes = [torch.randn(n, 12, 64, requires_grad=True) for _ in range(3)]
        gradient = torch.randn_like(nodes[0])
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in LISTS}
        for _ in range(rounds + 1):
            for name, pattern in LISTS.items():
                start = time.perf_counter()
                with torch.no_grad():
                    ew.attend(*nodes, pattern, engine="tiles")
                middle = time.perf_counter()
                torch.autograd.grad(ew.attend(*nodes, pattern, engine="tiles"), nodes, gradient)
                taken[name].append((middle - start, time.perf_counter() - middle))
        plain = [statistics.median(x) for x in zip(*taken["window ±256"][1:], strict=True)]
        for name, pattern in LISTS.items():
            pairs = pattern.bind(n).num_edges
            more = pairs / WINDOW.bind(n).num_edges
            cells = []
            for number, products in enumerate((2, 7)):
                typical = statistics.median(x[number] for x in taken[name][1:])
                speed = products * 2 * 64 * 12 * pairs / typical / 1e9
                cells.append(f"{typical * 1e3:9.1f} ms {speed:5.0f} GF/s")
                cells.append(f"{typical / plain[number] / more:.2f}x")
            shortest.setdefault(name, typical)
            longer = f"{typical / shortest[name]:.2f}x"
            print(f"{name:<20} {n:>6} {cells[0]:>24} {cells[2]:>24}", end="")
            print(f" {cells[1]:>7} {cells[3]:>6} {longer:>9}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="number of timed rounds")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument(
        "--lists", action="store_true", help="compare graphs with several intervals per token"
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[4096, 16384, 65536],
        help="tokens for --lists",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.lists:
        lists(options.lengths, options.rounds)
        return
    print(f"{'graph':<22} {'batch, n, H, D':<18} {'forward':>14} {'with backward':>16}")
    for problem in problems():
        if options.only not in problem.name:
            continue
        cells = []
        for found in ratios(problem, options.rounds):
            low, _, high = statistics.quantiles(found, n=4)
            cells.append(f"{statistics.median(found):.2f}x ± {(high - low) / 2:.2f}")
        sizes = ", ".join(map(str, problem.shape))
        print(f"{problem.name:<22} {sizes:<18} {cells[0]:>14} {cells[1]:>16}", flush=True)


if __name__ == "__main__":
    main()
