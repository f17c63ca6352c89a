"""Classes or numbers of nodes on a graph of any size: arrays that are read from disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from edgewise._utils.arguments import check_given, check_range, check_shares, check_splits
from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.files import unreadable
from edgewise.app.files.sorted_edges import memory_map, sorted_edges
from edgewise.app.files.split_column import PARTS
from edgewise.app.files.targets import Target, class_counts
from edgewise.app.kinds.nodes.files import MASKS
from edgewise.app.predict.cases import log_odds
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.predict.properties import Properties
from edgewise.app.train.folds import hold_out
from edgewise.app.train.layerwise import LayerwiseOutputs, LayerwiseSplit
from edgewise.app.train.neighbours import NeighbourSampler, check_fanouts, neighbour_draw
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits, TargetScale
from edgewise.app.train.standardisation import Standardisation, is_constant
from edgewise.app.train.tasks.classification import Classification
from edgewise.explain.attribution import Case
from edgewise.graphs import Graph

FRACTION = 0.05
"""Fraction of the nodes after whose prediction the hidden features of all nodes are computed once,
instead of those around each batch."""
STANDARDISED = 10_000_000
"""Means and standard deviations of features are computed from evenly spaced nodes, which together
have at most this many numbers."""


class ArrayGraph(NamedTuple):
    """Features ``[N, F]`` and edges of a folder, on disk, and scale of the features; ``all_edges``
    samples with the fanout -1 in each hop.
    """

    folder: Path
    x: Tensor
    sampler: NeighbourSampler
    all_edges: NeighbourSampler
    standard: Standardisation

    def neighbourhood(self, seeds: Tensor) -> tuple[Tensor, Graph, Tensor]:
        """Return standardised features, edges and nodes of the neighbourhood with all edges; the
        distinct ``seeds`` are the first nodes.
        """
        sample = self.all_edges.sample(seeds, Generator())
        return self.features(sample.nodes), sample.graph, sample.nodes

    def features(self, nodes: Tensor) -> Tensor:
        """Return the standardised features of some nodes."""
        return self.standard.scaled(self.x[nodes])

    def outputs(self, model: nn.Module, nodes: Tensor) -> LayerwiseOutputs:
        """Return the function from nodes to exact outputs of a model."""
        return LayerwiseOutputs(model, self.sampler, self.features, nodes, self.folder)


@dataclass(frozen=True)
class NodeArrays(Data):
    """Classes or numbers of nodes on a graph that need not fit in memory, in a folder of arrays.

    The folder has features ``x.npy`` ``[N, F]``, targets ``y.npy`` ``[N]``, edges
    ``edge_index.npy`` ``[2, E]`` (or ``edges.parquet`` or ``edges.csv`` with a source and a target
    column), and optionally ``train_mask.npy``, ``val_mask.npy`` and ``test_mask.npy`` ``[N]``.
    Nodes are numbered from 0. Targets are classes if they are integers, -1 for an unknown class;
    they are numbers to predict if they are floating point, NaN for an unknown number.

    The edges are sorted once, into a subfolder. Training samples neighbourhoods. Validation, test
    and predictions compute one layer after another from all edges, which gives the outputs on the
    whole graph; see :class:`edgewise.app.train.LayerwiseOutputs`. Memory holds a few numbers per
    node, and the features of the nodes of a batch.

    Attributes:
        path: the folder.
        fanouts: maximum numbers of edges into a node that training samples, one for each layer;
            the model has as many layers.
        batch_size: number of nodes of a batch whose targets are predicted.
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
        numeric = y.is_floating_point()
        y = y.double()[:, None] if numeric else y.long()
        nodes = self._nodes(folder, y[:, 0].isfinite() if numeric else y >= 0, y)
        classes = 0 if numeric else int(y.max()) + 1
        targets = (_number(folder, y[nodes["train"], 0]),) if numeric else ()
        graph = self.open(Standardisation.of(sampled_rows))

        def evaluated(name: str) -> Split:
            return LayerwiseSplit.of(graph.sampler, graph.features, y, nodes[name], folder)

        train = SampledSplit.of(
            neighbour_draw(graph.sampler, graph.features, y, nodes["train"]),
            len(nodes["train"]),
            self.batch_size,
        )
        return Splits(
            {"in_width": x.shape[1], "out_width": classes or 1, "depth": len(self.fanouts)},
            replace(train, target_scale=TargetScale.of(targets)),
            evaluated("val"),
            evaluated("test"),
            batch_size=self.batch_size,
            preprocessing={
                "labels": list(map(str, range(classes))),
                **graph.standard.record(),
                "nodes": len(x),
                "some_edges": _some_edges(graph.sampler),
            },
            targets=targets,
            class_counts=() if numeric else class_counts(y[nodes["train"]], classes),
        )

    def open(self, standard: Standardisation) -> ArrayGraph:
        """Open the features and edges of the folder."""
        folder = self._folder()
        x = memory_map(folder / "x.npy")
        edges = sorted_edges(folder, len(x), directed=self.directed)
        sampler = NeighbourSampler(edges, self.fanouts)
        all_edges = sampler.with_fanouts([-1] * len(self.fanouts))
        return ArrayGraph(folder, x, sampler, all_edges, standard)

    def _folder(self) -> Path:
        what = "a folder with x.npy, y.npy and edge_index.npy"
        folder = Path(check_given("data.path", self.path, what)).expanduser()
        if not folder.is_dir():
            raise MissingDataError(f"{folder}: no such folder. Remedy: give {what}.")
        return folder

    def _nodes(self, folder: Path, is_labelled: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the labelled nodes of each split, from masks or at random."""
        labelled = is_labelled.nonzero()[:, 0]
        if any((folder / f"{mask}.npy").is_file() for mask in MASKS):
            masks = {name: memory_map(folder / f"{name}_mask.npy") for name in PARTS}
            for name, mask in masks.items():
                if mask.shape != is_labelled.shape:
                    raise unreadable(
                        folder / f"{name}_mask.npy",
                        expected=f"one value for each of {len(y)} nodes",
                        got=f"shape {list(mask.shape)}",
                        remedy="save a mask [N]",
                    )
            splits = {name: labelled[mask[labelled].bool()] for name, mask in masks.items()}
        else:
            keys = [0] * len(labelled) if y.is_floating_point() else y[labelled].tolist()
            indices = hold_out(keys, val=self.val, test=self.test, seed=self.split_seed)
            splits = {name: labelled[index] for name, index in indices.items()}
        check_splits(**splits)
        return splits


def _some_edges(sampler: NeighbourSampler) -> Tensor:
    """Return in-degrees and sources of some nodes: a run is not resumed on a graph with others."""
    nodes = torch.arange(0, sampler.num_nodes, max(1, sampler.num_nodes // 1000))
    sources = sampler.sources(nodes)
    step = max(1, len(sources) // 1000)
    return torch.cat([sampler.degrees(nodes), sources[::step]])


def _check_shapes(folder: Path, x: Tensor, y: Tensor) -> None:
    if x.dim() != 2 or y.shape != x.shape[:1] or not len(x):
        raise unreadable(
            folder,
            expected="features x.npy [N, F] and targets y.npy [N]",
            got=f"x.npy {list(x.shape)} and y.npy {list(y.shape)}",
            remedy="save one row of x.npy and one target of y.npy for each node",
        )
    if not y.is_floating_point() and int(y.long().max()) < 1:
        raise unreadable(
            folder / "y.npy",
            expected="integers: classes from 0, at least two, and -1 for an unknown class",
            got=f"classes up to {int(y.long().max())}",
            remedy="number the classes from 0; save numbers to predict as floating point",
        )
    if y.is_floating_point() and y.isinf().any():
        raise unreadable(
            folder / "y.npy",
            expected="finite numbers, and NaN for an unknown number",
            got="infinity",
            remedy="replace infinite values",
        )


def _number(folder: Path, values: Tensor) -> Target:
    """Describe the numbers to predict by those of the training nodes."""
    mean, std = (float(x) for x in Standardisation.of(values))
    if not len(values) or is_constant(*Standardisation.of(values)):
        raise unreadable(
            folder / "y.npy",
            expected="different numbers in the training set",
            got=f"{len(values)} numbers, all {mean:g}",
            remedy="save one number for each node, NaN if it is unknown",
        )
    return Target("y", mean=mean, std=std)


class OnArrays(Predictor):
    """Base of predictors on nodes of a folder of arrays, from all edges around them."""

    data, input = NodeArrays, "a node's number"
    batch_size = 512

    def set_up(self) -> None:
        super().set_up()
        values = self.preprocessing.values
        assert isinstance(self.recipe.data, NodeArrays)
        standard = Standardisation.read(values)
        self.graph = self.recipe.data.open(standard)
        trained, shape = [values["nodes"], len(standard.mean)], list(self.graph.x.shape)
        if shape != trained:
            raise unreadable(
                Path(self.recipe.data.path) / "x.npy",
                expected=f"shape {trained}, as in training",
                got=f"shape {shape}",
                remedy="restore the folder, or train again",
            )
        self._answered = 0
        self._every: LayerwiseOutputs | None = None

    def outputs(self, examples: list[int]) -> Tensor:
        """Return the outputs ``[M, out_width]`` of nodes."""
        seeds, position = torch.tensor(examples).unique(return_inverse=True)
        count = len(self.graph.x)
        self._answered += len(seeds)
        if self._every is None and self._answered > FRACTION * count:
            self._every = self.graph.outputs(self.model, torch.arange(count))
        return (self._every or self.graph.outputs(self.model, seeds))(seeds)[position]

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


class ArrayNodes(OnArrays):
    """Most probable classes of a node of a folder of arrays."""

    task = Classification

    def answer(self, examples: list[int], *, top: int = 1) -> list[Answer]:
        probabilities = self.outputs(examples).softmax(-1)
        return top_labels(probabilities, self.preprocessing.values["labels"], top)


class ArrayNumbers(OnArrays, Properties):
    """Predicted number of a node of a folder of arrays."""

    def answer(self, examples: list[int], *, interval: float = 0.0) -> list[Answer]:
        return self.described(self.outputs(examples), None, interval)


def node_reasons(predictor: OnArrays, value: Any, _: int) -> Iterator[Case]:
    """Yield the edges around a node as reasons for its class or number."""
    seed = torch.tensor([predictor.prepare(value)])
    x, graph, nodes = predictor.graph.neighbourhood(seed)
    with torch.no_grad():
        outputs = predictor.model(x, graph)[:1]
    is_odds = isinstance(predictor, ArrayNodes)
    best = outputs.argmax(-1)
    answer = rounded(float(outputs[0, 0]))
    if is_odds:
        answer = str(predictor.preprocessing.values["labels"][int(best)])

    def score() -> Tensor:
        outputs = predictor.model(x, graph)[:1]
        return log_odds(outputs, best) if is_odds else outputs[:, 0]

    yield Case(
        score,
        torch.arange(len(nodes)),
        list(map(str, nodes.tolist())),
        answer,
        torch.tensor([0]),
        by_edge=True,
        is_odds=is_odds,
    )
