"""Classes of nodes on a graph of any size: a folder of arrays that are read from disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_given, check_range, check_shares, check_splits
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.files import unreadable
from edgewise.app.files.sorted_edges import memory_map, sorted_edges
from edgewise.app.files.split_column import PARTS
from edgewise.app.files.targets import class_counts
from edgewise.app.kinds.nodes.files import MASKS
from edgewise.app.predict.cases import log_odds
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.train.folds import hold_out
from edgewise.app.train.neighbours import NeighbourSampler, check_fanouts, neighbour_draw
from edgewise.app.train.sampled import Draw, SampledSplit
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.app.train.standardisation import Standardisation
from edgewise.app.train.tasks.classification import Classification
from edgewise.explain.attribution import Case
from edgewise.graphs import Graph

STANDARDISED = 10_000_000
"""Means and standard deviations of features are computed from evenly spaced nodes, which together
have at most this many numbers."""


class ArrayGraph(NamedTuple):
    """Features ``[N, F]`` and edges of a folder, on disk, and scale of the features."""

    x: Tensor
    sampler: NeighbourSampler
    standard: Standardisation

    def neighbourhood(self, seeds: Tensor, generator: Generator) -> tuple[Tensor, Graph, Tensor]:
        """Return standardised features, edges and nodes of a sampled neighbourhood; the distinct
        ``seeds`` are the first nodes.
        """
        sample = self.sampler.sample(seeds, generator)
        return self.features(sample.nodes), sample.graph, sample.nodes

    def features(self, nodes: Tensor) -> Tensor:
        """Return the standardised features of some nodes."""
        return self.standard.scaled(self.x[nodes])

    def draw(self, y: Tensor, nodes: Tensor) -> Draw:
        """Return the function that samples batches of these nodes, with targets ``y [N]``."""
        return neighbour_draw(self.sampler, self.features, y, nodes)

    def all_neighbours(self) -> ArrayGraph:
        """Return the graph with a sampler that takes all edges."""
        return self._replace(sampler=self.sampler.with_fanouts([-1] * len(self.sampler.fanouts)))


@dataclass(frozen=True)
class NodeArrays(Data):
    """Classes of nodes on a graph that need not fit in memory, in a folder of NumPy arrays.

    The folder has features ``x.npy`` ``[N, F]``, classes ``y.npy`` ``[N]`` (-1 for an unknown
    class), edges ``edge_index.npy`` ``[2, E]`` (or ``edges.parquet`` or ``edges.csv`` with a source
    and a target column), and optionally ``train_mask.npy``, ``val_mask.npy`` and ``test_mask.npy``
    ``[N]``. Nodes are numbered from 0. The edges are sorted once, into a subfolder. Training
    samples neighbourhoods; validation, test and predictions use all edges of ``len(fanouts)``
    steps, which gives the outputs on the whole graph, except for models that divide by degrees of
    sources, such as GCN. Memory holds a few numbers per node, and the features of the nodes of a
    batch.

    Attributes:
        path: the folder.
        fanouts: maximum numbers of edges into a node that training samples, one for each layer;
            the model has as many layers.
        batch_size: number of nodes of a batch whose classes are predicted.
        directed: whether edges are directed, so that only the destination attends to the source.
        val, test: fractions of the labelled nodes, for a folder without masks.
        split_seed: random seed of the split.

    Example:
        >>> from edgewise.app.kinds.nodes import NodeArrays
        >>> NodeArrays("folder/").load().model_arguments  # doctest: +SKIP
        {'in_width': 100, 'out_width': 47}
    """

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "depth")

    path: str = ""
    fanouts: tuple[int, ...] = (10, 10)
    batch_size: int = 512
    directed: bool = False
    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0

    def __post_init__(self) -> None:
        check_range("data.batch_size", self.batch_size, "choose for example 512", least=1)
        check_fanouts(self.fanouts, "data.fanouts")
        shares = {"data.val": self.val, "data.test": self.test}
        check_shares(shares, "choose for example 0.1 and 0.2")

    def load(self) -> Splits:
        folder = self._folder()
        x, y = memory_map(folder / "x.npy"), memory_map(folder / "y.npy")
        _check_shapes(folder, x, y)
        rows = torch.arange(0, len(x), max(1, x.numel() // STANDARDISED))
        sampled_rows = x[rows]
        if not sampled_rows.isfinite().all():
            raise unreadable(
                folder / "x.npy",
                expected="finite numbers",
                got="NaN or infinity",
                remedy="replace NaN and infinite values",
            )
        y = y.long()
        nodes = self._nodes(folder, y)
        classes = int(y.max()) + 1
        graph = self.open(Standardisation.of(sampled_rows))
        exact = graph.all_neighbours()

        def evaluated(name: str) -> Split:
            draw = exact.draw(y, nodes[name])
            return Split(len(nodes[name]), lambda index: draw(index, Generator()))

        return Splits(
            {"in_width": x.shape[1], "out_width": classes, "depth": len(self.fanouts)},
            SampledSplit.of(graph.draw(y, nodes["train"]), len(nodes["train"]), self.batch_size),
            evaluated("val"),
            evaluated("test"),
            batch_size=self.batch_size,
            preprocessing={
                "labels": list(map(str, range(classes))),
                **graph.standard.record(),
                "nodes": len(x),
            },
            class_counts=class_counts(y[nodes["train"]], classes),
        )

    def open(self, standard: Standardisation) -> ArrayGraph:
        """Open the features and edges of the folder."""
        folder = self._folder()
        x = memory_map(folder / "x.npy")
        edges = sorted_edges(folder, len(x), directed=self.directed)
        return ArrayGraph(x, NeighbourSampler(edges, self.fanouts), standard)

    def _folder(self) -> Path:
        what = "a folder with x.npy, y.npy and edge_index.npy"
        folder = Path(check_given("data.path", self.path, what)).expanduser()
        if not folder.is_dir():
            raise MissingDataError(f"{folder}: no such folder. Remedy: give {what}.")
        return folder

    def _nodes(self, folder: Path, y: Tensor) -> dict[str, Tensor]:
        """Return the labelled nodes of each split, from masks or at random."""
        labelled = (y >= 0).nonzero()[:, 0]
        if any((folder / f"{mask}.npy").is_file() for mask in MASKS):
            masks = {name: memory_map(folder / f"{name}_mask.npy") for name in PARTS}
            for name, mask in masks.items():
                if mask.shape != y.shape:
                    raise unreadable(
                        folder / f"{name}_mask.npy",
                        expected=f"one value for each of {len(y)} nodes",
                        got=f"shape {list(mask.shape)}",
                        remedy="save a mask [N]",
                    )
            splits = {name: labelled[mask[labelled].bool()] for name, mask in masks.items()}
        else:
            keys = y[labelled].tolist()
            indices = hold_out(keys, val=self.val, test=self.test, seed=self.split_seed)
            splits = {name: labelled[index] for name, index in indices.items()}
        check_splits(**splits)
        return splits


def _check_shapes(folder: Path, x: Tensor, y: Tensor) -> None:
    if x.dim() != 2 or y.shape != x.shape[:1] or not len(x):
        raise unreadable(
            folder,
            expected="features x.npy [N, F] and classes y.npy [N]",
            got=f"x.npy {list(x.shape)} and y.npy {list(y.shape)}",
            remedy="save one row of x.npy and one class of y.npy for each node",
        )
    if y.is_floating_point() or int(y.long().max()) < 1:
        got = str(y.dtype) if y.is_floating_point() else f"classes up to {int(y.long().max())}"
        raise unreadable(
            folder / "y.npy",
            expected="integers: classes from 0, at least two, and -1 for an unknown class",
            got=got,
            remedy="number the classes from 0; for numbers to predict, use the recipe nodes",
        )


class ArrayNodes(Predictor):
    """Most probable classes of a node of the folder, from all edges around it."""

    data, task, input = NodeArrays, Classification, "a node's number"
    batch_size = 512

    def set_up(self) -> None:
        values = self.preprocessing.values
        assert isinstance(self.recipe.data, NodeArrays)
        standard = Standardisation.read(values)
        self.graph = self.recipe.data.open(standard).all_neighbours()
        trained, shape = [values["nodes"], len(standard.mean)], list(self.graph.x.shape)
        if shape != trained:
            raise unreadable(
                Path(self.recipe.data.path) / "x.npy",
                expected=f"shape {trained}, as in training",
                got=f"shape {shape}",
                remedy="restore the folder, or train again",
            )

    def columns(self) -> tuple[str, ...]:
        return ("node",)

    def prepare(self, value: Any) -> int:
        count = len(self.graph.x)
        text = str(value).strip()
        if not text.isdecimal() or int(text) >= count:
            raise ArgumentError(
                "input",
                expected=f"a node from 0 to {count - 1}",
                got=repr(text[:60]),
                remedy="give the number of a row of x.npy",
            )
        return int(text)

    def answer(self, examples: list[int], *, top: int = 1) -> list[Answer]:
        seeds, position = torch.tensor(examples).unique(return_inverse=True)
        x, graph, _ = self.graph.neighbourhood(seeds, Generator())
        probabilities = self.model(x, graph)[position].softmax(-1)
        return top_labels(probabilities, self.preprocessing.values["labels"], top)


def node_reasons(predictor: ArrayNodes, value: Any, _: int) -> Iterator[Case]:
    """Yield the edges around a node as reasons for its class."""
    seed = torch.tensor([predictor.prepare(value)])
    x, graph, nodes = predictor.graph.neighbourhood(seed, Generator())
    with torch.no_grad():
        best = predictor.model(x, graph)[:1].argmax(-1)
    yield Case(
        lambda: log_odds(predictor.model(x, graph)[:1], best),
        torch.arange(len(nodes)),
        list(map(str, nodes.tolist())),
        str(predictor.preprocessing.values["labels"][int(best)]),
        torch.tensor([0]),
        by_edge=True,
        is_odds=True,
    )
