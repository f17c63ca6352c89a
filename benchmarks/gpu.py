"""Edgewise and other implementations on a GPU: correctness, time and memory.

    python -m benchmarks.gpu --json gpu.json --picture gpu.png     # everything
    python -m benchmarks.gpu --only gatv2 --dtype bfloat16         # problems with gatv2 in the name
    python -m benchmarks.gpu --check                               # correctness only

Ratios are the other implementation's value divided by Edgewise's: above 1, Edgewise is faster or
needs less memory. For some ratios the table also shows the goal.

Before timing, the tests of the kernels (``tests/triton``) run on this GPU. Then the output and all
gradients of each problem are compared with the other implementations, and two runs of Edgewise's
kernels must agree bit for bit. Any failure ends the benchmark. Times are measured by CUDA events
after a warm-up; the implementations alternate. Memory is the peak that forward and backward add.

Without a GPU, ``--check`` runs the kernels in Triton's interpreter on small problems. Set
``TRITON_INTERPRET=1`` and ``EDGEWISE_TRITON=1`` for this.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import edgewise as ew
from benchmarks.cpu.measure import disagreement, gradients
from benchmarks.cpu.problems import Built, Problem, build
from edgewise import graphs
from edgewise.engines import triton_rows

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""Largest allowed difference relative to the largest entry, by dtype.

It is larger for 16 bits, because other implementations sum in 16 bits.
"""
BOTH = ("pyg", "compiled")
PROBLEMS = (
    Problem("transformer", nodes=200_000, peers=BOTH),
    Problem("gatv2", nodes=200_000, peers=BOTH),
    Problem("gat", nodes=200_000, peers=BOTH),
    Problem("gcn", nodes=200_000, peers=BOTH),
    Problem("sage", nodes=200_000, peers=BOTH),
    Problem("layer", nodes=200_000, peers=BOTH),
    Problem("transformer", nodes=200_000, kind="power law", peers=BOTH),
    Problem("gatv2", nodes=200_000, kind="power law", peers=BOTH),
    Problem("transformer", nodes=20_000, degree=16, peers=BOTH),
    Problem("transformer", nodes=1_000_000, degree=6, peers=BOTH),
    Problem("molecules", nodes=20_000, degree=2, peers=("pyg", "padded")),
)
GOALS = {
    ("transformer", "pyg"): 8.0,
    ("transformer", "compiled"): 2.5,
    ("gat", "pyg"): 4.0,
    ("gatv2", "pyg"): 8.0,
    ("complete()", "sdpa"): 0.97,
}
"""Goals for the ratio of forward and backward: ``{(start of the problem's name, other): goal}``."""
TESTS = (
    *("tests/triton/test_modes.py", "tests/triton/test_interpreted.py"),
    *("-k", "not lower_precision and not small_graph and not every_pattern"),
)
"""Arguments of pytest that select kernel tests which compile only a few variants of the kernels."""
SMALL = {"nodes": 24, "degree": 3, "heads": 2, "width": 4}
"""Sizes of problems for Triton's interpreter, which is slow."""


@dataclass(frozen=True)
class Runs:
    """Problem of full, causal or sliding-window attention, for which PyTorch has kernels."""

    pattern: str
    tokens: int
    heads: int = 16
    width: int = 64

    @property
    def name(self) -> str:
        return f"{self.pattern}, n={self.tokens:,}, {self.heads}x{self.width}"


PATTERNS = (Runs("complete()", 8192), Runs("causal()", 8192), Runs("window(256)", 16384))


def build_runs(runs: Runs) -> Built:
    """Return a problem with three implementations: ``attend``, SDPA and FlexAttention."""
    torch.manual_seed(0)
    pattern: graphs.Pattern = eval(runs.pattern, vars(graphs))  # The text is from this file.
    tokens = runs.tokens
    q, k, v = (torch.randn(1, tokens, runs.heads, runs.width).requires_grad_() for _ in range(3))
    graph = pattern.bind(tokens).to(q.device)

    def heads_first() -> tuple[Tensor, ...]:
        return tuple(x.transpose(1, 2) for x in (q, k, v))

    def sdpa() -> Tensor:
        mask = None if runs.pattern in ("complete()", "causal()") else graph.dense()
        out = torch.nn.functional.scaled_dot_product_attention(
            *heads_first(), attn_mask=mask, is_causal=runs.pattern == "causal()"
        )
        return out.transpose(1, 2)

    made: dict[str, Callable[[], Tensor]] = {
        "edgewise": lambda: ew.attend(q, k, v, graph),
        "sdpa": sdpa,
    }
    if q.is_cuda:  # FlexAttention has no backward pass on the CPU.
        made["flex"] = _flex(runs, heads_first)
    gathered = 2 * tokens * runs.heads * runs.width * q.element_size()
    return Built(made, (q, k, v), graph.num_edges, gathered, lambda: None)


