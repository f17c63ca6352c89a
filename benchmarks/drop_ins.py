"""Training time on a CPU of a model with PyTorch Geometric's layers and with Edgewise's drop-ins.

    python -m benchmarks.drop_ins [--edge-features 16] [--rounds 7] [--threads 2] [--json FILE]

The model has two layers of width 64, with 8 heads where they have heads, and is trained with Adam
on a random graph, with or without edge features (``edge_dim``). Relational layers get 4 edge types,
and ``GPSConv`` gets graphs of 10 to 60 nodes. An epoch is one step on the whole graph. Both models
start with the same weights, and their losses must agree. Then epochs of both alternate, and their
median times are compared. The spread is half the interquartile range.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
import torch_geometric.nn as theirs
from torch import Tensor, nn

import edgewise.interop.pyg as ours
from benchmarks.cpu.measure import spread

LAYERS = (
    ("GATConv", "GATConv"),
    ("GATv2Conv", "GATv2Conv"),
    ("TransformerConv", "TransformerConv"),
    ("GATv2Conv", "TransformerConv"),
)
HEADS, WIDTH, CLASSES, TYPES = 8, 64, 16, 4
RELATIONAL = ("FiLMConv", "RGCNConv", "RGATConv")
STATISTICS = ["mean", "max", "min", "std"]
SCALERS = ["identity", "amplification", "attenuation"]
AGREED, ALIKE = 5, 1e-3  # Number of epochs whose losses must agree, and relative tolerance.


def make(library: ModuleType, name: str, edge_dim: int) -> nn.Module:
    """Return a layer of PyG or Edgewise from WIDTH to WIDTH features."""
    layer, edges = getattr(library, name), {"edge_dim": edge_dim or None}
    if name == "GINEConv":
        return layer(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()), **edges)
    if name == "PNAConv":
        return layer(WIDTH, WIDTH, STATISTICS, SCALERS, torch.ones(24), **edges)
    if name == "GPSConv":
        return layer(WIDTH, library.SAGEConv(WIDTH, WIDTH), heads=HEADS)
    if name in ("FiLMConv", "RGCNConv"):
        return layer(WIDTH, WIDTH, TYPES)
    if name == "RGATConv":
        return layer(WIDTH, WIDTH // HEADS, TYPES, heads=HEADS, **edges)
    edges = {} if name == "SuperGATConv" else edges
    return layer(WIDTH, WIDTH // HEADS, heads=HEADS, **edges)


class Net(nn.Module):
    """Model with two layers, of PyTorch Geometric or of Edgewise."""

    def __init__(self, library: ModuleType, names: tuple[str, str], edge_dim: int) -> None:
        super().__init__()
        self.first, self.second = (make(library, name, edge_dim) for name in names)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor | None) -> Tensor:
        x = F.elu(self.first(x, edge_index, edge))
        return self.last(F.elu(self.second(x, edge_index, edge)))


Inputs = tuple[Tensor, Tensor, Tensor | None, Tensor]


def net_of(who: ModuleType, names: tuple[str, str], inputs: Inputs) -> Net:
    """Return a model with the layers of these names from ``who``, a module of PyG or Edgewise."""
    edge = inputs[2]
    return Net(who, names, 0 if edge is None or edge.dim() == 1 else edge.shape[1])


def third_argument(name: str, edges: int, features: int, nodes: int) -> Tensor | None:
    """Return the edge types or features that a layer takes, or the graph of each node."""
    if name in RELATIONAL:
        return torch.randint(TYPES, (edges,))
    if name == "GPSConv":
        sizes = torch.randint(10, 61, (nodes // 10,))
        return torch.arange(len(sizes)).repeat_interleave(sizes)[:nodes]
    if name == "SuperGATConv" or not features:
        return None
    return torch.randn(edges, features)


def epochs(net: Net, inputs: Inputs, start: dict) -> Callable[[], float]:
    """Return a function that trains for one epoch and returns the loss.

    ``start`` is the state dict with which training starts.
    """
    x, edge_index, edge, y = inputs
    net.load_state_dict(start)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def epoch() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x, edge_index, edge), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return epoch


def compared(names: tuple[str, str], inputs: Inputs, rounds: int) -> dict[str, float]:
    """Return the seconds per epoch of both models, after checking that their losses agree."""
    torch.manual_seed(0)
    start = net_of(theirs, names, inputs).state_dict()
    runs = {who: epochs(net_of(who, names, inputs), inputs, start) for who in (theirs, ours)}
    curves = [[run() for _ in range(AGREED)] for run in runs.values()]
    apart = max(abs(a - b) / abs(a) for a, b in zip(*curves, strict=True))
    if apart > ALIKE:
        raise SystemExit(f"{names}: relative difference of losses {apart:.1e}: {curves}")
    times: dict[object, list[float]] = {who: [] for who in runs}
    for _ in range(rounds):
        for who, run in runs.items():
            began = time.perf_counter()
            run()
            times[who].append(time.perf_counter() - began)
    (slow, slow_spread), (fast, fast_spread) = (spread(times[who]) for who in runs)
    seconds = {
        "pyg": slow,
        "pyg_spread": slow_spread,
        "edgewise": fast,
        "edgewise_spread": fast_spread,
    }
    return {**seconds, "ratio": slow / fast, "loss_difference": apart}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=50_000, help="number of nodes")
    parser.add_argument("--edges", type=int, default=600_000, help="number of edges")
    parser.add_argument(
        "--edge-features", type=int, default=0, help="number of features per edge (0 = none)"
    )
    parser.add_argument("--layers", nargs=2, metavar="LAYER", help="names of the two layers")
    parser.add_argument("--rounds", type=int, default=7, help="number of timed epochs")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    y = torch.randint(CLASSES, (arguments.nodes,))
    x = F.one_hot(y, WIDTH) + torch.randn(arguments.nodes, WIDTH)
    edge_index = torch.randint(arguments.nodes, (2, arguments.edges))
    features = arguments.edge_features
    print(
        f"{arguments.nodes} nodes, {arguments.edges} edges with {features} features, "
        f"{arguments.threads} threads"
    )
    print(f"{'layers':28}{'PyG s/epoch':>13}{'ours s/epoch':>16}  speed-up   loss difference")
    results = {}
    for names in [tuple(arguments.layers)] if arguments.layers else LAYERS:
        name = " + ".join(dict.fromkeys(names))
        edge = third_argument(names[0], arguments.edges, features, arguments.nodes)
        found = results[name] = compared(names, (x, edge_index, edge, y), arguments.rounds)
        pyg, own = (f"{found[w]:.4f} ± {found[w + '_spread']:.0%}" for w in ("pyg", "edgewise"))
        apart = f"{found['loss_difference']:.0e}"
        print(f"{name:28}{pyg:>13}{own:>16}{found['ratio']:>9.2f}×{apart:>16}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
