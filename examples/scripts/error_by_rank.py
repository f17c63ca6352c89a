"""Error of low-rank approximations of softmax attention, by rank or number of features.

    python examples/scripts/error_by_rank.py          # print the table of low_rank.md
    python examples/scripts/error_by_rank.py --plot   # also draw the picture of that page

Queries, keys and values are sampled from a normal distribution, as in the papers: 256 tokens, one
head of width 16, and scores with standard deviation 1/4 or 1. The error is the norm of the
difference of the outputs divided by the norm of the exact output, as the median of ten samples. The
methods are:

- "best of that rank": the weight matrix with only its largest singular values
- "projected at random": the weight matrix times a random projection and its transpose, as in
  Theorem 1 of Linformer
- "Linformer, as drawn": the formula of Linformer with its initial projections E and F
- "Linformer, best F": the same with the F that minimises the error for this text
- "Performer": positive random features from orthogonal vectors ("independent": from independent
  vectors)
- "sines and cosines": trigonometric random features
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.models.linformer import new_projection
from edgewise.models.performer import orthogonal_features

TOKENS, WIDTH, DRAWS = 256, 16, 10
SPREADS = (0.25, 1.0)
RANKS = [8, 16, 32, 64, 128, 256]
Nodes = tuple[Tensor, Tensor, Tensor]


def exact(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return exact softmax attention for query, key and value ``[N, D]`` of one head."""
    nodes = (x[:, None] for x in (query, key, value))
    return ew.attend(*nodes, graphs.complete(), layout="NHD")[:, 0]


def weights(query: Tensor, key: Tensor) -> Tensor:
    """Return the matrix of attention weights, ``[N, N]``."""
    return (query @ key.T / WIDTH**0.5).softmax(-1)


def best(nodes: Nodes, rank: int) -> Tensor:
    left, sizes, right = torch.linalg.svd(weights(*nodes[:2]))
    return (left[:, :rank] * sizes[:rank]) @ right[:rank] @ nodes[2]


def projected(nodes: Nodes, rank: int) -> Tensor:
    random = torch.randn(rank, TOKENS) * rank**-0.5
    return weights(*nodes[:2]) @ random.T @ (random @ nodes[2])


def linformer(nodes: Nodes, rank: int, *, preprocessing: bool = True) -> Tensor:
    query, key, value = nodes
    of_keys, of_values = (new_projection(rank, TOKENS).detach() for _ in range(2))
    if not preprocessing:
        return exact(query, of_keys @ key, of_values @ value)
    read = weights(query, of_keys @ key).double()
    return (read @ torch.linalg.pinv(read) @ exact(*nodes).double()).float()


def performer(nodes: Nodes, rank: int, *, orthogonal: bool = True) -> Tensor:
    weight = orthogonal_features(rank, WIDTH) if orthogonal else torch.randn(rank, WIDTH)
    query, key = (
        (x @ weight.T - x.square().sum(-1, keepdim=True) / 2).exp()
        for x in (nodes[0] / WIDTH**0.25, nodes[1] / WIDTH**0.25)
    )
    return query @ (key.T @ nodes[2]) / (query @ key.sum(0))[:, None]


def waves(nodes: Nodes, rank: int) -> Tensor:
    """Return attention by ``rank / 2`` sines and cosines as random features.

    Their expected value is exact, as with Performer's features, but they can be negative.
    """
    weight = orthogonal_features(rank // 2, WIDTH)
    query, key = (
        torch.cat([(x @ weight.T).sin(), (x @ weight.T).cos()], -1)
        * (x.square().sum(-1, keepdim=True) / 2).exp()
        for x in (nodes[0] / WIDTH**0.25, nodes[1] / WIDTH**0.25)
    )
    return query @ (key.T @ nodes[2]) / (query @ key.sum(0))[:, None]


METHODS: dict[str, Callable[[Nodes, int], Tensor]] = {
    "best of that rank": best,
    "projected at random": projected,
    "Linformer, best F": linformer,
    "Linformer, as drawn": lambda nodes, rank: linformer(nodes, rank, preprocessing=False),
    "Performer": performer,
    "Performer, independent": lambda nodes, rank: performer(nodes, rank, orthogonal=False),
    "sines and cosines": waves,
}


def errors(method: Callable[[Nodes, int], Tensor], rank: int, spread: float) -> Tensor:
    """Return the relative error of each sample, for scores with standard deviation ``spread``."""
    found = []
    for seed in range(DRAWS):
        torch.manual_seed(seed)
        query, key, value = (torch.randn(TOKENS, WIDTH) for _ in range(3))
        nodes = query * spread**0.5, key * spread**0.5, value
        wanted = exact(*nodes)
        found.append((method(nodes, rank) - wanted).norm() / wanted.norm())
    return torch.stack(found)


def main() -> None:
    curves = {
        spread: {n: [errors(m, rank, spread) for rank in RANKS] for n, m in METHODS.items()}
        for spread in SPREADS
    }
    for spread, by_method in curves.items():
        title = f"standard deviation of scores {spread:g}; rank or features:"
        print(f"| {title} | {' | '.join(map(str, RANKS))} |")
        print(f"| --- |{' ---: |' * len(RANKS)}")
        for name, found in by_method.items():
            cells = " | ".join(f"{float(x.median()):.2g}" for x in found)
            print(f"| {name} | {cells} |")
        print()
    if "--plot" in sys.argv:
        plot(curves)


def plot(curves: dict[float, dict[str, list[Tensor]]]) -> None:
    """Save a chart of the median errors, with the range over samples shaded."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    both = figure.subplots(1, len(curves), sharey=True)
    for axes, (spread, by_method) in zip(both, curves.items(), strict=True):
        for name, found in by_method.items():
            (line,) = axes.plot(RANKS, [float(x.median()) for x in found], marker="o", label=name)
            low, high = [x.min() for x in found], [x.max() for x in found]
            axes.fill_between(RANKS, low, high, color=line.get_color(), alpha=0.15)
        axes.set(xscale="log", yscale="log", ylim=(0.02, 20), xticks=RANKS, xticklabels=RANKS)
        axes.set(title=f"scores of standard deviation {spread:g}", xlabel="rows or features")
        axes.minorticks_off()
    both[0].set_ylabel("relative error of the output")
    both[-1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(Path(__file__).parents[2] / "docs/background" / "error_by_rank.png", dpi=100)


if __name__ == "__main__":
    main()