def _flex(runs: Runs, heads_first: Callable[[], tuple[Tensor, ...]]) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    masks: dict[str, Callable[..., Tensor]] = {
        "complete()": lambda _b, _h, i, j: i >= -j,
        "causal()": lambda _b, _h, i, j: i >= j,
        "window(256)": lambda _b, _h, i, j: (i - j).abs() <= 256,
    }
    n = runs.tokens
    mask = create_block_mask(masks[runs.pattern], None, None, n, n, device="cuda")
    flex = torch.compile(flex_attention, dynamic=False)
    return lambda: flex(*heads_first(), block_mask=mask).transpose(1, 2)


def build_gat(nodes: int = 200_000) -> Built:
    """Return a training step of GAT in Edgewise and in PyTorch Geometric, with the same sizes."""
    from torch_geometric.nn import GAT

    torch.manual_seed(0)
    index = torch.randint(nodes, (2, 10 * nodes))
    graph = graphs.edges(index, nodes)
    x = torch.randn(nodes, 128).requires_grad_()
    ours = ew.models.gat(128, 40, dropout=0.0)  # No dropout, so that two runs agree.
    theirs = GAT(128, 64, 2, 40, heads=8)
    return Built(
        {"edgewise": lambda: ours(x, graph), "pyg": lambda: theirs(x, index)},
        (x,),
        index.shape[1],
        0,
        lambda: None,
    )


def build_gpt(context: int = 1024, batch: int = 8, width: int = 768) -> Built:
    """Return a training step of GPT in Edgewise and with PyTorch's layers, with the same sizes."""
    torch.manual_seed(0)
    ids = torch.randint(1000, (batch, context))
    ours = ew.models.gpt(
        1000,
        width=width,
        depth=6,
        heads=width // 64,
        ffn_dim=4 * width,
        max_length=context,
        dropout=0.0,
    )
    layer = torch.nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    layers = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    embed, head = torch.nn.Embedding(1000, width), torch.nn.Linear(width, 1000)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(context)

    def theirs() -> Tensor:
        out: Tensor = head(layers(embed(ids), mask=mask, is_causal=True))
        return out

    leaves = (*ours.parameters(), *layers.parameters(), *embed.parameters(), *head.parameters())
    runs = {"edgewise": lambda: ours.logits(ours(ids)), "pytorch": theirs}
    return Built(runs, leaves, 0, 0, lambda: None)


def test_kernels() -> None:
    """Run the tests of the kernels, and exit if one fails.

    There is one process per core, because most of the time is compilation. Warnings, which differ
    among versions of PyTorch, are not errors here.
    """
    options = ("-q", "-W", "default", "-p", "no:cacheprovider")
    workers = ("--numprocesses", str(os.cpu_count() or 1))
    command = [sys.executable, "-m", "pytest", *options, *workers, *TESTS]
    if subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode:
        raise SystemExit("a test in tests/triton fails on this machine, so nothing is timed")


@dataclass(frozen=True)
class Measured:
    """What to measure: a function that builds the problem, and what must hold of its results.

    Implementations with the same weights must agree. Two runs of Edgewise must be equal, except if
    Edgewise calls PyTorch's SDPA, which adds up gradients in any order.
    """

    build: Callable[[], Built]
    agree: bool = True
    repeat: bool = True


