"""All the views of a graph, checked against a matrix."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from edgewise import ArgumentError
from edgewise.graphs import Graph, Runs
from tests.graphs.specification import Spec, from_pairs


def check(spec: Spec, targets: int, sources: int, *, copies: bool = False) -> None:
    """The graph shows this matrix in every view, or cannot bind where there is none."""
    matrix = spec.matrix(targets, sources)
    if matrix is None:
        with pytest.raises(ArgumentError):
            spec.bind(targets, sources)
        return
    check_graph(spec.bind(targets, sources), matrix, copies=copies)


def check_graph(graph: Graph, matrix: Tensor, *, copies: bool = False) -> None:
    assert (graph.num_targets, graph.num_sources) == tuple(matrix.shape)
    check_listed(graph, matrix, copies=copies)
    check_asked(graph, matrix)
    check_parts(graph)
    check_segments(graph)
    turned = graph.transpose()
    assert (turned.num_targets, turned.num_sources) == tuple(matrix.T.shape)
    assert turned.dense().equal(matrix.T)
    assert turned.edge_index.equal(graph.edge_index.flip(0))
    check_segments(turned)


def check_listed(graph: Graph, matrix: Tensor, *, copies: bool) -> None:
    edge_index, counts = graph.edge_index, from_pairs(graph)
    assert edge_index.dtype == torch.long
    assert edge_index.shape == (2, graph.num_edges)
    assert (counts > 0).equal(matrix)
    assert counts.sum() == graph.num_edges
    assert graph.has_duplicates == bool((counts > 1).any())
    assert copies or not graph.has_duplicates
    assert graph.in_degree().equal(counts.sum(1))
    assert graph.out_degree().equal(counts.sum(0))
    assert graph.source.equal(edge_index[0])
    assert graph.target.equal(edge_index[1])


def check_asked(graph: Graph, matrix: Tensor) -> None:
    dense = graph.dense()
    assert dense.dtype == torch.bool
    assert dense.equal(matrix)
    source, target = torch.arange(graph.num_sources), torch.arange(graph.num_targets)
    assert graph.contains(source[:, None], target).equal(matrix.T)
    assert graph.contains(*graph.edge_index).all()


def check_parts(graph: Graph) -> None:
    parts = graph.parts
    assert torch.cat([part.edge_index for part in parts], dim=1).equal(graph.edge_index)
    assert sum(part.dense().long() for part in parts).equal(graph.dense().long())  # disjoint
    for part in parts:
        assert part.parts == (part,)
        if isinstance(part, Runs):
            assert (part.row * (part.num_sources + 1) + part.start).diff().gt(0).all()
        check_segments(part)


def check_segments(graph: Graph) -> None:
    if graph.segments is None:
        return
    target_sizes, source_sizes = graph.segments
    assert target_sizes.sum() == graph.num_targets
    assert source_sizes.sum() == graph.num_sources
    rows, columns = ([0, *sizes.cumsum(0).tolist()] for sizes in graph.segments)
    outside = graph.dense()
    for (top, bottom), (left, right) in zip(pairwise(rows), pairwise(columns), strict=True):
        outside[top:bottom, left:right] = False
    assert not outside.any()
