"""Time and memory of graph Transformers on a CPU, in Edgewise and in other implementations.

    python -m benchmarks.graph_transformers [--rounds 7] [--threads 2] [--json FILE]

- GPS: a training step with Adam of five layers on packed molecules, versus PyTorch Geometric's
  ``GPSConv``, which pads the molecules. Both have the same weights, and each round has new batches.
  In a third run each atom attends only to itself; it shows how fast a step would be if attention
  took no time.
- Graphormer: attention with its bias on packed molecules, versus ``scaled_dot_product_attention``
  with a padded bias ``[B, n, n, H]``, forward and backward, with the gradient of the bias table.
- Exphormer: bytes of memory per additional edge in a graph of 100,000 nodes, forward and backward,
  for two hidden sizes.

Results are compared first. Then runs alternate; times are medians with half the interquartile
range. Peak memory is measured in separate processes. Molecules are random trees with some rings.
They have about 23 atoms, and a few are much larger, as in real data sets. For layers with edge
features, see ``benchmarks/drop_ins.py``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.nn as theirs
from torch import Tensor, nn

from benchmarks.cpu.measure import spread, status
from edgewise import attend, graphs
from edgewise.attention.biases import TableBias
from edgewise.models import exphormer
from edgewise.models.gps import GINELayer, GPSLayer

WIDTH, BONDS, HEADS, DEPTH = 64, 4, 4, 5
BIAS_HEADS, BIAS_WIDTH, CLASSES = 8, 10, 22  # Graphormer-slim; distances up to 20, unreachable
PARTS = ("gps", "graphormer", "exphormer")
CLOSE = 1e-4  # Largest allowed difference, relative to the largest entry.


# ---- molecules ----


@dataclass(frozen=True)
class Molecules:
    """Packed batch of B molecules.

    Atom features are ``[N, WIDTH]``, bonds ``[2, E]`` with features ``[E, BONDS]``, and ``sizes``
    holds the number of atoms of each molecule.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    sizes: Tensor

    @property
    def owner(self) -> Tensor:
        """Index of each atom's molecule, ``[N]``: what PyTorch Geometric calls ``batch``."""
        return torch.arange(len(self.sizes)).repeat_interleave(self.sizes)

    @property
    def fill(self) -> float:
        """Fraction of a padded batch that is not padding."""
        return float(self.sizes.double().mean() / self.sizes.max())


def molecules(count: int, seed: int) -> Molecules:
    """Return a batch of ``count`` random molecules."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randn(count, generator=generator) * 0.45 + 3.1
    sizes = sizes.exp().round().long().clamp(4, 150)
    pairs, first = [], 0
    for n in sizes.tolist():
        child = torch.arange(1, n)
        chance = torch.rand(n - 1, generator=generator)
        parent = (child - 1 - (chance * child.clamp(max=3)).long()).clamp(min=0)
        start = torch.arange(0, max(n - 5, 0), 7)  # Close a ring of six in every seven atoms.
        pairs += [torch.stack([parent, child]) + first, torch.stack([start, start + 5]) + first]
        first += n
    causal = torch.cat(pairs, dim=1)
    edge_index = torch.cat([causal, causal.flip(0)], dim=1)
    x = torch.randn(first, WIDTH, generator=generator)
    edge_attr = torch.randn(edge_index.shape[1], BONDS, generator=generator)
    return Molecules(x, edge_index, edge_attr, sizes)


# ---- GPS ----


class OurGPS(nn.Module):
    """GPS layers of Edgewise; the graphs of each batch are built in ``forward``.

    Args:
        alone: let each atom attend only to itself, to measure the time of everything but attention.
    """

    def __init__(self, alone: bool = False) -> None:
        super().__init__()
        self.alone = alone
        self.layers = nn.ModuleList(
            GPSLayer(WIDTH, GINELayer(WIDTH, BONDS), HEADS) for _ in range(DEPTH)
        )

    def forward(self, batch: Molecules) -> Tensor:
        n = len(batch.x)
        graph = graphs.Edges(batch.edge_index, n, n, (batch.sizes, batch.sizes))
        pattern = graphs.window(0) if self.alone else graphs.complete()
        pairs = graphs.batch(pattern, batch.sizes)
        x = batch.x
        for layer in self.layers:
            x = layer(x, graph, pairs, batch.edge_attr)
        return x


class TheirGPS(nn.Module):
    """GPS layers of PyTorch Geometric."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            theirs.GPSConv(WIDTH, conv(), heads=HEADS) for _ in range(DEPTH)
        )

    def forward(self, batch: Molecules) -> Tensor:
        x, owner = batch.x, batch.owner
        for layer in self.layers:
            x = layer(x, batch.edge_index, owner, edge_attr=batch.edge_attr)
        return x


