"""Time and memory of attention from 512 to 65,536 tokens, full beside sparse, as a picture.

    python -m benchmarks.long_texts docs/long_texts.png [--longest N] [--seconds S] [--gigabytes G]

Forward and backward of one layer's attention on one text, 4 heads of width 64 in float32: written
out as softmax(QKᵀ)V, whose matrix is kept; PyTorch's fused attention of all pairs; and Edgewise's
on Longformer's graph (256 tokens on either side and a hub) and on BigBird's (blocks of 64:
neighbours, both ends, three at random). Each point is a process of its own: the median of three
runs after a first one, and what they add to the memory of the process. A line ends where the next
point is expected to take longer than S seconds or more than G gigabytes. It is wall time, of a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import edgewise as ew
from benchmarks.cpu.measure import status
from edgewise import graphs

HEADS, WIDTH, SHORTEST, ROUNDS = 4, 64, 512, 3
Run = Callable[[Tensor, Tensor, Tensor], Tensor]


def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Of ``[N, H, D]``, with a matrix of all pairs."""
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    return ((q @ k.mT / WIDTH**0.5).softmax(-1) @ v).transpose(0, 1)


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same, by PyTorch's kernel."""
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)


def on(pattern: graphs.Pattern) -> Run:
    """Edgewise's, on a graph."""
    return lambda query, key, value: ew.attend(query, key, value, pattern, layout="NHD")


BLOCKS = graphs.window(1) | graphs.hubs([0, -1]) | graphs.random(3)
RUNS: dict[str, Run] = {
    "all pairs, written out": written_out,
    "all pairs, PyTorch's fused attention": fused,
    "Longformer's graph: window(256) | hubs([0])": on(graphs.window(256) | graphs.hubs([0])),
    "BigBird's graph: expand(window(1) | hubs([0, -1]) | random(3), 64)": on(
        graphs.expand(BLOCKS, 64)
    ),
}


def measure(run: Run, tokens: int) -> tuple[float, float]:
    """Seconds of forward and backward, and gigabytes that they add."""
    torch.manual_seed(0)
    nodes = [torch.randn(tokens, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    short = [x[:SHORTEST].detach().requires_grad_() for x in nodes]
    torch.autograd.grad(run(*short).sum(), short)  # libraries and threads are loaded
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before, spent = status("VmRSS"), []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        torch.autograd.grad(run(*nodes).sum(), nodes)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent[1:]), (status("VmHWM") - before) / 1e9


def lines(
    longest: int, seconds: float, gigabytes: float
) -> dict[str, list[tuple[int, float, float]]]:
    """Of each way the points: tokens, seconds, gigabytes."""
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in RUNS}
    for name, points in found.items():
        tokens = SHORTEST
        while tokens <= longest:
            command = [sys.executable, "-m", "benchmarks.long_texts", "--one", name]
            done = subprocess.run(
                [*command, "--longest", str(tokens)], capture_output=True, text=True, check=True
            )
            spent, added = json.loads(done.stdout)
            points.append((tokens, spent, added))
            print(f"{tokens:6d} tokens {1e3 * spent:9.1f} ms {1e3 * added:8.1f} MB  {name}")
            if 4 * spent > seconds or 4 * added > gigabytes:
                break
            tokens *= 2
    return found


def draw(found: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """Time on the left, memory on the right."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    for name, points in found.items():
        tokens, spent, added = zip(*points, strict=True)
        axes[0].loglog(tokens, [1e3 * x for x in spent], "o-", base=2, label=name)
        axes[1].loglog(tokens, [max(1e3 * x, 1) for x in added], "o-", base=2)
    for axis, label in zip(axes, ("forward + backward, ms", "memory added, MB"), strict=True):
        axis.set_xlabel("tokens")
        axis.set_ylabel(label)
        axis.set_yscale("log", base=10)
        axis.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"Attention over one text, {HEADS} heads of width {WIDTH}, float32")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure and draw; or measure one point, for the process that asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, nargs="?", default=Path("long_texts.png"))
    parser.add_argument("--longest", type=int, default=65536, metavar="N")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S")
    parser.add_argument("--gigabytes", type=float, default=6.0, metavar="G")
    parser.add_argument("--one", choices=RUNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(RUNS[arguments.one], arguments.longest)))
        return
    draw(lines(arguments.longest, arguments.seconds, arguments.gigabytes), arguments.path)


if __name__ == "__main__":
    main()
