"""Layers for typed graphs: matrices by type, sums over relations, attention over relations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import segment_index
from edgewise.attention.attend import Reduce, aggregate, attend
from edgewise.attention.biases import TableBias
from edgewise.attention.hooks import Nodes, is_intercepted, nodes_are, without_interception
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.graphs.typed import TypedGraph, source_pairs, target_pairs
from edgewise.layers.sequential import GraphLayer
from edgewise.layers.sparse import Linear, check_node_features


def grouped_matmul(x: Tensor, sizes: Sequence[int], weight: Tensor) -> Tensor:
    """Multiply consecutive groups of rows, each by the matrix of its group.

    x is ``[P, F]`` and ``weight`` ``[R, F, F']``, or ``[P, H, F]`` and ``[R, H, F, F']`` for a
    matrix of each head. Group r has ``sizes[r]`` rows; the groups after the last size are empty.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> weight = torch.tensor([[[1.0], [1.0]], [[2.0], [2.0]]])
        >>> layers.grouped_matmul(torch.ones(3, 2), [1, 2], weight)
        tensor([[2.],
                [4.],
                [4.]])
    """
    sizes = [*sizes, *[0] * (len(weight) - len(sizes))]
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        x, weight = x.to(dtype), weight.to(dtype)
    if torch.compiler.is_compiling():
        return torch.cat(_products(x.split(sizes), weight))
    out: Tensor = _GroupedMatmul.apply(x, weight, tuple(sizes))  # type: ignore[no-untyped-call]
    return out


def _products(groups: Sequence[Tensor], weight: Tensor) -> list[Tensor]:
    return [_by_head(rows) @ matrix if weight.dim() == 3 else _by_head(_by_head(rows) @ matrix)
            for rows, matrix in zip(groups, weight, strict=True)]  # fmt: skip


def _by_head(x: Tensor) -> Tensor:
    """Exchange rows and heads of ``[P, H, F]``; return ``[P, F]`` as it is."""
    return x.transpose(0, 1) if x.dim() == 3 else x


class _GroupedMatmul(torch.autograd.Function):
    """Products that are written to one tensor. ``torch.cat`` would copy them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sizes = sizes
        out = x.new_empty(*x.shape[:-1], weight.shape[-1])
        for rows, matrix, product in zip(x.split(sizes), weight, out.split(sizes), strict=True):
            torch.matmul(_by_head(rows), matrix, out=_by_head(product))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        x_grad = weight_grad = None
        if ctx.needs_input_grad[0]:
            x_grad = grouped_matmul(grad, ctx.sizes, weight.mT)
        if ctx.needs_input_grad[1]:
            groups = zip(x.split(ctx.sizes), grad.split(ctx.sizes), strict=True)
            weight_grad = torch.stack([_by_head(a).mT @ _by_head(b) for a, b in groups])
        return x_grad, weight_grad, None


def glorot_(weight: Tensor) -> None:
    """Fill matrices ``[..., F, F']`` with uniform random numbers by Glorot and Bengio (2010).

    ``nn.init.xavier_uniform_`` would take the other dimensions for a kernel of a convolution.
    """
    bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
    nn.init.uniform_(weight, -bound, bound)