def conv() -> nn.Module:
    """Return the message-passing layer of PyTorch Geometric that the GPS layers use."""
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    return theirs.GINEConv(network, train_eps=True, edge_dim=BONDS)


def copied(peer: TheirGPS) -> OurGPS:
    """Return an Edgewise model with the weights of a PyTorch Geometric model."""
    ours = OurGPS()
    for own, other in zip(ours.layers, peer.layers, strict=True):
        weights = {
            "attention.qkv.weight": other.attn.in_proj_weight,
            "attention.qkv.bias": other.attn.in_proj_bias,
            "attention.output.weight": other.attn.out_proj.weight,
            "attention.output.bias": other.attn.out_proj.bias,
            "local.epsilon": other.conv.eps.reshape(()),
        }
        parts = {
            "local_norm": other.norm1.module,
            "attention_norm": other.norm2.module,
            "norm": other.norm3.module,
            "network": other.mlp,
            "local.network": other.conv.nn,
            "local.edge": other.conv.lin,
        }
        for part, module in parts.items():
            weights |= {f"{part}.{name}": x for name, x in module.state_dict().items()}
        own.load_state_dict(weights)
    return ours


def trained(model: nn.Module, count: int) -> Callable[[int], float]:
    """Return a function that makes one training step and returns the loss.

    Its argument is the number of the round, which has its own batch of ``count`` molecules.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(turn: int) -> float:
        loss = model(molecules_of[count, turn]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


molecules_of: dict[tuple[int, int], Molecules] = {}
"""Dict from (number of molecules, round) to batches, which are sampled before timing."""


def gps(count: int, rounds: int) -> dict[str, float]:
    """Return the seconds per training step of each GPS model on ``count`` molecules."""
    torch.manual_seed(0)
    for turn in range(rounds + 3):
        molecules_of[count, turn] = molecules(count, turn)
    peer = TheirGPS()
    steps = {"pyg": trained(peer, count), "edgewise": trained(copied(peer), count)}
    losses = [[step(turn) for turn in range(3)] for step in steps.values()]
    check("GPS", *(torch.tensor(each) for each in losses))
    steps["alone"] = trained(OurGPS(alone=True), count)
    found = timed({name: lambda t, s=step: s(t + 3) for name, step in steps.items()}, rounds)
    fills = [molecules_of[count, turn].fill for turn in range(rounds)]
    return found | {"fill": sum(fills) / len(fills)}


# ---- Graphormer's bias ----


def of_bias(count: int) -> tuple[dict[str, Callable[[], tuple[Tensor, ...]]], float]:
    """Return functions that run attention with Graphormer's bias, forward and backward.

    The second result is the fraction of the padded batch that is not padding.
    """
    sizes = molecules(count, 0).sizes
    n, total, longest = len(sizes), int(sizes.sum()), int(sizes.max())
    torch.manual_seed(0)
    qkv = [torch.randn(total, BIAS_HEADS, BIAS_WIDTH, requires_grad=True) for _ in range(3)]
    table = torch.randn(CLASSES, BIAS_HEADS, requires_grad=True)
    grad = torch.randn(total, BIAS_HEADS, BIAS_WIDTH)
    classes = torch.randint(CLASSES, (int(sizes.square().sum()),))
    pairs = graphs.batch(graphs.complete(), sizes)
    real = torch.arange(longest) < sizes[:, None]  # [B, n]
    real_pairs = real[:, :, None] & real[:, None, :]
    padded_classes = torch.zeros(n, longest, longest, dtype=torch.long)
    padded_classes[real_pairs] = classes

    def packed() -> tuple[Tensor, ...]:
        out = attend(*qkv, pairs, bias=TableBias(classes, table))
        return out.detach(), *torch.autograd.grad(out, [*qkv, table], grad)

    def padded() -> tuple[Tensor, ...]:
        query, key, value = (
            x.new_zeros(n, longest, BIAS_HEADS, BIAS_WIDTH).index_put((real,), x).transpose(1, 2)
            for x in qkv
        )
        bias = F.embedding(padded_classes, table)  # [B, n, n, H]
        bias = bias.masked_fill(~real[:, None, :, None], -torch.inf).permute(0, 3, 1, 2)
        out = F.scaled_dot_product_attention(query, key, value, bias).transpose(1, 2)[real]
        return out.detach(), *torch.autograd.grad(out, [*qkv, table], grad)

    return {"padded": padded, "edgewise": packed}, float(sizes.double().mean() / longest)


def graphormer(count: int, rounds: int) -> dict[str, float]:
    """Return the seconds and bytes of attention with Graphormer's bias, packed and padded."""
    runs, fill = of_bias(count)
    for one, other in zip(*(run() for run in runs.values()), strict=True):
        check("Graphormer's bias", one, other)
    found = timed({name: lambda _, r=run: r() for name, run in runs.items()}, rounds)
    memory = {f"{name}_bytes": float(peak("bias", name, str(count))) for name in runs}
    return found | memory | {"fill": fill}


