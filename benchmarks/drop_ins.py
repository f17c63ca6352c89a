"""A PyTorch Geometric model, and the same with its import line changed: seconds an epoch, CPU.

    python -m benchmarks.drop_ins [--rounds 7] [--threads 2] [--json FILE]

Full-batch training of two layers of width 64 in 8 heads, Adam included, on a random graph. Both
begin with the same weights. A line is printed only after the two loss curves have agreed; then
epochs are timed, turn by turn, and medians compared. The spread is half the distance of the
quartiles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.nn as theirs
from torch import Tensor, nn

import edgewise.interop.pyg as ours
from benchmarks.cpu.measure import spread

LAYERS = ("GATConv", "GATv2Conv", "TransformerConv")
HEADS, WIDTH, CLASSES = 8, 64, 16
AGREED, ALIKE = 5, 1e-3  # epochs whose losses must agree, and how closely, relative


class Net(nn.Module):
    """What a user of PyTorch Geometric writes; ``conv`` is what the import line names."""

    def __init__(self, conv: type[nn.Module]) -> None:
        super().__init__()
        self.first = conv(WIDTH, WIDTH // HEADS, heads=HEADS)
        self.second = conv(WIDTH, WIDTH // HEADS, heads=HEADS)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.elu(self.first(x, edge_index))
        return self.last(F.elu(self.second(x, edge_index)))


def epochs(conv: type[nn.Module], inputs: tuple[Tensor, ...], start: dict) -> Callable[[], float]:
    """Trains one epoch a call, and gives its loss."""
    x, edge_index, y = inputs
    net = Net(conv)
    net.load_state_dict(start)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def epoch() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x, edge_index), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return epoch


def compared(name: str, inputs: tuple[Tensor, ...], rounds: int) -> dict[str, float]:
    """Seconds an epoch of both, once their losses have agreed."""
    torch.manual_seed(0)
    start = Net(getattr(theirs, name)).state_dict()
    runs = {who: epochs(getattr(who, name), inputs, start) for who in (theirs, ours)}
    curves = [[run() for _ in range(AGREED)] for run in runs.values()]
    apart = max(abs(a - b) / abs(a) for a, b in zip(*curves, strict=True))
    if apart > ALIKE or curves[0][-1] >= curves[0][0]:
        raise SystemExit(f"{name}: losses differ by {apart:.1e} of their size: {curves}")
    times: dict[object, list[float]] = {who: [] for who in runs}
    for _ in range(rounds):
        for who, run in runs.items():
            began = time.perf_counter()
            run()
            times[who].append(time.perf_counter() - began)
    (slow, slow_spread), (fast, fast_spread) = (spread(times[who]) for who in runs)
    found = {
        "pyg": slow,
        "pyg_spread": slow_spread,
        "edgewise": fast,
        "edgewise_spread": fast_spread,
    }
    return {**found, "ratio": slow / fast, "loss_difference": apart}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    y = torch.randint(CLASSES, (arguments.nodes,))
    x = F.one_hot(y, WIDTH) + torch.randn(arguments.nodes, WIDTH)
    inputs = x, torch.randint(arguments.nodes, (2, arguments.edges)), y
    print(f"{arguments.nodes} nodes, {arguments.edges} edges, {arguments.threads} threads")
    print("layer             PyG s/epoch    ours s/epoch    faster   losses apart by")
    results = {}
    for name in LAYERS:
        found = results[name] = compared(name, inputs, arguments.rounds)
        pyg, own = (f"{found[w]:.3f} ± {found[w + '_spread']:.0%}" for w in ("pyg", "edgewise"))
        apart = f"{found['loss_difference']:.0e}"
        print(f"{name:16}{pyg:>13}{own:>16}{found['ratio']:>9.2f}×{apart:>16}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
