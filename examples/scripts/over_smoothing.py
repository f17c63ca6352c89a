"""Over-smoothing: how different the features of nodes still are after k layers.

    python examples/scripts/over_smoothing.py                    # untrained networks
    python examples/scripts/over_smoothing.py --trained          # trained on Cora (minutes)
    python examples/scripts/over_smoothing.py --trained --plot   # also draw the picture

The script prints the numbers of docs/background/expressiveness.md and draws the pictures of that
page. A graph convolution or attention layer computes a weighted mean over neighbours, so the
features of many layers become similar. The script compares two remedies. A residual connection adds
the input of a layer to its output. Diffusion (personalised PageRank, as in MAGNA and APPNP)
aggregates over several hops, and returns to the start with probability alpha.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from edgewise import graphs
from edgewise.app.kinds.nodes import Planetoid
from edgewise.app.train import (
    Classification,
    OptimizerSettings,
    RunFolder,
    TrainerSettings,
    fit,
    seed_everything,
)
from edgewise.attention.scores import Additive
from edgewise.attention.steps import attention_weights
from edgewise.layers import Dropout, GraphLayer, GraphSequential, Linear, symmetric_weight
from edgewise.models import gcn, magna
from edgewise.models.gat import GATLayer
from edgewise.models.magna import diffuse

DOCS = Path(__file__).parents[2] / "docs/background"


# ---- what is measured ----


def dirichlet_energy(x: Tensor, graph: graphs.Graph) -> float:
    r"""Return the Dirichlet energy of features x, relative to their size.

    It is :math:`\sum_{ij} \|x_i - x_j\|^2 / \sum_i \|x_i\|^2` with the first sum over all edges,
    divided by the number of edges per node. It is 0 if all nodes have the same features.
    """
    difference = graph.gather_target(x) - graph.gather_source(x)
    per_node = graph.num_edges / graph.num_targets
    return float(difference.square().sum() / x.square().sum() / per_node)


def pairwise_distance(x: Tensor) -> float:
    r"""Return the mean squared distance of two nodes relative to their size, from 0 to 1.

    It is half the mean of :math:`\|x_i - x_j\|^2` over all pairs, divided by the mean of
    :math:`\|x_i\|^2`. This equals :math:`1 - \|\bar x\|^2 / \overline{\|x\|^2}`. It is 0 if all
    nodes have the same features.
    """
    x = x.double()
    return float(1 - x.mean(0).square().sum() / x.square().sum(1).mean())


# ---- as initialised ----

NODES, WIDTH, HEADS, SEEDS = 48, 16, 4, 5
DEPTHS = [1, 2, 4, 8, 16, 32]


def two_rings(seed: int) -> graphs.Graph:
    """Return the union of two random rings through all nodes, a connected graph of degree four.

    Because all degrees are equal, the features of GCN and GAT become the same at all nodes.
    """
    torch.manual_seed(seed)
    rings = [torch.stack([order, order.roll(1)]) for order in map(torch.randperm, (NODES, NODES))]
    causal = torch.cat(rings, dim=1)
    return graphs.edges(torch.cat([causal, causal.flip(0)], dim=1), NODES)


def deep_gat(depth: int) -> GraphSequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [GATLayer(WIDTH, WIDTH // HEADS, HEADS), nn.ELU()]
    return GraphSequential(*layers)


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "GCN": lambda depth: gcn(WIDTH, WIDTH, width=WIDTH, depth=depth),
    "GAT": deep_gat,
    "MAGNA": lambda depth: magna(WIDTH, WIDTH, width=WIDTH, depth=depth, heads=HEADS, alpha=0.1),
    "MAGNA's block, one hop": lambda depth: magna(
        WIDTH, WIDTH, width=WIDTH, depth=depth, heads=HEADS, alpha=0.0, hops=1
    ),
}


@torch.no_grad()
def curve(make: Callable[[int], nn.Module], depths: list[int]) -> list[float]:
    """Return the Dirichlet energy for each depth: the geometric mean over graphs and weights."""
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


# ---- trained on Cora ----

TRAINED_DEPTHS = [2, 8, 32]
HIDDEN, HOPS, ALPHA, EPOCHS = 16, 4, 0.1, 60


@dataclass(frozen=True)
class Kind:
    """Kind of layer, which computes ``h <- [h +] relu(aggregate(W h) + b)``.

    Attributes:
        attention: aggregate with the attention weights of GAT (one head) instead of those of GCN.
        residual: add the input of the layer.
        diffusion: aggregate over HOPS hops that return to the start with probability ALPHA, instead
            of over one hop.

    """

    attention: bool
    residual: bool
    diffusion: bool

    def __str__(self) -> str:
        kept = " + residual" * self.residual + " + diffusion" * self.diffusion
        return f"{'GAT' if self.attention else 'GCN'}{kept}"


class Layer(GraphLayer):
    """Layer of a :class:`Kind`, with as many output as input features."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.linear = Linear(HIDDEN, HIDDEN, bias=False)
        self.bias = nn.Parameter(torch.zeros(HIDDEN))
        self.att_dst, self.att_src = (nn.Parameter(torch.empty(1, HIDDEN)) for _ in range(2))
        for weight in (self.linear.weight, self.att_dst, self.att_src):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, graph: graphs.Graph) -> Tensor:
        loops, value = graph.with_self_loops(), self.linear(x).unsqueeze(-2)
        if self.kind.attention:
            query, key = ((value * w).sum(-1, keepdim=True) for w in (self.att_dst, self.att_src))
            weight = attention_weights(query, key, loops, score=Additive())
        else:
            weight = symmetric_weight(loops)
        hops, alpha = (HOPS, ALPHA) if self.kind.diffusion else (1, 0.0)
        read = diffuse(value, loops, weight, hops=hops, alpha=alpha)
        out = (read.squeeze(-2) + self.bias).relu()
        return x + out if self.kind.residual else out