class TypedLinear(nn.Module):
    r"""Linear map for each node type, :math:`y_i = W_{t(i)} x_i + b_{t(i)}`.

    Args:
        types: number of node types.
        in_width: feature size of the input.
        out_width: feature size of the output.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> graph = graphs.typed({("a", "to", "b"): torch.tensor([[0], [1]])}, {"a": 1, "b": 2})
        >>> layers.TypedLinear(2, 16, 8)(torch.randn(3, 16), graph).shape
        torch.Size([3, 8])
    """

    def __init__(self, types: int, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(types, in_width, out_width))
        self.bias = nn.Parameter(torch.empty(types, out_width))
        bound = 1 / math.sqrt(max(in_width, 1))  # The bound of nn.Linear.
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return ``[..., N, out_width]``; with several types, x is ``[N, in_width]``."""
        check_node_features(x, self.weight.shape[1], like=self.weight)
        types = len(self.weight)
        if types == 1:
            return x @ self.weight[0] + self.bias[0]
        check_unbatched(x)
        order, sizes = typed_graph(graph, types=types).derived(_nodes_by_type)
        rows = grouped_matmul(x if order is None else x[order], sizes, self.weight)
        if order is not None:
            rows = rows[order.argsort()]
        return rows + self.bias[graph.node_type]  # type: ignore[attr-defined]


class TypedInput(GraphLayer):
    """Input map :math:`ReLU(W x_i + b_{t(i)})`, with a bias for each node type.

    Args:
        in_width: feature size of the input.
        width: feature size of the output.
        node_types: number of node types; with 1, any graph will do.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> graph = graphs.typed({("a", "to", "b"): torch.tensor([[0], [1]])}, {"a": 1, "b": 2})
        >>> layers.TypedInput(16, 8, 2)(torch.randn(3, 16), graph).shape
        torch.Size([3, 8])
    """

    reach = 0

    def __init__(self, in_width: int, width: int, node_types: int) -> None:
        super().__init__()
        self.linear = Linear(in_width, width)
        self.type_bias = nn.Parameter(torch.zeros(node_types, width)) if node_types > 1 else None
        self.node_types = node_types

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        out: Tensor = self.linear(x)
        if self.type_bias is not None:
            bound = bind_to_nodes(graph, x)
            out = out + self.type_bias[typed_graph(bound, types=self.node_types).node_type]
        return out.relu()


def _nodes_by_type(graph: Graph) -> tuple[Tensor | None, list[int]]:
    """Return the nodes sorted by type, or None if they are sorted, and the counts of the types."""
    assert isinstance(graph, TypedGraph)
    types = graph.node_type
    is_sorted = bool((types.diff() >= 0).all())
    order = None if is_sorted else types.argsort(stable=True)
    return order, types.bincount(minlength=len(graph.node_types)).tolist()


def typed_graph(
    graph: Graph, *, relations: int | None = None, types: int | None = None
) -> TypedGraph:
    """Return the graph if it has types, not more than a model has weights for (None: not checked).

    Raises:
        ArgumentError: the graph has no types, or more relations or node types than these numbers.
    """
    if not isinstance(graph, TypedGraph):
        raise ArgumentError(
            "graph",
            expected="a graph with types of edges and nodes",
            got=repr(graph),
            remedy="create it with graphs.typed or graphs.from_hetero_data",
        )
    counts = {"relation": len(graph.relations), "node type": len(graph.node_types)}
    for noun, limit in (("relation", relations), ("node type", types)):
        if limit is not None and counts[noun] > limit:
            raise ArgumentError(
                "graph",
                expected=f"at most {counted(limit, noun)}, as in the model",
                got=counted(counts[noun], noun),
                remedy="build the model with relations=len(graph.relations) and "
                "node_types=len(graph.node_types)",
            )
    return graph


def check_unbatched(x: Tensor) -> None:
    """Raise ArgumentError unless x is ``[N, F]``, as several relations or node types need."""
    if x.dim() != 2:
        raise ArgumentError(
            "x",
            expected="features [N, F] without a batch, for several relations or node types",
            got=describe(x),
            remedy="call the model for each element of the batch; only a model with one relation "
            "and one node type may have a batch",
        )


def sum_relations(x: Tensor, graph: TypedGraph, weight: Tensor, reduce: Reduce) -> Tensor:
    r"""Return :math:`\sum_r W_r \bigoplus_{j \in N_r(i)} x_j`, ``[N_dst, F']``.

    x is ``[N_src, F]`` and ``weight`` ``[R, F, F']``. Only pairs of a relation and a target with an
    edge are stored and mapped.
    """
    pairs, by_target, summed = graph.derived(target_pairs)
    sizes = graph.num_targets, graph.num_sources
    with nodes_are(lambda: Nodes(sizes, target=pairs.node)):
        reduced = aggregate(x, by_target, reduce=reduce)
    mapped = grouped_matmul(reduced, pairs.sizes, weight)
    # These edges join a target with itself, not with a neighbour.
    with without_interception() if is_intercepted() else nullcontext():
        return aggregate(mapped, summed)


def attend_relations(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: TypedGraph,
    *,
    key_weight: Tensor,
    value_weight: Tensor,
    priority: Tensor,
) -> Tensor:
    r"""Return attention with keys and values that are mapped by relation, ``[N_dst, H, D]``.

    The score of an edge of relation r is :math:`p_r\, q_i^\top W_r k_j / \sqrt D`, its value
    :math:`M_r v_j` (Hu et al., 2020). ``key_weight`` and ``value_weight`` are ``[R, H, D, D]``,
    ``priority`` ``[R, H]``. A source is mapped once for each relation with edges from it.
    """
    pairs, _ = graph.derived(source_pairs)
    # The factor p of the score stands in the map of the keys, because attend with a gain is slower.
    key_weight = key_weight * priority[:, :, None, None]
    key, value = (
        grouped_matmul(rows[pairs.node], pairs.sizes, weight)
        for rows, weight in ((key, key_weight), (value, value_weight))
    )
    return _attend_pairs(query, key, value, graph)


def attend_relation_vectors(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: TypedGraph,
    *,
    key_vector: Tensor,
    value_vector: Tensor,
    bias: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    r"""Return attention with vectors that are added to keys and values by relation, ``[N_dst, H,
    D]``.

    The score of an edge of relation r is :math:`q_i^\top (k_j + a_r) / \sqrt D + b_r`, its value
    :math:`v_j + c_r`. ``key_vector`` a and ``value_vector`` c are ``[R, H, D]``, ``bias`` b is
    ``[R, H]``. They are added once for each pair of a relation and a source.
    """
    pairs, _ = graph.derived(source_pairs)
    sizes = torch.tensor(pairs.sizes, device=pairs.node.device)
    relation = segment_index(sizes, len(pairs.node))
    key, value = (
        rows[pairs.node] + vector[relation]
        for rows, vector in ((key, key_vector), (value, value_vector))
    )
    table = TableBias(graph.edge_type, bias)
    return _attend_pairs(query, key, value, graph, bias=table, dropout=dropout)


def _attend_pairs(
    query: Tensor, key: Tensor, value: Tensor, graph: TypedGraph, **options: Any
) -> Tensor:
    """Return attention with keys and values of the pairs of a relation and a source."""
    pairs, by_pair = graph.derived(source_pairs)
    with nodes_are(lambda: Nodes((graph.num_targets, graph.num_sources), source=pairs.node)):
        return attend(query, key, value, by_pair, **options)
