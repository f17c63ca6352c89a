"""Graph classification: saved preprocessing, and conversion of new graphs for prediction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError, counted
from edgewise._utils.limits import check_memory
from edgewise.app.files.files import naming, unreadable
from edgewise.app.kinds.graphs.files import read_graph_files
from edgewise.app.train.batches import Batch
from edgewise.app.train.edge_splits import both_ways, distinct
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.splits import Data, Split
from edgewise.app.train.standardisation import Standardisation
from edgewise.graphs import edges

STATES = 1024  # Lower bound of the memory of a model per node, in bytes.


class WholeGraph(NamedTuple):
    """Graph as input of a model: node features ``[n, F]`` and edges ``[2, e]``."""

    x: Tensor
    edge_index: Tensor


class FiledGraph(NamedTuple):
    """Graph as read from files: node labels ``[n, L]``, node attributes ``[n, A]`` and edges."""

    name: str
    labels: Tensor
    attributes: Tensor
    edge_index: Tensor

    def whole(self, kept: Mapping[str, Any]) -> WholeGraph:
        """Convert to the input of a model; see :func:`node_features`.

        Args:
            kept: values from training, as returned by :func:`kept_form`.
        """
        with naming(self.name):
            return WholeGraph(node_features(self.labels, self.attributes, kept), self.edge_index)


@dataclass(frozen=True)
class GraphData(Data):
    """Base class of graph classification data.

    A trained model is saved with the dict that :func:`kept_form` returns.
    """

    section = "Whole graphs and molecules"

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")


def kept_form(
    labels: Sequence[str],
    kinds: Sequence[Sequence[int]] = (),
    attributes: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Any]:
    """Return the preprocessing saved with a trained model; see ``Splits.preprocessing``.

    Args:
        labels: class names.
        kinds: for each column of the node labels, its distinct values in the training set.
        attributes: ``mean`` and ``std`` of each node attribute; ``None`` if they are not used.
    """
    return {"labels": list(labels), "kinds": [list(kind) for kind in kinds], "scale": attributes}


def node_features(labels: Tensor, attributes: Tensor, kept: Mapping[str, Any]) -> Tensor:
    """Return node features ``[N, F]``: standardised attributes, then one-hot labels.

    Without node labels, the last feature is 1.

    Args:
        labels: integer node labels, ``[N, L]``.
        attributes: node attributes, ``[N, A]``.
        kept: values from training, as returned by :func:`kept_form`.

    Raises:
        ArgumentError: a label did not occur in training, or the number of columns differs from
            training.
    """
    parts = []
    if kept["scale"] is not None:
        standard = Standardisation.read(kept["scale"])
        _check_columns("node_attributes", attributes, len(standard.mean))
        parts.append(standard.scaled(attributes))
    _check_columns("node_labels", labels, len(kept["kinds"]))
    for column, kinds in zip(labels.T, kept["kinds"], strict=True):
        same = column[:, None] == torch.tensor(kinds)
        if not same.any(1).all():
            raise ArgumentError(
                "node_labels",
                expected=f"labels of the training data: {', '.join(map(str, kinds))}",
                got=str(int(column[~same.any(1)][0])),
                remedy="omit this graph, or add training graphs with this label",
            )
        parts.append(F.one_hot(same.long().argmax(1), len(kinds)).float())
    if not kept["kinds"]:
        parts.append(torch.ones(len(labels), 1))
    return torch.cat(parts, dim=1)


def _check_columns(name: str, values: Tensor, count: int) -> None:
    if values.shape[1] != count:
        raise ArgumentError(
            name,
            expected=f"{counted(count, 'column')}, as in training",
            got=counted(values.shape[1], "column"),
            remedy="give graphs with the same columns as the training graphs",
        )


def needed(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that a new graph must have; see :func:`graph_of`.

    Args:
        kept: values from training, as returned by :func:`kept_form`.
    """
    of_nodes = {"node_labels": kept["kinds"], "node_attributes": kept["scale"]}
    return ("edges", *(name for name, known in of_nodes.items() if known))


