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


class GraphInput(NamedTuple):
    """Graph as input of a model: node features ``[n, F]`` and edges ``[2, e]``."""

    x: Tensor
    edge_index: Tensor


class FiledGraph(NamedTuple):
    """Graph as read from files: node labels ``[n, L]``, node attributes ``[n, A]`` and edges."""

    name: str
    labels: Tensor
    attributes: Tensor
    edge_index: Tensor

    def as_input(self, preprocessing: Mapping[str, Any]) -> GraphInput:
        """Convert to the input of a model; see :func:`node_features`."""
        with naming(self.name):
            return GraphInput(
                node_features(self.labels, self.attributes, preprocessing), self.edge_index
            )


@dataclass(frozen=True)
class GraphData(Data):
    """Base class of graph classification data."""

    section = "Whole graphs and molecules"

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")


def graph_preprocessing(
    labels: Sequence[str],
    kinds: Sequence[Sequence[int]] = (),
    attributes: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Any]:
    """Return the values saved with a trained model: class names, the distinct values of each column
    of node labels, and mean and standard deviation of the node attributes, if they are used.
    """
    return {"labels": list(labels), "kinds": [list(kind) for kind in kinds], "scale": attributes}


def node_features(labels: Tensor, attributes: Tensor, preprocessing: Mapping[str, Any]) -> Tensor:
    """Return node features ``[N, F]``: standardised attributes ``[N, A]``, then one-hot labels
    ``[N, L]``. Without node labels, the last feature is 1.
    """
    columns = []
    if preprocessing["scale"] is not None:
        standard = Standardisation.read(preprocessing["scale"])
        _check_columns("node_attributes", attributes, len(standard.mean))
        columns.append(standard.scaled(attributes))
    _check_columns("node_labels", labels, len(preprocessing["kinds"]))
    for column, kinds in zip(labels.T, preprocessing["kinds"], strict=True):
        same = column[:, None] == torch.tensor(kinds)
        if not same.any(1).all():
            raise ArgumentError(
                "node_labels",
                expected=f"labels of the training data: {', '.join(map(str, kinds))}",
                got=str(int(column[~same.any(1)][0])),
                remedy="omit this graph, or add training graphs with this label",
            )
        columns.append(F.one_hot(same.long().argmax(1), len(kinds)).float())
    if not preprocessing["kinds"]:
        columns.append(torch.ones(len(labels), 1))
    return torch.cat(columns, dim=1)


def _check_columns(name: str, values: Tensor, count: int) -> None:
    if values.shape[1] != count:
        raise ArgumentError(
            name,
            expected=f"{counted(count, 'column')}, as in training",
            got=counted(values.shape[1], "column"),
            remedy="give graphs with the same columns as the training graphs",
        )


