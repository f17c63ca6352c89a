"""Problems to measure: a graph, tensors, and a function for each implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines.rows.layout import RowsLayout

Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Problem:
    """Operation to measure, and the size and kind of its graph."""

    operation: str  # transformer, gatv2, gat, gcn, sage, layer, molecules
    nodes: int = 25_000
    degree: int = 16
    kind: str = "uniform"  # or power law
    heads: int = 8
    width: int = 16
    peers: tuple[str, ...] = ("pyg",)

    @property
    def name(self) -> str:
        size = f"{self.heads}x{self.width}"
        return f"{self.operation}, {self.kind}, n={self.nodes:,}, degree {self.degree}, {size}"


@dataclass
class Built:
    """Functions by name of the implementation, and the tensors that get gradients."""

    runs: dict[str, Run]
    leaves: tuple[Tensor, ...]
    edges: int
    gathered: int  # Number of bytes that a forward pass must gather.
    prepare: Callable[[], object]  # Sorts the edges of a new graph.


def edge_index(problem: Problem) -> Tensor:
    """Return random edges in random order; the degrees are uniform or follow a power law."""
    nodes, edges = problem.nodes, problem.nodes * problem.degree
    if problem.kind == "uniform":
        return torch.randint(nodes, (2, edges))
    rank = torch.rand(2, edges, dtype=torch.float32).pow(3).mul(nodes).long().clamp(max=nodes - 1)
    return torch.randperm(nodes)[rank]


def molecules(problem: Problem) -> tuple[Tensor, list[int]]:
    """Return the edges and sizes of ``problem.nodes`` random graphs of 10 to 30 atoms.

    Each is a chain with a few rings, with edges in both directions.
    """
    sizes = torch.randint(10, 31, (problem.nodes,)).tolist()
    pieces, start = [], 0
    for size in sizes:
        chain = torch.arange(start, start + size - 1)
        ring = torch.randint(start, start + size, (2, 3))
        pair = torch.cat([torch.stack([chain, chain + 1]), ring], 1)
        pair = pair[:, pair[0] != pair[1]]
        pieces.append(torch.cat([pair, pair.flip(0)], 1))
        start += size
    return torch.cat(pieces, 1).unique(dim=1), sizes


def build(problem: Problem) -> Built:
    """Return the tensors and implementations of a problem, made with a fixed random seed."""
    torch.manual_seed(0)
    sizes: list[int] = []
    if problem.operation == "molecules":
        index, sizes = molecules(problem)
        nodes = sum(sizes)
    else:
        index, nodes = edge_index(problem), problem.nodes
    heads, width = problem.heads, problem.width
    graph = graphs.edges(index, nodes)
    q, k, v = (torch.randn(nodes, heads, width).requires_grad_() for _ in range(3))
    make = {"gatv2": _gatv2, "gat": _gat, "gcn": _gcn, "sage": _sage, "layer": _layer}
    runs, leaves = make.get(problem.operation, _transformer)(index, graph, q, k, v)
    for peer in problem.peers:
        if peer == "compiled":
            runs["compiled"] = torch.compile(runs["pyg"], dynamic=False)
        if peer == "padded":
            runs["padded"] = _padded(index, sizes, q, k, v)
    per_edge = {"gatv2": 1, "gcn": 1, "sage": 1, "gat": 1 + 1 / width}.get(problem.operation, 2)
    gathered = int(q.element_size() * per_edge * heads * width * index.shape[1])

    def prepare() -> object:
        return RowsLayout(index[0], index[1], nodes, nodes).by_source

    return Built(
        {name: runs[name] for name in ("edgewise", *problem.peers)},
        leaves,
        index.shape[1],
        gathered,
        prepare,
    )


def _transformer(
    index: Tensor, graph: graphs.Graph, q: Tensor, k: Tensor, v: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    from torch_geometric.nn import TransformerConv

    heads, width = q.shape[1:]
    conv = TransformerConv(heads * width, width, heads)
    runs: dict[str, Run] = {
        "edgewise": lambda: ew.attend(q, k, v, graph, engine="rows"),
        "pyg": lambda: conv.propagate(index, query=q, key=k, value=v, edge_attr=None),
    }
    return runs, (q, k, v)


def _gatv2(
    index: Tensor, graph: graphs.Graph, q: Tensor, k: Tensor, _: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    from torch_geometric.nn import GATv2Conv

    heads, width = q.shape[1:]
    conv = GATv2Conv(heads * width, width, heads)

    def theirs() -> Tensor:
        alpha = conv.edge_updater(index, x=(k, q), edge_attr=None)
        return conv.propagate(index, x=(k, q), alpha=alpha)

    def ours() -> Tensor:
        return ew.attend(q, k, k, graph, score=ew.Additive(weight=conv.att[0]), engine="rows")

    return {"edgewise": ours, "pyg": theirs}, (q, k, conv.att)


def _gat(
    index: Tensor, graph: graphs.Graph, q: Tensor, k: Tensor, v: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    from torch_geometric.nn import GATConv

    heads, width = q.shape[1:]
    conv = GATConv(heads * width, width, heads)
    target, source = (x.detach()[..., :1].clone().requires_grad_() for x in (q, k))

    def theirs() -> Tensor:
        ends = (source[..., 0], target[..., 0])
        alpha = conv.edge_updater(index, alpha=ends, edge_attr=None)
        return conv.propagate(index, x=(v, v), alpha=alpha)

    def ours() -> Tensor:
        return ew.attend(target, source, v, graph, score=ew.Additive(), engine="rows")

    return {"edgewise": ours, "pyg": theirs}, (target, source, v)


def _gcn(
    index: Tensor, graph: graphs.Graph, q: Tensor, _k: Tensor, _v: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    from torch_geometric.nn import GCNConv

    x = q.detach().flatten(1).requires_grad_()
    conv, weight = GCNConv(x.shape[1], x.shape[1]), torch.rand(index.shape[1])
    runs: dict[str, Run] = {
        "edgewise": lambda: ew.aggregate(x, graph, weight=weight, engine="rows"),
        "pyg": lambda: conv.propagate(index, x=x, edge_weight=weight),
    }
    return runs, (x,)


def _sage(
    index: Tensor, graph: graphs.Graph, q: Tensor, _k: Tensor, _v: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    from torch_geometric.nn import SAGEConv

    x = q.detach().flatten(1).requires_grad_()
    conv = SAGEConv(x.shape[1], x.shape[1])
    runs: dict[str, Run] = {
        "edgewise": lambda: ew.aggregate(x, graph, reduce="mean", engine="rows"),
        "pyg": lambda: conv.propagate(index, x=(x, x), size=None),
    }
    return runs, (x,)


def _layer(
    index: Tensor, graph: graphs.Graph, q: Tensor, _k: Tensor, _v: Tensor
) -> tuple[dict[str, Run], tuple[Tensor, ...]]:
    """Return an attention layer with projections of query, key and value and of the skip branch."""
    from torch_geometric.nn import TransformerConv

    heads, width = q.shape[1:]
    x = q.detach().flatten(1).requires_grad_()
    conv = TransformerConv(heads * width, width, heads)

    def ours() -> Tensor:
        query_and_key = [
            layer(x).view(-1, heads, width) for layer in (conv.lin_query, conv.lin_key)
        ]
        value = conv.lin_value(x).view(-1, heads, width)
        out = ew.attend(*query_and_key, value, graph, engine="rows").flatten(1)
        return out + conv.lin_skip(x)

    return {"edgewise": ours, "pyg": lambda: conv(x, index)}, (x, *conv.parameters())


def _padded(index: Tensor, sizes: list[int], q: Tensor, k: Tensor, v: Tensor) -> Run:
    """Return ``scaled_dot_product_attention`` on padded graphs, with their edges as the mask."""
    count, longest = len(sizes), max(sizes)
    length = torch.tensor(sizes)
    first = (length.cumsum(0) - length).repeat_interleave(length)
    member = torch.arange(count).repeat_interleave(length)
    position = member * longest + torch.arange(len(member)) - first
    mask = torch.zeros(count, longest, longest, dtype=torch.bool)
    mask.view(-1)[position[index[1]] * longest + position[index[0]] % longest] = True
    # Let each padding token attend to itself, because the softmax of an empty row is NaN.
    mask[:, torch.arange(longest), torch.arange(longest)] |= ~mask.any(-1)

    def pad(x: Tensor) -> Tensor:
        padded = x.new_zeros(count * longest, *x.shape[1:]).index_copy(0, position, x)
        return padded.view(count, longest, *x.shape[1:]).transpose(1, 2)

    def run() -> Tensor:
        out = torch.nn.functional.scaled_dot_product_attention(
            pad(q), pad(k), pad(v), attn_mask=mask[:, None]
        )
        return out.transpose(1, 2).flatten(0, 1)[position]

    return run


PROBLEMS = (
    Problem("transformer", peers=("pyg", "compiled")),
    Problem("gatv2", peers=("pyg", "compiled")),
    Problem("gat", peers=("pyg", "compiled")),
    Problem("gcn"),
    Problem("sage"),
    Problem("layer"),
    Problem("transformer", kind="power law"),
    Problem("gatv2", kind="power law"),
    Problem("transformer", nodes=20_000, degree=50),
    Problem("gatv2", nodes=20_000, degree=50),
    Problem("transformer", nodes=400_000, degree=16, width=8),
    Problem("gatv2", nodes=400_000, degree=16, width=8),
    Problem("transformer", nodes=400_000, degree=6),
    Problem("gcn", nodes=400_000, degree=6),
    Problem("molecules", nodes=2_000, degree=2, peers=("pyg", "padded")),
)