# ---- Exphormer ----


def of_exphormer(nodes: int, degree: int, width: int) -> Callable[[], None]:
    """Return a function that runs Exphormer forward and backward on a random graph.

    Each of the ``nodes`` nodes has in-degree ``degree``; ``width`` is the hidden size.
    """
    torch.manual_seed(0)
    model = exphormer(8, 1, width=width, depth=1, heads=HEADS, position="none", pool="none")
    target = torch.arange(nodes).repeat_interleave(degree)
    graph = graphs.edges(torch.stack([torch.randint(nodes, target.shape), target]), nodes)
    x = torch.randn(nodes, 8)

    def run() -> None:
        model(x, graph).square().sum().backward()

    return run


def exphormer_memory(nodes: int) -> dict[str, float]:
    """Return Exphormer's bytes per edge: peak memory with 24 minus that with 8 edges per node."""
    found = {}
    for width in (64, 128):
        few, many = (int(peak("exphormer", str(nodes), str(d), str(width))) for d in (8, 24))
        found[f"width_{width}_peak"] = float(many)
        found[f"width_{width}"] = (many - few) / (16 * nodes)
    return found


# ---- measuring ----


def check(name: str, one: Tensor, other: Tensor) -> None:
    """Exit the program if two results do not agree."""
    error = float((one - other).abs().max() / one.abs().max())
    if not error < CLOSE:
        raise SystemExit(f"{name}: relative difference of results {error:.1e}")


def timed(runs: dict[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    """Return median seconds and spread of each run, and the ratio of the first two medians.

    The runs alternate, and each is called with the number of the round.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run(turn)
            times[name].append(time.perf_counter() - began)
    found = {}
    for name, values in times.items():
        found[name], found[f"{name}_spread"] = spread(values)
    slow, fast, *_ = (found[name] for name in runs)
    return found | {"ratio": slow / fast}


def peak(*what: str) -> int:
    """Return the bytes of memory that one run adds, measured in a separate process."""
    threads = ["--threads", str(torch.get_num_threads())]
    command = [sys.executable, "-m", "benchmarks.graph_transformers", *threads, "--peak", *what]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measured_peak(kind: str, *what: str) -> int:
    """Return the bytes of memory that one run adds in this process, after a small warm-up run."""
    if kind == "bias":
        name, count = what
        small, run = of_bias(2)[0][name], of_bias(int(count))[0][name]
    else:
        nodes, degree, width = (int(number) for number in what)
        small, run = of_exphormer(100, degree, width), of_exphormer(nodes, degree, width)
    small()
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    before = status("VmRSS")
    run()
    return status("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--molecules", type=int, default=128, help="number of molecules per batch")
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes in Exphormer's graph")
    parser.add_argument("--rounds", type=int, default=7, help="number of timed runs")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="models to measure"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--peak", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        print(measured_peak(*arguments.peak))
        return
    count, rounds = arguments.molecules, arguments.rounds
    print(f"{arguments.threads} threads, batches of {count} molecules")

    def row(title: str, found: dict[str, float], other: str) -> None:
        slow, fast = (f"{found[w]:.4f} ± {found[w + '_spread']:.0%}" for w in (other, "edgewise"))
        print(
            f"{title}: {other} {slow} s, edgewise {fast} s: {found['ratio']:.2f}× as fast, "
            f"{found['fill']:.0%} of the padded batch is real",
            flush=True,
        )

    results: dict[str, dict[str, float]] = {}
    if "gps" in arguments.parts:
        results["gps"] = gps(count, rounds)
        row("step of GPS", results["gps"], "pyg")
        found = results["gps"]
        print(
            f"  with each atom attending to itself only {found['alone']:.4f} s: without the cost "
            f"of attention it would be {found['pyg'] / found['alone']:.2f}× as fast"
        )
    if "graphormer" in arguments.parts:
        results["graphormer"] = found = graphormer(count, rounds)
        row("Graphormer's bias", found, "padded")
        before, after = found["padded_bytes"], max(found["edgewise_bytes"], 1)
        print(f"  memory {before / 1e6:.1f} and {after / 1e6:.1f} MB: {before / after:.1f}× less")
    if "exphormer" in arguments.parts:
        results["exphormer"] = found = exphormer_memory(arguments.nodes)
        for width in (64, 128):
            print(
                f"Exphormer, {arguments.nodes} nodes, width {width}: "
                f"peak {found[f'width_{width}_peak'] / 1e6:.0f} MB with 24 edges per node, "
                f"{found[f'width_{width}']:.0f} bytes per additional edge "
                f"(a vector of the hidden size has {4 * width})"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