def required_fields(preprocessing: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that a new graph must have; see :func:`graph_of`."""
    of_nodes = {"node_labels": preprocessing["kinds"], "node_attributes": preprocessing["scale"]}
    return ("edges", *(name for name, values in of_nodes.items() if values))


def graph_of(fields: Mapping[str, Any], preprocessing: Mapping[str, Any]) -> GraphInput:
    """Convert a new graph to the input of a model, from lists or JSON: ``edges``, pairs of node
    indices from 0; ``node_labels`` and ``node_attributes``, one or several numbers per node, if the
    training data had them; otherwise, ``nodes`` may give the number of nodes.
    """
    labels, attributes = (
        _rows(name, fields[name], integers) if name in required_fields(preprocessing) else None
        for name, integers in (("node_labels", True), ("node_attributes", False))
    )
    pairs = _rows("edges", fields["edges"], integers=True)
    if pairs.shape[1] not in (0, 2):
        raise _strange("edges", "pairs of nodes", f"edges of {counted(pairs.shape[1], 'node')}")
    pairs = pairs.reshape(-1, 2)
    of_nodes = [rows for rows in (labels, attributes) if rows is not None]
    least = int(pairs.max()) + 1 if len(pairs) else 1
    count = len(of_nodes[0]) if of_nodes else _count_of(fields.get("nodes"), least)
    check_memory(
        "edges", STATES * count, f"{count:,} nodes", "number the nodes from 0 without gaps"
    )
    if any(len(rows) != count for rows in of_nodes):
        got = " rows in node_labels and ".join(str(len(rows)) for rows in of_nodes)
        raise _strange("node_attributes", "as many rows as node_labels", got)
    if not count:
        raise _strange(required_fields(preprocessing)[1], "a row for each node", "no rows")
    if len(pairs) and (int(pairs.min()) < 0 or least > count):
        got = str(next(pair for pair in pairs.tolist() if min(pair) < 0 or max(pair) >= count))
        raise _strange("edges", f"pairs of nodes from 0 to {count - 1}", got)
    empty = torch.empty(count, 0)
    x = node_features(
        empty.long() if labels is None else labels,
        empty if attributes is None else attributes,
        preprocessing,
    )
    return GraphInput(x, _without_loops(both_ways(pairs.T)))


def _count_of(nodes: Any, least: int) -> int:
    """Return the number of nodes: the field ``nodes`` of a graph, or by default ``least``."""
    if nodes is None or nodes == "":  # A field of a table may be empty.
        return least
    count = _rows("nodes", nodes, integers=True)
    if count.numel() != 1 or int(count) < least:
        raise _strange(
            "nodes",
            f"an integer of at least {least}, because edges names that many nodes",
            str(nodes)[:60],
        )
    return int(count)


def graph_of_pyg(data: Any, preprocessing: Mapping[str, Any], in_width: int) -> GraphInput:
    """Convert a ``torch_geometric.data.Data`` object, such as a graph of ``TUDataset``: ``x`` has
    the unscaled attributes, then the one-hot labels. Graphs without features need ``num_nodes``.
    """
    x = getattr(data, "x", None)
    if x is not None and (x.dim() != 2 or not len(x)):
        raise _strange("x", "features [N, F] of at least one node", f"shape {list(x.shape)}")
    if x is None or not required_fields(preprocessing)[1:]:
        x = torch.ones(int(data.num_nodes or 0), 1)
    elif preprocessing["scale"] is not None:
        standard = Standardisation.read(preprocessing["scale"])
        width = len(standard.mean)
        # Without node labels, the model was trained with a constant feature.
        if not preprocessing["kinds"]:
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        if x.shape[1] == in_width:
            x = torch.cat([standard.scaled(x[:, :width]), x[:, width:].float()], dim=1)
    if x.shape[1] != in_width or not bool(x.isfinite().all()):
        # The constant feature that was added above is not among the user's features.
        added = int(preprocessing["scale"] is not None and not preprocessing["kinds"])
        wrong = counted(x.shape[1] - added, "number")
        got = wrong if x.shape[1] != in_width else "NaN or infinity"
        expected = counted(in_width - added, "finite number")
        raise _strange("x", f"{expected} per node, as in training", got)
    if not len(x):
        raise _strange("num_nodes", "at least one node", "none")
    graph = edges(data.edge_index, len(x))  # This checks the range of the indices.
    return GraphInput(x.float(), _without_loops(graph.edge_index))


def graphs_in(folder: Path, preprocessing: Mapping[str, Any]) -> list[FiledGraph]:
    """Read new graphs from a folder of files in the format of TU Dortmund, without classes."""
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
    files = read_graph_files(folder, names[0], labelled=False)
    empty = torch.empty(len(files.labels), 0)
    labels = files.labels if preprocessing["kinds"] else empty.long()
    attributes = files.attributes if preprocessing["scale"] else empty
    scale = preprocessing["scale"] or {"mean": ()}
    _check_columns("node_labels", labels, len(preprocessing["kinds"]))
    _check_columns("node_attributes", attributes, len(scale["mean"]))
    sizes, degrees = files.node_start.diff().tolist(), files.edge_start.diff().tolist()
    names = [f"graph {number}" for number in range(1, len(sizes) + 1)]
    edges_of = files.edge_index.split(degrees, dim=1)
    return list(map(FiledGraph, names, labels.split(sizes), attributes.split(sizes), edges_of))


def labelled(codes: PrecomputedEncodings, which: Tensor, y: Tensor) -> Split:
    """Return the split of the graphs ``which``, with classes ``y`` of all graphs; its batches
    include the precomputed encodings.
    """

    def make(index: Tensor) -> Batch:
        x, graph, members, _edges = codes.graphs.take(which[index])
        keywords = {"batch": members, **codes.take(which[index])}
        return Batch((x, graph), y[which[index]], keywords=keywords)

    return Split(len(which), make)


def _without_loops(edge_index: Tensor) -> Tensor:
    return distinct(edge_index[:, edge_index[0] != edge_index[1]])


def _rows(name: str, value: Any, integers: bool) -> Tensor:
    """Convert a list with one or several numbers per node, or its JSON text, to ``[nodes,
    columns]``.
    """
    try:
        rows = torch.as_tensor(json.loads(value) if isinstance(value, str) else value)
        rows = rows.double()
    except (ValueError, TypeError, RuntimeError) as error:
        raise _strange(name, "a list of numbers", str(value)[:60]) from error
    if integers and bool((rows != rows.round()).any()):
        raise _strange(name, "integers", str(float(rows[rows != rows.round()][0])))
    if not bool(rows.isfinite().all()):
        raise _strange(name, "finite numbers", "NaN or infinity")
    rows = rows.reshape(len(rows) if rows.ndim else 1, -1 if rows.numel() else 0)
    return rows.long() if integers else rows.float()


def _strange(name: str, expected: str, got: str) -> ArgumentError:
    return ArgumentError(name, expected=expected, got=got, remedy=f"correct {name}")
