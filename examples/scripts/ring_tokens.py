"""Measure how a token for each ring changes the accuracy of a graph Transformer on MUTAG.

    python examples/scripts/ring_tokens.py --seeds 2

`graphs.subgraphs` adds a token for each ring of a molecule. The token and the atoms of its ring
attend to each other. A control has tokens for random groups of atoms of the same sizes. Settings,
folds and seeds are the same with and without tokens. The epoch is chosen by the training loss, as
in the recipe gin-mutag.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import cache
from pathlib import Path

import networkx as nx
import torch
from torch import Tensor

from edgewise import graphs, models
from edgewise.app.kinds.graphs import TU
from edgewise.app.train import (
    Classification,
    CosineSchedule,
    OptimizerSettings,
    PackedGraphs,
    RunFolder,
    TrainerSettings,
    fit,
    seed_everything,
)
from edgewise.layers import PooledNodes

KINDS = ("no tokens", "rings", "random groups")
FOLDS = 10


@cache
def rings_of(pairs: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """Return the rings of a molecule given by its bonds, as a minimum cycle basis."""
    return [list(ring) for ring in nx.minimum_cycle_basis(nx.Graph(pairs))]


def with_tokens(packed: PackedGraphs, kind: str) -> PackedGraphs:
    """Return the graphs with tokens in front of the atoms, and a new feature that is 1 for tokens.

    Args:
        packed: graphs of molecules, without edge features.
        kind: an element of :data:`KINDS`, which says for what there are tokens.
    """
    generator = torch.Generator().manual_seed(0)
    nodes: list[Tensor] = []
    edges: list[Tensor] = []
    sizes, degrees = packed.sizes.tolist(), packed.edge_start.diff().tolist()
    each = zip(packed.x.split(sizes), packed.edge_index.split(degrees, dim=1), strict=True)
    for x, index in each:
        groups = [] if kind == "no tokens" else rings_of(tuple(map(tuple, index.T.tolist())))
        if kind == "random groups":
            groups = [
                torch.randperm(len(x), generator=generator)[: len(group)].tolist()
                for group in groups
            ]
        atoms = graphs.edges(index, len(x))
        joined = graphs.subgraphs(atoms, groups).bind(len(groups) + len(x))
        token = torch.zeros(len(groups) + len(x), 1)
        token[: len(groups)] = 1
        features = torch.cat([x.new_zeros(len(groups), x.shape[1]), x])
        nodes.append(torch.cat([features, token], dim=1))
        edges.append(joined.edge_index)
    return PackedGraphs.of(nodes, edges, [torch.empty(index.shape[1], 0) for index in edges])


def accuracy(kind: str, fold: int, seed: int) -> float:
    """Train on nine folds, and return the accuracy on the fold that is left out."""
    splits = TU(name="MUTAG", fold=fold).load()
    assert splits.codes is not None
    splits.codes.graphs = with_tokens(splits.codes.graphs, kind)
    seed_everything(seed)
    width = splits.codes.graphs.x.shape[1]
    nodes = models.graph_transformer(width, 2, width=32, depth=3, heads=4, dropout=0.2)
    with tempfile.TemporaryDirectory() as folder:
        found = fit(
            PooledNodes(nodes, "mean"),
            Classification(),
            splits.loaders(seed),
            RunFolder(Path(folder) / "run"),
            optimizer=OptimizerSettings("adamw", lr=2e-3, weight_decay=0.01),
            trainer=TrainerSettings(epochs=40, monitor="train/loss", mode="min", ema_decay=0.9),
            schedule=CosineSchedule(),
        )
    return found["test/accuracy"]


def main() -> None:
    """Print a table of accuracies, and of their differences from the accuracy without tokens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds per fold")
    seeds = parser.parse_args().seeds
    found = {
        kind: torch.tensor(
            [[accuracy(kind, fold, seed) for seed in range(seeds)] for fold in range(FOLDS)]
        ).mean(1)
        for kind in KINDS
    }
    print("| tokens | accuracy on MUTAG, 10 folds | difference from no tokens ± standard error |")
    print("| --- | ---: | ---: |")
    for kind, of_folds in found.items():
        gain = 100 * (of_folds - found["no tokens"])
        error = float(gain.std()) / FOLDS**0.5
        paired = "" if kind == "no tokens" else f"{gain.mean():+.1f} ± {error:.1f}"
        print(f"| {kind} | {100 * of_folds.mean():.1f} ± {100 * of_folds.std():.1f} % | {paired} |")


if __name__ == "__main__":
    main()
