"""Reader of graphs in the text format of TU Dortmund, for public and user data sets.

PyTorch Geometric's ``read_tu_data`` returns the same tensors (a test compares them), but discards
the original values of node and class labels, which predictions need, and names neither file nor
line of a damaged file. The files are text; nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.ragged import boundaries
from edgewise.app.files.files import unreadable
from edgewise.app.files.reading import check_line_count, read_lines, read_numbers
from edgewise.app.train.edge_splits import distinct

REQUIRED = ("A", "graph_indicator", "graph_labels")


class GraphFiles(NamedTuple):
    """G graphs with N nodes and E edges in total: edges ``[2, E]``, whose nodes are counted from 0
    in each graph; starts ``[G + 1]``; node labels ``[N, L]`` and attributes ``[N, A]``; class
    ``[G]`` and its text in the file.
    """

    edge_index: Tensor
    node_start: Tensor
    edge_start: Tensor
    labels: Tensor
    attributes: Tensor
    classes: Tensor
    class_names: dict[int, str]


def read_graph_files(raw: Path, name: str, *, labelled: bool = True) -> GraphFiles:
    """Read ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and the optional files of the format."""
    a, indicator, graph_labels, node_labels, node_attributes = (
        raw / f"{name}_{suffix}.txt" for suffix in (*REQUIRED, "node_labels", "node_attributes")
    )
    classes, class_names = torch.empty(0, 1, dtype=torch.long), {}
    if labelled:
        classes = read_numbers(graph_labels, integers=True)
        class_names = _class_names(graph_labels, classes[:, 0].tolist())
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
    classes = classes[:, 0]
    return GraphFiles(inside, node_start, edge_start, labels, attributes, classes, class_names)


def _class_names(path: Path, classes: Sequence[int]) -> dict[int, str]:
    """Return the text of each class; ArgumentError if one is written in two ways, such as 7 and
    007.
    """
    names: dict[int, str] = {}
    for line, (index, text) in enumerate(zip(classes, read_lines(path), strict=True), 1):
        name = text.partition(",")[0].strip()
        if names.setdefault(index, name) != name:
            got = f"{name!r}, and {names[index]!r} in an earlier line"
            raise unreadable(path, expected="one spelling of each class", got=got, line=line)
    return names


def _members(path: Path) -> Tensor:
    """Read the graph index of each node, ``[N]``; the nodes of a graph must be consecutive."""
    member = read_numbers(path, integers=True)[:, 0] - 1
    step = member.diff(prepend=torch.tensor([-1]))
    wrong = ((step < 0) | (step > 1) | (member < 0)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise unreadable(
            path,
            expected="graph numbers from 1 without gaps, in ascending order",
            got=f"graph {int(member[row]) + 1} after graph {int(member[row] - step[row]) + 1}",
            line=row + 1,
        )
    return member


def _edges(path: Path, member: Tensor) -> Tensor:
    """Read the distinct edges ``[2, E]``, sorted, without self-loops; each is within one graph."""
    pairs = read_numbers(path, integers=True) - 1
    nodes = len(member)
    outside = (pairs.shape[1] != 2) | (pairs < 0).any(1) | (pairs >= nodes).any(1)
    if not outside.any():
        outside = member[pairs[:, 0]] != member[pairs[:, 1]]
    if outside.any():
        row = int(outside.nonzero()[0])
        raise unreadable(
            path,
            expected=f"two nodes of the same graph in each line, from 1 to {nodes}",
            got=", ".join(str(end + 1) for end in pairs[row].tolist()),
            line=row + 1,
        )
    source, target = pairs[pairs[:, 0] != pairs[:, 1]].T
    return distinct(torch.stack([source, target]))