def graph_of(given: Mapping[str, Any], kept: Mapping[str, Any]) -> WholeGraph:
    """Convert a new graph, given by its fields, to the input of a model.

    Args:
        given: fields as lists or JSON: ``edges``, pairs of node indices from 0; ``node_labels``,
            an integer or a list of integers per node; ``node_attributes``, a list of numbers per
            node. The last two are required if the training data had them; otherwise ``nodes`` may
            give the number of nodes.
        kept: values from training, as returned by :func:`kept_form`.

    Raises:
        ArgumentError: a field is missing or has a wrong form.
    """
    labels, attributes = (
        _rows(name, given[name], whole) if name in needed(kept) else None
        for name, whole in (("node_labels", True), ("node_attributes", False))
    )
    pairs = _rows("edges", given["edges"], whole=True)
    if pairs.shape[1] not in (0, 2):
        raise _strange("edges", "pairs of nodes", f"edges of {counted(pairs.shape[1], 'node')}")
    pairs = pairs.reshape(-1, 2)
    of_nodes = [rows for rows in (labels, attributes) if rows is not None]
    least = int(pairs.max()) + 1 if len(pairs) else 1
    count = len(of_nodes[0]) if of_nodes else _count_of(given.get("nodes"), least)
    check_memory(
        "edges", STATES * count, f"{count:,} nodes", "number the nodes from 0 without gaps"
    )
    if any(len(rows) != count for rows in of_nodes):
        got = " rows in node_labels and ".join(str(len(rows)) for rows in of_nodes)
        raise _strange("node_attributes", "as many rows as node_labels", got)
    if not count:
        raise _strange(needed(kept)[1], "a row for each node", "no rows")
    if len(pairs) and (int(pairs.min()) < 0 or least > count):
        got = str(next(pair for pair in pairs.tolist() if min(pair) < 0 or max(pair) >= count))
        raise _strange("edges", f"pairs of nodes from 0 to {count - 1}", got)
    empty = torch.empty(count, 0)
    x = node_features(
        empty.long() if labels is None else labels,
        empty if attributes is None else attributes,
        kept,
    )
    return WholeGraph(x, _without_loops(both_ways(pairs.T)))


def _count_of(nodes: Any, least: int) -> int:
    """Return the number of nodes: the field ``nodes`` of a graph, or by default ``least``."""
    if nodes is None or nodes == "":  # A field of a table may be empty.
        return least
    given = _rows("nodes", nodes, whole=True)
    if given.numel() != 1 or int(given) < least:
        raise _strange(
            "nodes",
            f"an integer of at least {least}, because edges names that many nodes",
            str(nodes)[:60],
        )
    return int(given)


def graph_of_pyg(given: Any, kept: Mapping[str, Any], in_width: int) -> WholeGraph:
    """Convert a ``torch_geometric.data.Data`` object, such as a graph of ``TUDataset``.

    Args:
        given: graph with ``edge_index`` ``[2, E]`` and ``x`` ``[N, F]``: the unscaled attributes,
            then the one-hot labels. Graphs without features need ``num_nodes``.
        kept: values from training, as returned by :func:`kept_form`.
        in_width: number of input features of the model.

    Raises:
        ArgumentError: the features differ from those in training, the graph has no nodes, or an
            edge is out of range.
    """
    x = getattr(given, "x", None)
    if x is not None and (x.dim() != 2 or not len(x)):
        raise _strange("x", "features [N, F] of at least one node", f"shape {list(x.shape)}")
    if x is None or not needed(kept)[1:]:
        x = torch.ones(int(given.num_nodes or 0), 1)
    elif kept["scale"] is not None:
        standard = Standardisation.read(kept["scale"])
        width = len(standard.mean)
        # Without node labels, the model was trained with a constant feature.
        if not kept["kinds"]:
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        if x.shape[1] == in_width:
            x = torch.cat([standard.scaled(x[:, :width]), x[:, width:].float()], dim=1)
    if x.shape[1] != in_width or not bool(x.isfinite().all()):
        # The constant feature that was added above is not among the user's features.
        added = int(kept["scale"] is not None and not kept["kinds"])
        wrong = counted(x.shape[1] - added, "number")
        got = wrong if x.shape[1] != in_width else "NaN or infinity"
        wanted = counted(in_width - added, "finite number")
        raise _strange("x", f"{wanted} per node, as in training", got)
    if not len(x):
        raise _strange("num_nodes", "at least one node", "none")
    graph = edges(given.edge_index, len(x))  # This checks the range of the indices.
    return WholeGraph(x.float(), _without_loops(graph.edge_index))