def check(name: str, built: Built, dtype: torch.dtype, what: Measured) -> None:
    """Exit if implementations disagree or two runs of Edgewise differ."""
    if what.agree:
        errors = disagreement(built)
        if not all(error <= TOLERANCE[dtype] for error in errors.values()):
            raise SystemExit(f"{name}: implementations disagree, {errors}")
    if not what.repeat:
        return
    grad = torch.randn_like(built.runs["edgewise"]().flatten(1))
    first, second = (gradients(built.runs["edgewise"], built.leaves, grad) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        if a is not None and not torch.equal(a, b):
            raise SystemExit(f"{name}: two runs differ")


def time_of(run: Callable[[], object]) -> float:
    """Return the milliseconds of a run on the GPU."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def peak_of(run: Callable[[], object]) -> int:
    """Return the bytes of GPU memory that a run adds."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def copy_bandwidth() -> float:
    """Return the bytes per second that copying a large tensor reads and writes."""
    source = torch.ones(1 << 30, dtype=torch.int8)
    target = torch.empty_like(source)
    took = min(time_of(lambda: target.copy_(source)) for _ in range(10))
    return 2 * source.nbytes / took * 1e3


def measure(name: str, built: Built, bandwidth: float, rounds: int) -> dict[str, Any]:
    """Return the times and memory of each implementation; ``bandwidth`` is that of a copy."""
    grad = torch.randn_like(built.runs["edgewise"]().flatten(1))

    def forward(run: Callable[[], Tensor]) -> Callable[[], None]:
        def passed() -> None:
            with torch.no_grad():
                run()

        return passed

    def both(run: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: gradients(run, built.leaves, grad)

    found: dict[str, dict[str, list[float]]] = {
        peer: {"forward": [], "both": []} for peer in built.runs
    }
    for turn in range(rounds + 3):
        for peer, run in built.runs.items():
            times = {"forward": time_of(forward(run)), "both": time_of(both(run))}
            for passed, took in times.items():
                if turn >= 3:
                    found[peer][passed].append(took)
    row: dict[str, Any] = {"name": name, "edges": built.edges, "peers": {}}
    for peer, passes in found.items():
        peak = peak_of(both(built.runs[peer]))
        medians = {passed: statistics.median(times) for passed, times in passes.items()}
        row["peers"][peer] = {**medians, "memory": peak, "all": passes}
    ours = row["peers"]["edgewise"]
    row["share of a copy"] = built.gathered / (ours["forward"] / 1e3) / bandwidth
    return row


def show(row: dict[str, Any]) -> None:
    """Print a table line for each other implementation of a problem."""
    ours = row["peers"]["edgewise"]
    for peer, theirs in row["peers"].items():
        if peer != "edgewise":
            ratios = (theirs[what] / ours[what] for what in ("forward", "both", "memory"))
            goal = GOALS.get((row["name"].split(",")[0], peer))
            print(
                f"{row['name']:<58} {peer:<9} {' '.join(f'{ratio:8.2f}x' for ratio in ratios)} "
                f"{ours['forward']:8.3f} {ours['both']:8.3f} ms {row['share of a copy']:7.0%}"
                + (f"  goal {goal:g}x" if goal else ""),
                flush=True,
            )


HEADER = (
    f"{'problem':<58} {'versus':<9} {'forward':>9} {'+ backward':>9} {'memory':>8} "
    f"{'forward':>8} {'+ back':>8} ms  of copy bandwidth"
)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save a bar chart of the ratios."""
    import matplotlib.pyplot as plt

    bars = [
        (f"{row['name']}\n{peer}", theirs["both"] / row["peers"]["edgewise"]["both"])
        for row in rows
        for peer, theirs in row["peers"].items()
        if peer != "edgewise"
    ]
    figure, axes = plt.subplots(figsize=(9, 0.45 * len(bars) + 1), layout="constrained")
    axes.barh([name for name, _ in bars], [ratio for _, ratio in bars])
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="theirs / ours, forward and backward")
    axes.invert_yaxis()
    figure.savefig(path, dpi=150)


def problems(only: str, *, small: bool) -> dict[str, Measured]:
    """Return what to measure, by name.

    Args:
        only: return only problems whose name contains this text.
        small: make problems small enough for Triton's interpreter.
    """
    made: dict[str, Measured] = {}
    for problem in PROBLEMS:
        peers = tuple(peer for peer in problem.peers if peer != "compiled" or not small)
        chosen = replace(problem, peers=peers, **SMALL) if small else problem
        made[chosen.name] = Measured(partial(build, chosen))
    for runs in PATTERNS:
        shorter = replace(runs, tokens=12, heads=2, width=4) if small else runs
        flex = "window" in runs.pattern  # The others call SDPA.
        made[shorter.name] = Measured(partial(build_runs, shorter), repeat=flex)
    made["GAT, a step"] = Measured(partial(build_gat, 24 if small else 200_000), agree=False)
    gpt = partial(build_gpt, *((8, 1, 64) if small else (1024, 8, 768)))
    made["GPT, a step"] = Measured(gpt, agree=False, repeat=False)
    return {name: what for name, what in made.items() if only.lower() in name.lower()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds, after 3 to warm up")
    parser.add_argument("--check", action="store_true", help="compare results without timing")
    parser.add_argument("--untested", action="store_true", help="skip tests/triton")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--picture", type=Path, help="write a bar chart to this file")
    options = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    if not has_gpu and not (options.check and triton_rows.INTERPRETED):
        raise SystemExit(
            "no GPU found: use one, or run --check with TRITON_INTERPRET=1 EDGEWISE_TRITON=1"
        )
    if has_gpu and not options.untested:
        test_kernels()
    dtype: torch.dtype = getattr(torch, options.dtype)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    rows: list[dict[str, Any]] = []
    try:
        with torch.device("cuda" if has_gpu else "cpu"):
            bandwidth = 0.0 if options.check else copy_bandwidth()
            if not options.check:
                print(HEADER)
            for name, what in problems(options.only, small=not has_gpu).items():
                built = what.build()
                check(name, built, dtype, what)
                if options.check:
                    print(f"{name:<58} agrees", flush=True)
                    continue
                rows.append(measure(name, built, bandwidth, options.rounds))
                show(rows[-1])
                if options.json:  # Write after each problem, in case of an interruption.
                    write(options.json, rows, options.dtype, bandwidth)
    finally:
        torch.set_default_dtype(default)
    if options.picture and rows:
        draw(rows, options.picture)


def write(path: Path, rows: list[dict[str, Any]], dtype: str, bandwidth: float) -> None:
    """Write the results and a description of the device as JSON."""
    where = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "dtype": dtype,
        "copy, bytes a second": bandwidth,
        "problems": [asdict(problem) for problem in PROBLEMS],
    }
    path.write_text(json.dumps({**where, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
