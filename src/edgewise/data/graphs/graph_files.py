"""Many small graphs in the text files of TU Dortmund: who is linked, and what nodes are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.data.files import unreadable
from edgewise.data.graphs.edge_splits import distinct
from edgewise.data.reading import check_line_count, read_numbers
from edgewise.ragged import boundaries

REQUIRED = ("A", "graph_indicator", "graph_labels")


class GraphFiles(NamedTuple):
    """G graphs with N nodes and E edges in all, one graph after the other.

    Attributes:
        edge_index: ``[2, E]``; in each graph its nodes are counted from 0.
        node_start, edge_start: ``[G + 1]``, where the nodes and edges of each graph begin.
        labels: ``[N, L]``, whole numbers of the nodes; L is 0 where the files have none.
        attributes: ``[N, A]``, measured numbers of the nodes; likewise.
        classes: ``[G]``, a whole number each; empty where they were not asked for.

    """

    edge_index: Tensor
    node_start: Tensor
    edge_start: Tensor
    labels: Tensor
    attributes: Tensor
    classes: Tensor


def read_graph_files(raw: Path, name: str, *, labelled: bool = True) -> GraphFiles:
    """The graphs in ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and the files beside them.

    Args:
        raw: the folder.
        name: of the set, as its files begin.
        labelled: whether ``NAME_graph_labels.txt`` is read.

    Raises:
        MissingDataError: a file is not there.
        ArgumentError: a file is damaged, or does not fit to the others; names file and line.

    """
    a, indicator, graph_labels, node_labels, node_attributes = (
        raw / f"{name}_{part}.txt" for part in (*REQUIRED, "node_labels", "node_attributes")
    )
    classes = torch.empty(0, 1, dtype=torch.long)
    if labelled:
        classes = read_numbers(graph_labels, integers=True)
    member = _members(indicator)
    nodes, graphs = len(member), int(member[-1]) + 1
    if labelled:
        check_line_count(graph_labels, classes, graphs, f"graphs of {indicator.name}")
    labels, attributes = torch.empty(nodes, 0, dtype=torch.long), torch.empty(nodes, 0)
    if node_labels.is_file():
        labels = read_numbers(node_labels, integers=True)
        check_line_count(node_labels, labels, nodes, f"nodes of {indicator.name}")
    if node_attributes.is_file():
        attributes = read_numbers(node_attributes)
        check_line_count(node_attributes, attributes, nodes, f"nodes of {indicator.name}")
    source, target = _edges(a, member)
    sizes, degrees = (torch.bincount(of, minlength=graphs) for of in (member, member[source]))
    node_start, edge_start = boundaries(sizes), boundaries(degrees)
    inside = torch.stack([source, target]) - node_start[member[source]]
    return GraphFiles(inside, node_start, edge_start, labels, attributes, classes[:, 0])


def _members(path: Path) -> Tensor:
    """The graph of each node, ``[N]``, from 0; every graph has nodes, and they stand together."""
    member = read_numbers(path, integers=True)[:, 0] - 1
    step = member.diff(prepend=torch.tensor([-1]))
    wrong = ((step < 0) | (step > 1) | (member < 0)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise unreadable(
            path,
            expected="the graph of each node, from 1 and without gaps, one after the other",
            got=f"graph {int(member[row]) + 1} after {int(member[row] - step[row]) + 1}",
            line=row + 1,
        )
    return member


def _edges(path: Path, member: Tensor) -> Tensor:
    """Distinct edges ``[2, E]`` without loops, sorted, each inside of one graph."""
    pairs = read_numbers(path, integers=True) - 1
    nodes = len(member)
    outside = (pairs.shape[1] != 2) | (pairs < 0).any(1) | (pairs >= nodes).any(1)
    if not outside.any():
        outside = member[pairs[:, 0]] != member[pairs[:, 1]]
    if outside.any():
        row = int(outside.nonzero()[0])
        raise unreadable(
            path,
            expected=f"two of the {nodes} nodes in each line, both in one graph",
            got=", ".join(str(end + 1) for end in pairs[row].tolist()),
            line=row + 1,
        )
    source, target = pairs[pairs[:, 0] != pairs[:, 1]].T
    return distinct(torch.stack([source, target]))
