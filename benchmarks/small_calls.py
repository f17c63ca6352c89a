"""Overhead of small calls: time compared with PyTorch, and number of Python function calls.

    python benchmarks/small_calls.py [--rounds 200] [--list]

Each graph has 20 nodes. There are 2 heads of width 8, in float32, on one thread.

The first table shows the time of ``attend``, for forward without gradients, and for forward and
backward. It is compared with three others:

- ``scaled_dot_product_attention`` (SDPA) without a mask, as a lower bound
- SDPA with the mask or ``is_causal`` that gives the same result as ``attend``
- an ``autograd.Function`` that only allocates its results, as a lower bound for Python code

Runs alternate in one process. The table shows the minimum and the median over rounds in
microseconds, and ratios of the minima (Edgewise's time divided by the other).

The second table shows how many functions of this package a call enters, and in how many files. A
cold call is the first one on its graph; a warm call is a repeated one. ``--list`` names the
functions.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

import edgewise as ew
from edgewise import graphs

NODES, HEADS, WIDTH, EDGES = 20, 2, 8, 60
ROOT = Path(ew.__file__).parent
T = TypeVar("T")


def explicit() -> graphs.Graph:
    """Return a new graph with random edges."""
    return graphs.edges(torch.randint(NODES, (2, EDGES)), NODES)


def runs() -> graphs.Graph:
    """Return a new causal graph. It is made by batching, because ``bind`` returns cached graphs."""
    return graphs.batch(graphs.causal(), [NODES])


class Nothing(torch.autograd.Function):
    """Autograd function of three arguments that only allocates its result and gradients."""

    @staticmethod
    def forward(ctx: Any, *nodes: Tensor) -> Tensor:
        ctx.save_for_backward(*nodes)
        return torch.empty_like(nodes[0])

    @staticmethod
    def backward(ctx: Any, *_grads: Tensor) -> tuple[Tensor, ...]:
        query, key, value = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


@dataclass
class Timed:
    """Function with its inputs, and its time in microseconds in each round."""

    run: Callable[..., Tensor]
    nodes: list[Tensor]
    forward: list[float] = field(default_factory=list)
    both: list[float] = field(default_factory=list)

    def turn(self, repeats: int) -> None:
        """Time one round of ``repeats`` calls."""
        with torch.no_grad():
            gradient = torch.ones_like(self.run(*self.nodes))
            self.forward.append(_microseconds(lambda: self.run(*self.nodes), repeats))
        self.both.append(
            _microseconds(
                lambda: torch.autograd.grad(self.run(*self.nodes), self.nodes, gradient), repeats
            )
        )


def _microseconds(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats * 1e6


def times(rounds: int, repeats: int = 20) -> None:
    """Print the table of times; each round makes ``repeats`` calls."""
    ours = [torch.randn(NODES, HEADS, WIDTH).requires_grad_() for _ in range(3)]
    theirs = [x.detach().transpose(0, 1)[None].contiguous().requires_grad_() for x in ours]
    edges = explicit()
    # Remove duplicate edges, because each counts twice, which a mask cannot express.
    edges = graphs.edges(torch.unique(edges.edge_index, dim=1), NODES)
    mask = edges.dense()
    fused = F.scaled_dot_product_attention
    patterns = {"edges": edges, "causal": graphs.causal(), "complete": graphs.complete()}
    same: dict[str, Callable[..., Tensor]] = {
        "edges": lambda *x: fused(*x, attn_mask=mask),
        "causal": lambda *x: fused(*x, is_causal=True),
        "complete": fused,
    }
    timed = {"nothing": Timed(Nothing.apply, ours)}
    timed |= {f"SDPA, {name}": Timed(run, theirs) for name, run in same.items()}
    for name, graph in patterns.items():
        timed[name] = Timed(lambda q, k, v, graph=graph: ew.attend(q, k, v, graph), ours)
        torch.testing.assert_close(timed[name].run(*ours), same[name](*theirs)[0].transpose(0, 1))
    for _ in range(rounds):
        for each in timed.values():
            each.turn(repeats)
    print(f"{'µs, least (median)':<20}{'forward':>16}{'with backward':>18}", end="")
    print(f"{'of bare SDPA':>16}{'of the same':>16}")
    for name, each in timed.items():
        cells = [f"{min(x):.1f} ({statistics.median(x):.1f})" for x in (each.forward, each.both)]
        line = f"{name:<20}{cells[0]:>16}{cells[1]:>18}"
        if name in patterns:
            for other in (timed["SDPA, complete"], timed[f"SDPA, {name}"]):
                forward = min(each.forward) / min(other.forward)
                both = min(each.both) / min(other.both)
                line += f"{f'{forward:.2f} {both:.2f}':>16}"
        print(line)


def entered(run: Callable[[], T]) -> tuple[T, Counter[tuple[str, str]]]:
    """Return the result of a call, and how often it enters each function of this package.

    The keys of the counter are (file, function).
    """
    found: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            found[str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname] += 1

    sys.setprofile(note)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return result, found


def count(name: str, make: Callable[[], graphs.Graph], engine: str, *, named: bool) -> None:
    """Print how many functions a cold and a warm call enter, and in how many files.

    ``make`` creates a new graph. With ``named``, the functions are listed.
    """
    nodes = [torch.randn(NODES, HEADS, WIDTH).requires_grad_() for _ in range(3)]
    gradient = torch.ones(NODES, HEADS, WIDTH)

    def passes(graph: graphs.Graph) -> list[Counter[tuple[str, str]]]:
        out, forward = entered(lambda: ew.attend(*nodes, graph, engine=engine))
        _, backward = entered(lambda: torch.autograd.grad(out, nodes, gradient))
        return [forward, backward]

    passes(make())
    graph = make()
    line = f"{name:<20}"
    for state in ("cold", "warm"):
        for step, found in zip(("forward", "backward"), passes(graph), strict=True):
            line += f"{f'{found.total()} in {len({file for file, _ in found})}':>18}"
            if named:
                print(f"{name}, {state}, {step}")
                for (file, function), times in found.items():
                    print(f"  {times:3} {file} {function}")
    print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="timed rounds (0 = none)")
    parser.add_argument("--list", action="store_true", help="list the functions of each call")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if arguments.rounds:
        times(arguments.rounds)
        print()
    steps = ("cold forward", "cold backward", "warm forward", "warm backward")
    print("Python calls in files".ljust(20) + "".join(f"{step:>18}" for step in steps))
    for name, make in (("rows", explicit), ("tiles", runs)):
        count(name, make, name, named=arguments.list)
        count(f"{name}, by auto", make, "auto", named=arguments.list)


if __name__ == "__main__":
    main()
