"""Valid and invalid inputs of PyG's layers, by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from tests.interop.parity import EDGE, IN, IN_TARGET, Case

NODES = 6
Call = dict[str, Any]

ATTENTION = ("GATConv", "GATv2Conv", "TransformerConv")
NO_LOOPS = {"add_self_loops": False}
BACKWARDS = {"flow": "target_to_source"}
CONFIGURATIONS = [
    Case("GCNConv"),
    Case("GCNConv", NO_LOOPS),
    Case("GCNConv", {"normalize": False, "aggr": "max"}),
    Case("SAGEConv"),
    Case("SAGEConv", {"aggr": "max", "project": True}),
    Case("SAGEConv", BACKWARDS),
    Case("GINConv"),
    Case("GATConv", {"heads": 2}),
    Case("GATConv", {"heads": 2, "edge_dim": EDGE}, EDGE),
    Case("GATConv", {"edge_dim": 1, "residual": True} | NO_LOOPS, 1),
    Case("GATConv", {"heads": 2} | BACKWARDS),
    Case("GATv2Conv", {"heads": 2, "edge_dim": EDGE}, EDGE),
    Case("GATv2Conv", {"heads": 2} | NO_LOOPS),
    Case("TransformerConv", {"heads": 2}),
    Case("TransformerConv", {"heads": 2, "edge_dim": EDGE}, EDGE),
    Case("GMMConv", {"dim": EDGE, "kernel_size": 2}, EDGE),
    Case("GMMConv", {"dim": EDGE, "kernel_size": 2, "separate_gaussians": True}, EDGE),
]
EACH_LAYER = list({case.layer: case for case in reversed(CONFIGURATIONS)}.values())
"""The first configuration of each layer."""


def edge_list(num_edges: int) -> Tensor:
    """The first of nine distinct edges; the last is a self-loop."""
    return torch.tensor([[0, 1, 2, 3, 4, 5, 1, 3, 2], [1, 2, 3, 4, 5, 0, 0, 1, 2]])[:, :num_edges]


def node_inputs() -> dict[str, Any]:
    """Features of the nodes."""
    x = torch.randn(NODES, IN)
    return {
        "x 1-D": x[:, 0],
        "x 3-D": torch.stack([x, x + 1]),
        "x narrow": x[:, :-1],
        "x wide": torch.cat([x, x], dim=1),
        "x integers": x.long(),
        "x float64": x.double(),
        "x bfloat16": x.bfloat16(),
        "x complex": x.to(torch.complex64),
        "x list": x.tolist(),
        "x NumPy": x.numpy(),
        "x None": None,
        "x sparse": x.to_sparse_csr(),
        "x too few rows": x[:4],
        "x too many rows": torch.cat([x, x]),
        "x pair": (x, x + 1),
        "x pair in a list": [x, x + 1],
        "x pair of two widths": (x, x[:, :IN_TARGET]),
        "x pair of two dtypes": (x, x.double()),
        "x pair of 3-D": (torch.stack([x, x]), torch.stack([x, x])),
        "x sources alone": (x, None),
        "x targets alone": (None, x),
        "x of one": (x,),
        "x of three": (x, x, x),
    }


def pairs_of_two_sizes() -> dict[str, Any]:
    """Features of two sets of nodes; PyG mixes up their sizes if flow is "target_to_source"."""
    x = torch.randn(NODES, IN)
    return {"x fewer targets": (x, x[:4]), "x more targets": (x, torch.cat([x, x]))}


def adjacency_inputs(num_edges: int) -> dict[str, Any]:
    """Edges in other forms than a list of int64."""
    index = edge_list(num_edges)
    values = torch.rand(num_edges) + 0.5
    size = (NODES, NODES)
    matrix = torch.sparse_coo_tensor(index.flip(0), values, size, check_invariants=True).coalesce()

    def with_values(entries: Tensor, shape: tuple[int, int] = size) -> Tensor:
        shape = (*shape, *entries.shape[1:])
        return torch.sparse_coo_tensor(matrix.indices(), entries, shape).coalesce()

    by_target = index[:, index[1].argsort(stable=True)]
    changed = {}
    for name, row, node in (
        ("source", 0, -1),
        ("target", 1, -1),
        ("source", 0, 6),
        ("target", 1, 6),
    ):
        changed[f"{name} {node}"] = index.clone()
        changed[f"{name} {node}"][row, :1] = node
    return {
        **changed,
        "edges float": index.float(),
        "edges int32": index.int(),
        "edges [E, 2]": index.T,
        "edges of three rows": torch.cat([index, index[:1]]),
        "edges of one row": index[:1],
        "edges 3-D": index[None],
        "edges 1-D": index[0],
        "edges list": index.tolist(),
        "edges NumPy": index.numpy(),
        "edges None": None,
        "edges tuple": (index[0], index[1]),
        "edges dense": matrix.to_dense(),
        "edges not contiguous": index.T.contiguous().T,
        "EdgeIndex": EdgeIndex(index, sparse_size=size),
        "EdgeIndex sorted": EdgeIndex(by_target, sparse_size=size, sort_order="col"),
        "EdgeIndex without size": EdgeIndex(index),
        "EdgeIndex of half a size": EdgeIndex(index, sparse_size=(NODES, None)),
        "EdgeIndex of another size": EdgeIndex(index, sparse_size=(NODES + 1, NODES + 1)),
        "EdgeIndex not square": EdgeIndex(index, sparse_size=(NODES, NODES + 1)),
        "COO": matrix,
        "CSR": matrix.to_sparse_csr(),
        "BSR": matrix.to_dense().to_sparse_bsr((2, 2)),
        "COO integers": with_values(torch.ones(num_edges, dtype=torch.long)),
        "CSR float64": matrix.to_sparse_csr().double(),
        "COO [E, 1]": with_values(torch.rand(num_edges, 1)),
        "COO vectors": with_values(torch.rand(num_edges, EDGE)),
        "COO wide vectors": with_values(torch.rand(num_edges, EDGE + 1)),
        "CSR more sources": with_values(values, (NODES, NODES + 1)).to_sparse_csr(),
        "CSR more targets": with_values(values, (NODES + 1, NODES)).to_sparse_csr(),
        "CSR with gradient": matrix.to_sparse_csr().requires_grad_(),
    }


def feature_inputs(num_edges: int) -> dict[str, Any]:
    """Weights or features of the edges."""
    features = torch.rand(num_edges, EDGE) + 0.1
    row, column = features[:, :1], torch.rand(1, EDGE)
    more, fewer = torch.cat([features, column]), features[: max(num_edges - 1, 0)]
    return {
        "edge [E]": row[:, 0],
        "edge [E, 1]": row,
        "edge [1, E]": row.T,
        "edge [E, F]": features,
        "edge not contiguous": features.T.contiguous().T,
        "edge narrow": features[:, :-1],
        "edge wide": torch.cat([features, row], dim=1),
        "edge [E, 0]": features[:, :0],
        "edge [E, 1, F]": features[:, None],
        "edge [1, E, F]": features[None],
        "edge [E, F, 1]": features[..., None],
        "edge [F, E]": features.T,
        "edge too many rows": more,
        "edge too many rows [E + 1]": more[:, 0],
        "edge too many rows [E + 1, 1]": more[:, :1],
        "edge twice": torch.cat([features, features]),
        "edge twice [2E]": torch.cat([row, row])[:, 0],
        "edge too few rows": fewer,
        "edge too few rows [E - 1]": fewer[:, 0],
        "edge and loops": torch.rand(num_edges + NODES),
        "edge one row": column,
        "edge one number [1]": column[0, :1],
        "edge one number [1, 1]": column[:, :1],
        "edge no row": features[:0],
        "edge 0-D": torch.tensor(0.5),
        "edge integers": torch.randint(3, (num_edges, EDGE)),
        "edge integers [E]": torch.randint(3, (num_edges,)),
        "edge Boolean [E]": row[:, 0] > 0.5,
        "edge float64": features.double(),
        "edge float64 [E]": row[:, 0].double(),
        "edge float64 [E, 1]": row.double(),
        "edge float16": features.half(),
        "edge float16 [E]": row[:, 0].half(),
        "edge complex [E]": row[:, 0].to(torch.complex64),
        "edge negative [E]": -row[:, 0],
        "edge zero [E]": 0 * row[:, 0],
        "edge sparse": features.to_sparse(),
        "edge list": features.tolist(),
        "edge number": 0.5,
        "edge None": None,
    }


def sizes() -> dict[str, Any]:
    """The argument ``size`` of the layers that have it."""
    return {
        "size": (NODES, NODES),
        "size list": [NODES, NODES],
        "size fewer targets": (NODES, NODES - 1),
        "size fewer sources": (NODES - 1, NODES),
        "size more targets": (NODES, NODES + 1),
        "size more sources": (NODES + 1, NODES),
        "size of one": (NODES,),
        "size of three": (NODES, NODES, NODES),
        "size number": NODES,
        "size tensor": torch.tensor([NODES, NODES]),
    }


def calls(case: Case, num_edges: int) -> dict[str, Call]:
    """The arguments of each call, by what differs from an ordinary one; the same in each call.

    Without edges, only those of the edge features differ.
    """
    torch.manual_seed(0)
    x, index = torch.randn(NODES, IN), edge_list(num_edges)
    features = {} if case.edges is None else {"edge_attr": torch.rand(num_edges, case.edges)}
    ordinary = {"x": x, "edge_index": index, **features}
    forwards = "flow" not in case.arguments
    inputs = {"ordinary": ordinary}
    if case.layer not in ("SAGEConv", "GINConv"):
        argument = "edge_weight" if case.layer == "GCNConv" else "edge_attr"
        for name, value in feature_inputs(num_edges).items():
            inputs[name] = ordinary | {argument: value}
        matrix = torch.eye(NODES).to_sparse_csr()
        for rows in (NODES, NODES + 1):
            inputs[f"CSR and edge [{rows}]"] = {
                "x": x,
                "edge_index": matrix,
                argument: torch.rand(rows),
            }
    if not num_edges:
        return inputs
    nodes = node_inputs() | (pairs_of_two_sizes() if forwards else {})
    inputs |= {name: ordinary | {"x": value} for name, value in nodes.items()}
    for name, adjacency in adjacency_inputs(num_edges).items():
        inputs[name] = ordinary | {"edge_index": adjacency}
        if features:
            inputs[f"{name} alone"] = {"x": x, "edge_index": adjacency}
        # PyG cannot return the weights as a matrix of the shape of one of vectors.
        if case.layer in ATTENTION and getattr(adjacency, "ndim", 0) < 3:
            inputs[f"{name} and weights"] = inputs[name] | {"return_attention_weights": True}
    if case.layer in ("SAGEConv", "GINConv", "GATConv", "GMMConv") and forwards:
        for name, size in sizes().items():
            inputs[name] = ordinary | {"size": size}
            inputs[f"{name}, sources alone"] = ordinary | {"size": size, "x": (x, None)}
    return inputs


def equivalents(case: Case) -> dict[str, tuple[Call, Call]]:
    """Calls that PyG refuses, miscomputes or that change their input, each with one that it takes.

    PyG has no operator for some integers and layouts, and marks or refuses uncoalesced matrices.
    """
    torch.manual_seed(0)
    x, index = torch.randn(NODES, IN), edge_list(9)
    features = {} if case.edges is None else {"edge_attr": torch.rand(9, case.edges)}
    ordinary = {"x": x, "edge_index": index, **features}
    pairs = {
        f"edges {dtype}": (ordinary | {"edge_index": index.to(dtype)}, ordinary)
        for dtype in (torch.int16, torch.int8, torch.uint8)
    }
    if case.layer == "GATConv":
        for size in ((NODES, None), (None, NODES), (None, None)):
            pairs[f"size {size}"] = (ordinary | {"size": size}, ordinary)
    if "flow" in case.arguments:
        return pairs
    values = torch.rand(12) if case.edges is None else torch.rand(12, case.edges)
    for name, edges in (
        ("unsorted", index.flip(0)),
        ("duplicates", torch.cat([index, index[:, :3]], dim=1).flip(0)),
    ):
        size = (NODES, NODES, *values.shape[1:])
        matrix = torch.sparse_coo_tensor(edges, values[: edges.shape[1]], size)
        layouts = {
            "COO": (matrix, matrix.coalesce()),
            "COO with gradient": (matrix.clone().requires_grad_(), matrix.coalesce()),
        }
        if case.edges is None:
            coalesced = matrix.coalesce()
            layouts["CSC"] = (coalesced.to_sparse_csc(), coalesced.to_sparse_csr())
        for layout, matrices in layouts.items():
            first, second = ({"x": x, "edge_index": form} for form in matrices)
            pairs[f"{layout}, {name}"] = first, second
    return pairs
