"""Chart of the time and memory of full and sparse attention, from 512 to 65,536 tokens.

    python -m benchmarks.long_texts docs/howto/long_texts.png [--longest N] [--seconds S]
        [--gigabytes G]

The chart shows the attention of one layer on one text, forward and backward, with 4 heads of width
64 in float32, for four methods:

- softmax(QKᵀ)V with an explicit matrix of all pairs
- PyTorch's fused attention
- Edgewise on Longformer's graph: a window of 256 tokens on either side, and one global token
- Edgewise on BigBird's graph: each block of 64 tokens attends to both neighbours, the first, the
  last and three random blocks

Each point is measured in a separate process: the median time of three runs after a warm-up, and the
memory that they add. The line of a method ends if its next point is expected to take more than S
seconds or G gigabytes. Times are wall times, so the machine should be idle.
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
    """Compute attention for query, key and value ``[N, H, D]`` with a matrix of all pairs."""
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    return ((q @ k.mT / WIDTH**0.5).softmax(-1) @ v).transpose(0, 1)


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute attention for query, key and value ``[N, H, D]`` with PyTorch's fused kernel."""
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)


def on(pattern: graphs.Pattern) -> Run:
    """Return a function that computes Edgewise's attention with a pattern."""
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
    """Return the median seconds of forward and backward, and the gigabytes that they add."""
    torch.manual_seed(0)
    nodes = [torch.randn(tokens, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    short = [x[:SHORTEST].detach().requires_grad_() for x in nodes]
    torch.autograd.grad(run(*short).sum(), short)  # Load libraries and start threads.
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    before, spent = status("VmRSS"), []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        torch.autograd.grad(run(*nodes).sum(), nodes)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent[1:]), (status("VmHWM") - before) / 1e9


def lines(
    longest: int, seconds: float, gigabytes: float
) -> dict[str, list[tuple[int, float, float]]]:
    """Return the points ``(tokens, seconds, gigabytes)`` of the line of each method.

    Args:
        longest: max number of tokens.
        seconds: maximum expected time of a point.
        gigabytes: maximum expected memory of a point.
    """
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
    """Save a chart of time (left) and memory (right) by number of tokens."""
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
    """Measure all points and draw them; or, in a subprocess, measure one point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "path", type=Path, nargs="?", default=Path("long_texts.png"), help="image file to write"
    )
    parser.add_argument(
        "--longest", type=int, default=65536, metavar="N", help="max number of tokens"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="max time for a point"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=6.0, metavar="G", help="max memory for a point"
    )
    parser.add_argument("--one", choices=RUNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(RUNS[arguments.one], arguments.longest)))
        return
    draw(lines(arguments.longest, arguments.seconds, arguments.gigabytes), arguments.path)


if __name__ == "__main__":
    main()
