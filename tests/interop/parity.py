"""Where a drop-in must agree with PyG's layer: arguments, graphs, and how to compare."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as theirs

import edgewise.interop.pyg as ours

IN, IN_TARGET, EDGE = 5, 3, 4
LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}


@dataclass(frozen=True)
class Case:
    """One way to build and call a layer."""

    layer: str
    arguments: dict[str, Any] = field(default_factory=dict)
    edges: int | None = None  # width of edge features; 0: one number an edge, as a vector
    bipartite: bool = True
    types: int | None = None  # number of edge types, given as edge_type

    def __str__(self) -> str:
        shown = [f"{name}={value}" for name, value in self.arguments.items()]
        edges = [] if self.edges is None else [f"edges={self.edges}"]
        return ",".join([self.layer, *shown, *edges])

    def build(self, library: Any, width: int | tuple[int, int]) -> nn.Module:
        """The layer of this library."""
        make = getattr(library, self.layer)
        wide = width if isinstance(width, int) else width[0]
        if self.layer in ("GINConv", "GINEConv"):
            network = nn.Sequential(nn.Linear(wide, 6), nn.Tanh(), nn.Linear(6, 2))
            return make(network, **self.arguments)
        if self.layer == "GPSConv":
            return make(wide, library.SAGEConv(wide, wide), **self.arguments)
        if self.layer in ("RGCNConv", "RGATConv"):
            return make(width, 2, self.types, **self.arguments)
        if self.layer == "FiLMConv":
            return make(width, 2, self.types or 1, **self.arguments)
        return make(width, 2, **self.arguments)


def _attention(layer: str, **edge: Any) -> list[Case]:
    plain = [{}, {"heads": 3, "concat": False, "bias": False}]
    return [Case(layer, arguments) for arguments in plain] + [
        Case(layer, {"heads": 2, "edge_dim": EDGE} | edge, EDGE)
    ]


def _with_loops(layer: str) -> list[Case]:
    fills: list[Any] = ["mean", "add", "max", "min", "mul", 0.5, torch.arange(4.0)]
    return [
        *_attention(layer, fill_value="mean"),
        *(Case(layer, {"edge_dim": EDGE, "fill_value": fill}, EDGE) for fill in fills[1:]),
        Case(layer, {"edge_dim": 1, "heads": 2, "fill_value": "mean"}, 0),
        Case(layer, {"heads": 2, "add_self_loops": False, "residual": True}),
        Case(layer, {"heads": 2, "concat": False, "residual": True, "negative_slope": 0.7}),
    ]


CASES = [
    Case("GCNConv", bipartite=False),
    Case("GCNConv", edges=0, bipartite=False),
    Case("GCNConv", {"improved": True}, edges=0, bipartite=False),
    Case("GCNConv", {"improved": True, "bias": False}, bipartite=False),
    Case("GCNConv", {"add_self_loops": False}, edges=0, bipartite=False),
    Case("GCNConv", {"normalize": False}, edges=0, bipartite=False),
    Case("GCNConv", {"normalize": False, "aggr": "max"}, bipartite=False),
    *(Case("SAGEConv", {"aggr": aggr}) for aggr in ("mean", "sum", "add", "max", "min")),
    Case("SAGEConv", {"project": True, "normalize": True}),
    Case("SAGEConv", {"root_weight": False, "bias": False}),
    Case("GINConv"),
    Case("GINConv", {"eps": 0.3, "train_eps": True, "aggr": "mean"}),
    *_with_loops("GATConv"),
    *_with_loops("GATv2Conv"),
    Case("GATv2Conv", {"heads": 2, "share_weights": True}, bipartite=False),
    *_attention("TransformerConv"),
    Case("TransformerConv", {"heads": 2, "beta": True, "edge_dim": EDGE}, EDGE),
    Case("TransformerConv", {"heads": 2, "beta": True, "concat": False}),
    Case("TransformerConv", {"heads": 2, "root_weight": False}),
    *(
        Case("GMMConv", {"dim": EDGE, "kernel_size": 3, "aggr": aggr}, EDGE)
        for aggr in ("mean", "add", "max")
    ),
    Case("GMMConv", {"dim": EDGE, "kernel_size": 2, "separate_gaussians": True}, EDGE),
]


STATISTICS = ["mean", "max", "min", "std"]
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]


def _pna(edges: int | None = None, statistics: Sequence[str] = STATISTICS, **more: Any) -> Case:
    degrees = {"scalers": SCALERS, "deg": torch.tensor([1, 3, 4, 2])}
    more |= {"edge_dim": edges} if edges else {}
    return Case("PNAConv", {"aggregators": [*statistics], **degrees, **more}, edges, False)


ADDITIVE, MULTIPLICATIVE = "additive-self-attention", "multiplicative-self-attention"
RELATIONAL = [
    Case("RGCNConv", types=3),
    Case("RGCNConv", {"num_bases": 2, "aggr": "max", "root_weight": False}, types=3),
    Case("RGCNConv", {"aggr": "sum", "bias": False}, types=1),
    Case("FiLMConv", types=3),
    Case("FiLMConv", {"aggr": "max", "act": None}, types=2),
    Case("FiLMConv", {"aggr": "add"}),
    Case("RGATConv", bipartite=False, types=3),
    Case(
        "RGATConv",
        {"heads": 2, "num_bases": 2, "mod": "additive", "attention_mechanism": "within-relation"},
        bipartite=False,
        types=3,
    ),
    *(
        Case("RGATConv", {"heads": 2, "dim": 3, "mod": mod, **mode, **more}, None, False, 2)
        for mode in [{"attention_mode": MULTIPLICATIVE}]
        for mod, more in [
            ("scaled", {"concat": False}),
            ("additive", {"bias": False}),
            ("f-additive", {}),
            ("f-scaled", {"attention_mechanism": "within-relation"}),
        ]
    ),
    Case("RGATConv", {"heads": 2, "mod": "scaled", "concat": False}, bipartite=False, types=2),
]
NEWER = [
    Case("GINEConv", edges=IN),
    Case("GINEConv", {"edge_dim": EDGE, "train_eps": True, "aggr": "max"}, EDGE),
    *RELATIONAL,
    _pna(),
    _pna(EDGE, ["sum", "var", "min"], pre_layers=2, post_layers=2),
    _pna(EDGE, ["min", "mean"], towers=2),
    Case("SuperGATConv", {"heads": 2}, bipartite=False),
    Case("SuperGATConv", {"heads": 2, "attention_type": "SD", "concat": False}, bipartite=False),
    Case("GPSConv", {"heads": 5}, bipartite=False),
    Case("GPSConv", {"norm": None, "attn_kwargs": {"bias": False}}, bipartite=False),
]
CASES += NEWER


def pairs(sources: int, targets: int, count: int) -> Tensor:
    return torch.stack([torch.randint(sources, (count,)), torch.randint(targets, (count,))])


def _square(edit: Callable[[Tensor], Tensor]) -> tuple[Tensor, int, int]:
    distinct = torch.randperm(81)[:30]
    index = torch.stack([distinct % 9, distinct // 9])
    return edit(index[:, index[0] != index[1]]), 9, 9


GRAPHS: dict[str, Callable[[], tuple[Tensor, int, int]]] = {
    "random": lambda: _square(lambda index: index),
    "bipartite": lambda: (pairs(7, 5, 20), 7, 5),
    "bipartite_more_targets": lambda: (pairs(4, 8, 20), 4, 8),
    "multi_edge": lambda: _square(lambda index: torch.cat([index, index[:, :9]], dim=1)),
    "isolated_node": lambda: (pairs(6, 6, 18), 9, 9),
    "self_loops": lambda: _square(
        lambda index: torch.cat([index, torch.arange(4).expand(2, -1)], 1)
    ),
    "no_edges": lambda: (torch.empty(2, 0, dtype=torch.long), 4, 4),
}


def inputs(case: Case, graph: str, dtype: torch.dtype) -> tuple[Any, Tensor, Tensor | None]:
    """Features, edge_index and edge features of one call; all features require gradients."""
    index, sources, targets = GRAPHS[graph]()
    x: Any = torch.randn(sources, IN, dtype=dtype, requires_grad=True)
    if graph.startswith("bipartite"):
        same = case.layer in ("GINConv", "GINEConv")
        wide = IN if same else IN_TARGET
        x = (x, torch.randn(targets, wide, dtype=dtype, requires_grad=True))
    if case.types:
        return x, index, torch.randint(case.types, (index.shape[1],))
    if case.edges is None:
        return x, index, None
    shape = (index.shape[1], case.edges) if case.edges else (index.shape[1],)
    weight = torch.rand(shape, dtype=dtype) + 0.1
    return x, index, weight.requires_grad_()


def twins(case: Case, graph: str, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """PyG's layer and ours with its state dict, loaded strictly."""
    width = (IN, IN_TARGET) if graph.startswith("bipartite") else IN
    other = case.build(theirs, width).to(dtype)
    for parameter in other.parameters():  # biases begin as zeros
        nn.init.uniform_(parameter, -0.8, 0.8)
    mine = case.build(ours, width).to(dtype)
    mine.load_state_dict(copy.deepcopy(other.state_dict()), strict=True)
    return mine, other


def gradients(layer: nn.Module, out: Tensor, given: list[Tensor], probe: Tensor) -> list[Tensor]:
    """Of all inputs and parameters, zero where one does not take part."""
    wanted = [*given, *layer.parameters()]
    found = torch.autograd.grad((out * probe).sum(), wanted, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]


def tensors(x: Any, edge: Tensor | None) -> list[Tensor]:
    inputs = [*(x if isinstance(x, tuple) else (x,)), edge]
    return [tensor for tensor in inputs if tensor is not None and tensor.is_floating_point()]


def assert_same(mine: Tensor, other: Tensor, what: str = "") -> None:
    torch.testing.assert_close(
        mine, other, rtol=0, atol=LIMITS[other.dtype], msg=lambda m: what + m
    )
