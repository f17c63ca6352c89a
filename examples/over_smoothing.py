"""Over-smoothing: how much of the nodes' differences is left after k layers, and a remedy.

    python examples/over_smoothing.py          # prints the table of docs/expressiveness.md
    python examples/over_smoothing.py --plot   # and draws its picture

The models are as they are initialised: over-smoothing is about what a layer does, not about what
it has learned. One round of attention or convolution is a weighted mean over neighbours; repeated,
it forgets where it started. MAGNA's blocks return to their start (alpha), and have residuals. It is
the residuals that keep nodes apart: the same blocks with one hop of attention smooth less, as six
hops of diffusion average over more nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from edgewise import graphs
from edgewise.layers import GraphSequential
from edgewise.models import gcn, magna
from edgewise.models.gat import GATLayer

NODES, WIDTH, HEADS, SEEDS = 48, 16, 4, 5
DEPTHS = [1, 2, 4, 8, 16, 32]


def dirichlet_energy(x: Tensor, graph: graphs.Graph) -> float:
    r"""How rough x is along the edges, from 0 (the same everywhere) on, whatever its scale.

    :math:`\sum_{ij} \|x_i - x_j\|^2 / \sum_i \|x_i\|^2` over the edges, divided by their number a
    node.
    """
    difference = graph.gather_target(x) - graph.gather_source(x)
    per_node = graph.num_edges / graph.num_targets
    return float(difference.square().sum() / x.square().sum() / per_node)


def two_rings(seed: int) -> graphs.Graph:
    """A connected graph in which all nodes have four neighbours: two rings in random order.

    With equal degrees GCN and GAT both tend to the same features everywhere.
    """
    torch.manual_seed(seed)
    rings = [torch.stack([order, order.roll(1)]) for order in map(torch.randperm, (NODES, NODES))]
    one_way = torch.cat(rings, dim=1)
    return graphs.edges(torch.cat([one_way, one_way.flip(0)], dim=1), NODES)


def deep_gat(depth: int) -> GraphSequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [GATLayer(WIDTH, WIDTH // HEADS, HEADS), nn.ELU()]
    return GraphSequential(*layers)


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "GCN": lambda depth: gcn(WIDTH, WIDTH, hidden=WIDTH, depth=depth),
    "GAT": deep_gat,
    "MAGNA": lambda depth: magna(WIDTH, WIDTH, hidden=WIDTH, depth=depth, heads=HEADS, alpha=0.1),
    "MAGNA's block, one hop": lambda depth: magna(
        WIDTH, WIDTH, hidden=WIDTH, depth=depth, heads=HEADS, alpha=0.0, hops=1
    ),
}


@torch.no_grad()
def curve(make: Callable[[int], nn.Module], depths: list[int]) -> list[float]:
    """The energy after each depth, the geometric mean over graphs and initialisations."""
    energies = []
    for depth in depths:
        logs = []
        for seed in range(SEEDS):
            graph = two_rings(seed)
            x = torch.randn(NODES, WIDTH, dtype=torch.double)
            out = make(depth).double().eval()(x, graph)
            logs.append(torch.tensor(dirichlet_energy(out, graph)).log())
        energies.append(float(torch.stack(logs).mean().exp()))
    return energies


def main() -> None:
    curves = {name: curve(make, DEPTHS) for name, make in MODELS.items()}
    print(f"| model | {' | '.join(f'{depth} deep' for depth in DEPTHS)} |")
    print(f"| --- |{' ---: |' * len(DEPTHS)}")
    for name, energies in curves.items():
        print(f"| {name} | {' | '.join(f'{energy:.2g}' for energy in energies)} |")
    if "--plot" in sys.argv:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.add_subplot(xlabel="layers", ylabel="Dirichlet energy", xscale="log")
        for name, energies in curves.items():
            axes.plot(DEPTHS, energies, marker="o", label=name)
        axes.set(yscale="log", xticks=DEPTHS, xticklabels=DEPTHS)
        axes.minorticks_off()
        axes.legend()
        target = Path(__file__).parent.parent / "docs" / "over_smoothing.png"
        figure.savefig(target, dpi=100)


if __name__ == "__main__":
    main()