def deep(kind: Kind, depth: int, in_width: int, out_width: int) -> GraphSequential:
    """Return ``depth`` layers of a kind, between a first and a last linear map."""
    layers = [Layer(kind) for _ in range(depth)]
    first = (Dropout(0.5), Linear(in_width, HIDDEN), nn.ReLU())
    return GraphSequential(*first, *layers, Dropout(0.5), nn.Linear(HIDDEN, out_width))


@dataclass(frozen=True)
class Measured:
    """Measurements on a trained network.

    Attributes:
        accuracy: accuracy on the test nodes.
        train_accuracy: accuracy on the training nodes.
        energy: Dirichlet energy of the features after the last layer.
        distance: relative distance of two nodes after the last layer.
    """

    accuracy: float
    train_accuracy: float
    energy: float
    distance: float


def measured(kind: Kind, depth: int, seed: int) -> Measured:
    """Train with GCN's learning rate and weight decay, and measure the best validation epoch."""
    # Features are counts. Rows that sum to 1 are so small that 32 layers need many epochs.
    splits = Planetoid(name="Cora", normalize=False).load()
    seed_everything(seed)
    model = deep(kind, depth, **splits.model_arguments)
    loaders = splits.loaders(seed)
    with TemporaryDirectory() as folder:
        found = fit(
            model,
            Classification(),
            loaders,
            RunFolder(Path(folder) / "run"),
            optimizer=OptimizerSettings("adam", lr=0.01, weight_decay=5e-4),
            trainer=TrainerSettings(epochs=EPOCHS, monitor="val/loss", mode="min"),
        )
    batch = next(iter(loaders["train"]))
    x, graph = batch.inputs
    with torch.no_grad():
        states = GraphSequential(*model.eval().layers[:-1])(x, graph)
        right = batch.select_outputs(model(x, graph)).argmax(1) == batch.target
    return Measured(
        found["test/accuracy"],
        float(right.float().mean()),
        dirichlet_energy(states, graph),
        pairwise_distance(states),
    )