def graphs_in(folder: Path, kept: Mapping[str, Any]) -> list[FiledGraph]:
    """Read new graphs from a folder of files in the format of TU Dortmund, without classes.

    Args:
        folder: folder of the files.
        kept: values from training, as returned by :func:`kept_form`.

    Raises:
        MissingDataError: the folder has no such file.
        ArgumentError: the folder has several data sets, or the number of node labels or attributes
            differs from training.
    """
    names = sorted(path.name.removesuffix("_A.txt") for path in folder.glob("*_A.txt"))
    if not names:
        raise MissingDataError(
            f"{folder}: no file NAME_A.txt. Remedy: give a folder with the files NAME_A.txt, "
            "NAME_graph_indicator.txt and so on."
        )
    if len(names) > 1:
        raise unreadable(
            folder,
            expected="the files of one set of graphs",
            got=f"files of {', '.join(names)}",
            remedy="put each set into its own folder",
        )
    found = read_graph_files(folder, names[0], labelled=False)
    empty = torch.empty(len(found.labels), 0)
    labels = found.labels if kept["kinds"] else empty.long()
    attributes = found.attributes if kept["scale"] else empty
    scale = kept["scale"] or {"mean": ()}
    _check_columns("node_labels", labels, len(kept["kinds"]))
    _check_columns("node_attributes", attributes, len(scale["mean"]))
    sizes, degrees = found.node_start.diff().tolist(), found.edge_start.diff().tolist()
    names = [f"graph {number}" for number in range(1, len(sizes) + 1)]
    edges_of = found.edge_index.split(degrees, dim=1)
    return list(map(FiledGraph, names, labels.split(sizes), attributes.split(sizes), edges_of))


def labelled(codes: PrecomputedEncodings, which: Tensor, y: Tensor) -> Split:
    """Return a split of some of the graphs; its batches include the precomputed encodings.

    Args:
        codes: all graphs G, with their precomputed encodings.
        which: indices of the graphs in the split, ``[K]``.
        y: classes of all graphs, ``[G]``.
    """

    def make(index: Tensor) -> Batch:
        x, graph, members, _edges = codes.graphs.take(which[index])
        keywords = {"batch": members, **codes.take(which[index])}
        return Batch((x, graph), y[which[index]], keywords=keywords)

    return Split(len(which), make)


def _without_loops(edge_index: Tensor) -> Tensor:
    return distinct(edge_index[:, edge_index[0] != edge_index[1]])


def _rows(name: str, value: Any, whole: bool) -> Tensor:
    """Convert numbers of nodes to a tensor ``[nodes, columns]``.

    Args:
        name: field of the graph, for the error.
        value: list with a number or a list of numbers per node, or its JSON text.
        whole: whether the numbers must be integers.
    """
    try:
        rows = torch.as_tensor(json.loads(value) if isinstance(value, str) else value)
        rows = rows.double()
    except (ValueError, TypeError, RuntimeError) as error:
        raise _strange(name, "a list of numbers", str(value)[:60]) from error
    if whole and bool((rows != rows.round()).any()):
        raise _strange(name, "integers", str(float(rows[rows != rows.round()][0])))
    if not bool(rows.isfinite().all()):
        raise _strange(name, "finite numbers", "NaN or infinity")
    rows = rows.reshape(len(rows) if rows.ndim else 1, -1 if rows.numel() else 0)
    return rows.long() if whole else rows.float()


def _strange(name: str, expected: str, got: str) -> ArgumentError:
    return ArgumentError(name, expected=expected, got=got, remedy=f"correct {name}")
