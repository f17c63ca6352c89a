"""Link prediction: held-out edges of a graph against sampled pairs without an edge."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_given, check_range
from edgewise.app.files.edges import EdgeTable, Ids, read_edges
from edgewise.app.files.files import find_files, naming
from edgewise.app.files.frames import FrameSource, Source, open_source, take_frames
from edgewise.app.train.batches import Batch, LinkBatch
from edgewise.app.train.edge_splits import (
    both_ways,
    draw_non_edges,
    pair_keys,
    split_edges,
    undirected,
)
from edgewise.app.train.neighbours import (
    Neighbourhood,
    NeighbourSampler,
    check_fanouts,
    check_graph_memory,
)
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.graphs import Graph, edges
from edgewise.graphs.graph import select_edges


class Pairs(NamedTuple):
    """Distinct undirected edges ``[2, E]`` of a file; ``left`` and ``right`` are the nodes that may
    come first and second, equal if there is one node type.
    """

    pairs: Tensor
    left: range
    right: range
    node_ids: Ids
    file: Path | FrameSource
    column: str = "source"


def pairs_of_one_kind(edge_table: EdgeTable, path: Path | FrameSource) -> Pairs:
    """Return the undirected edges of a file with one node type."""
    nodes = range(len(edge_table.ids))
    return Pairs(
        undirected(edge_table.pairs), nodes, nodes, edge_table.ids, path, edge_table.column
    )


@dataclass(frozen=True)
class LinkSplits(Splits):
    """Loaded link prediction data, with the index of each node id."""

    node_ids: Ids


@dataclass(frozen=True)
class Links(Data):
    """Base class of link prediction data: pairs of nodes with target 1 for an edge, else 0.

    Each training batch predicts some of the training edges and uses the others for message passing,
    so the model never sees the edges that it predicts. Validation and test use all training edges
    for message passing. Negative pairs are sampled anew in every epoch for training, and once for
    validation and test.

    Batches: inputs ``(pairs [2, M], graph)`` and targets ``[M]``, positive pairs first. Validation
    and test have one :class:`LinkBatch` each. With ``fanouts``, pairs and graph of a training batch
    number the nodes of a sample; the keyword arguments are ``nodes``, their numbers in the whole
    graph, and ``around``, a graph with all edges into the nodes of the pairs.

    The whole graph and the ids are saved with a trained model, to predict new links.

    Attributes:
        val, test: fractions of the edges used for validation and test.
        split_seed: random seed of the split and of the validation and test negatives.
        negatives: negative pairs per edge in training batches; validation and test have one per
            edge.
        batch_size: predicted edges per training batch, at most a tenth of the training edges.
        fanouts: for large graphs, maximum numbers of edges into a node that are sampled for a
            training batch, one for each layer of the model.
    """

    val: float = 0.05
    test: float = 0.1
    split_seed: int = 0
    negatives: int = 4
    batch_size: int = 4096
    fanouts: tuple[int, ...] = field(default=(), kw_only=True)

    provides: ClassVar[tuple[str, ...]] = ("num_nodes",)

    def __post_init__(self) -> None:
        for name in ("negatives", "batch_size"):
            check_range(f"data.{name}", getattr(self, name), "choose a larger number", least=1)
        check_fanouts(self.fanouts, "data.fanouts", empty=True)

    @abstractmethod
    def read(self) -> Pairs:
        """Read the edges from their file."""

    def load(self) -> LinkSplits:
        pairs = self.read()
        with naming(pairs.file):
            return self._split(pairs)

    def _split(self, file_pairs: Pairs) -> LinkSplits:
        pairs, left, right, node_ids, _, column = file_pairs
        nodes = max(left.stop, right.stop)
        check_graph_memory("data.path", nodes, 2 * pairs.shape[1], self.fanouts)
        split = split_edges(pairs, val=self.val, test=self.test, seed=self.split_seed)
        graph = edges(both_ways(split.train), nodes)
        edge_keys = pair_keys(pairs, right.stop).sort().values
        generator = Generator().manual_seed(self.split_seed)

        def held_out(links: Tensor, *earlier: Tensor) -> Split:
            non_edges = draw_non_edges(links.shape[1], edge_keys, left, right, generator)
            labelled = _batch(graph, links, non_edges)
            batch = LinkBatch(
                labelled.inputs,
                labelled.target,
                known=torch.cat(earlier, dim=1),
                left=left,
                right=right,
            )
            return Split(1, lambda _index: batch)

        train, count = split.train, split.train.shape[1]
        # Training negatives may be test edges: excluding them would leak the test set.
        keys = pair_keys(train, right.stop).sort().values
        draw_negatives = partial(draw_non_edges, keys=keys, left=left, right=right)

        sampler = NeighbourSampler(graph, self.fanouts) if self.fanouts else None
        all_edges = sampler and sampler.with_fanouts([-1])

        def draw(index: Tensor, generator: Generator) -> Batch:
            negatives = draw_negatives(self.negatives * len(index), generator=generator)
            if sampler and all_edges:
                return _sampled_batch(
                    sampler, all_edges, train, index, negatives, generator=generator
                )
            is_message = torch.ones(count, dtype=torch.bool).index_fill_(0, index, False)
            return _batch(edges(both_ways(train[:, is_message]), nodes), train[:, index], negatives)

        # At most a tenth of the edges is in a batch, because only the others pass messages. A small
        # network thus also has enough steps per epoch.
        size = min(self.batch_size, max(count // 10, 1))
        val = held_out(split.val, train)
        test = held_out(split.test, train, split.val)
        preprocessing = {
            "ids": list(node_ids),
            "column": column,
            "known": pairs,
            "left": [left.start, left.stop],
            "right": [right.start, right.stop],
        }
        sizes = {"num_nodes": nodes}
        return LinkSplits(
            sizes,
            SampledSplit.of(draw, count, size),
            val,
            test,
            batch_size=1,
            node_ids=node_ids,
            preprocessing=preprocessing,
        )


def _sampled_batch(
    sampler: NeighbourSampler,
    all_edges: NeighbourSampler,
    train: Tensor,
    index: Tensor,
    non_edges: Tensor,
    *,
    generator: Generator,
) -> Batch:
    """Return a training batch with the sampled neighbourhoods of the nodes of its pairs; ``index``
    are the links to predict. ``all_edges`` samples with the fanout -1.
    """
    links = train[:, index]
    ends, pairs = torch.cat([links, non_edges], dim=1).unique(return_inverse=True)
    removed = pairs[:, : len(index)].flatten().bincount(minlength=len(ends))

    def message_graph(sample: Neighbourhood) -> Graph:
        """Return the sampled edges without those to predict, which come twice in the graph."""
        kept = ~torch.isin(sample.edge % train.shape[1], index)
        graph, whole = select_edges(sample.graph, kept), sample.graph.whole
        assert whole is not None
        degree = whole.degree.clone()
        degree[: len(ends)] -= removed
        graph.whole = whole._replace(degree=degree)
        return graph

    sample = sampler.sample(ends, generator)
    around = message_graph(all_edges.sample(ends, generator))
    batch = _batch(message_graph(sample), pairs[:, : len(index)], pairs[:, len(index) :])
    return replace(batch, keywords={"nodes": sample.nodes, "around": around})


def _batch(graph: Graph, links: Tensor, non_edges: Tensor) -> Batch:
    target = torch.cat([torch.ones(links.shape[1]), torch.zeros(non_edges.shape[1])])
    return Batch((torch.cat([links, non_edges], dim=1), graph), target)


@dataclass(frozen=True)
class EdgeList(Links):
    """Undirected graph of an edge list, or of two columns of a table.

    See :func:`edgewise.app.files.edges.read_edges`.

    Attributes:
        path: the file, or a data frame.
        source, destination: column names, or column numbers from 1 if there is no header; "" finds
            the columns by usual names, or takes the only two columns.
        header: whether the first line names the columns; ``None`` detects it.
        names: whether ids are names, even if they look like numbers.
        val, test, split_seed, negatives, batch_size, fanouts: see :class:`Links`.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.links import EdgeList
        >>> ring = pd.DataFrame({"source": range(40), "target": [(i + 1) % 40 for i in range(40)]})
        >>> splits = EdgeList(path=ring, val=0.1, test=0.1).load()
        >>> splits.model_arguments
        {'num_nodes': 40}
    """

    path: Source = ""
    source: str = ""
    destination: str = ""
    header: bool | None = None
    names: bool = False

    def __post_init__(self) -> None:
        take_frames(self, "path")
        super().__post_init__()

    def read(self) -> Pairs:
        check_given("data.path", self.path, "a file of edges")
        edge_table = read_edges(
            self.path,
            header=self.header,
            names=self.names,
            source=self.source,
            destination=self.destination,
        )
        return pairs_of_one_kind(edge_table, open_source(self.path))


@dataclass(frozen=True)
class EgoFacebook(Links):
    """Friendships of ten ego networks of Facebook: 4,039 nodes and 88,234 undirected edges.

    Paper: McAuley and Leskovec, Learning to discover social circles in ego networks, 2012.

    Example:
        >>> from edgewise.app.kinds.links import EgoFacebook
        >>> splits = EgoFacebook(negatives=8).load()  # doctest: +SKIP
    """

    folders = ("ego_facebook",)
    section = "Links and recommendation"

    def read(self) -> Pairs:
        file = "facebook_combined.txt.gz"
        sources = {file: f"https://snap.stanford.edu/data/{file}"}
        path = find_files("ego_facebook", sources) / file
        return pairs_of_one_kind(read_edges(path), path)