KINDS = [
    Kind(attention, residual, diffusion)
    for attention in (False, True)
    for residual in (False, True)
    for diffusion in (False, True)
]


# ---- tables and pictures ----


def table(title: str, depths: Sequence[int], rows: Mapping[str, Iterable[str]]) -> None:
    print(f"| {title} | {' | '.join(f'{depth} deep' for depth in depths)} |")
    print(f"| --- |{' ---: |' * len(depths)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")
    print(flush=True)


def percent(shares: Tensor) -> str:
    """Return the mean in percent as text, and the standard deviation if there are several."""
    spread = f" ± {100 * shares.std():.1f}" if len(shares) > 1 else ""
    return f"{100 * shares.mean():.1f}{spread}"


def draw(axes: Any, depths: Sequence[int], curves: Mapping[str, Sequence[float]]) -> None:
    for name, values in curves.items():
        style = "--" if "diffusion" in name else "-"
        axes.plot(depths, values, style, marker="o", markersize=4, label=name)
    axes.set(xlabel="layers", xscale="log", xticks=depths, xticklabels=depths)
    axes.minorticks_off()


def initialised(plot: bool) -> None:
    curves = {name: curve(make, DEPTHS) for name, make in MODELS.items()}
    table("model", DEPTHS, {name: [f"{e:.2g}" for e in of] for name, of in curves.items()})
    if plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.add_subplot(ylabel="Dirichlet energy")
        draw(axes, DEPTHS, curves)
        axes.set(yscale="log")
        axes.legend()
        figure.savefig(DOCS / "over_smoothing.png", dpi=100)


def trained(plot: bool, seeds: int, depths: Sequence[int], kept: Path | None) -> None:
    known: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.is_file() else {}
    for seed in range(seeds):
        for depth in depths:
            for kind in KINDS:
                name = f"{kind}, {depth} deep, seed {seed}"
                if name not in known:
                    known[name] = asdict(measured(kind, depth, seed))
                    if kept:
                        kept.write_text(json.dumps(known, indent=1) + "\n")

    def of(what: str) -> dict[str, Tensor]:
        """Return the measurement of this name for each kind of layer, ``[depths, seeds]``."""
        return {
            str(kind): torch.tensor(
                [
                    [known[f"{kind}, {depth} deep, seed {seed}"][what] for seed in range(seeds)]
                    for depth in depths
                ]
            )
            for kind in KINDS
        }

    shares = {"test accuracy, %": of("accuracy"), "training accuracy, %": of("train_accuracy")}
    for title, values in shares.items():
        rows = {name: [percent(at) for at in x] for name, x in values.items()}
        table(title, depths, rows)
    sizes = {"Dirichlet energy": of("energy"), "distance of two nodes": of("distance")}
    for title, values in sizes.items():
        rows = {name: [f"{at.median():.2g}" for at in x] for name, x in values.items()}
        table(title, depths, rows)
    if plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        accuracy, energy = shares["test accuracy, %"], sizes["Dirichlet energy"]
        means = {name: (100 * x.mean(1)).tolist() for name, x in accuracy.items()}
        draw(left, depths, means)
        medians = {name: x.median(1)[0].tolist() for name, x in energy.items()}
        draw(right, depths, medians)
        left.set(ylabel="test accuracy, %")
        right.set(ylabel="Dirichlet energy of the last layer", yscale="log")
        figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
        figure.savefig(DOCS / "over_smoothing_trained.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trained", action="store_true", help="train the networks on Cora")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each network")
    parser.add_argument(
        "--depths", type=int, nargs="+", default=TRAINED_DEPTHS, help="numbers of layers"
    )
    parser.add_argument("--kept", type=Path, help="file that keeps results, to continue later")
    parser.add_argument("--plot", action="store_true", help="save the picture in docs/background")
    arguments = parser.parse_args()
    if arguments.trained:
        trained(arguments.plot, arguments.seeds, arguments.depths, arguments.kept)
    else:
        initialised(arguments.plot)


if __name__ == "__main__":
    main()
