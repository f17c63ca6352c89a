"""Command ``edgewise verify``: compare layers of Edgewise with those of other libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.app.cli.output import say
from edgewise.app.cli.peers import (
    copy_encoder_layer,
    copy_gat,
    copy_gcn,
    copy_multi_head,
    copy_transformer,
)
from edgewise.attention.attend import attend
from edgewise.graphs import Graph, causal, complete, edges
from edgewise.layers import MultiHeadAttention, TransformerLayer
from edgewise.models import NODE_MODELS
from edgewise.models.gat import GATLayer
from edgewise.models.gcn import GCNLayer
from edgewise.models.transformer import transformer

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-12}
WIDTH, HEADS, HIDDEN, NODES, BATCH = 32, 4, 64, 24, 3


@dataclass(frozen=True)
class Check:
    """Comparison of two implementations with equal weights.

    Attributes:
        ours: name of the layer of Edgewise.
        theirs: name of the layer of the other library.
        dtype: dtype of weights and inputs.
        limit: maximum difference allowed.
        difference: function from a dtype to the maximum difference of the two layers.
    """

    ours: str
    theirs: str
    dtype: torch.dtype
    limit: float
    difference: Callable[[torch.dtype], float]

    def run(self) -> float:
        """Return the maximum absolute difference of outputs and gradients."""
        torch.manual_seed(0)
        return self.difference(self.dtype)


def run() -> int:
    """Print the differences of all checks, and return 0 if all are within their limits, else 1."""
    say(f"{'edgewise':<38} {'compared with':<42} {'dtype':<8} {'max diff':>9} {'limit':>7}")
    failures = 0
    for check in checks():
        difference = check.run()
        good = difference <= check.limit
        failures += not good
        dtype = str(check.dtype).removeprefix("torch.")
        mark = "ok" if good else "FAILED"
        say(
            f"{check.ours:<38} {check.theirs:<42} {dtype:<8} "
            f"{difference:>9.1e} {check.limit:>7.0e}  {mark}"
        )
    if importlib.util.find_spec("torch_geometric") is None:
        say("PyTorch Geometric is not installed, so its layers were not compared.")
    say("all within their limits" if not failures else f"{failures} beyond their limits")
    return int(failures > 0)


def checks() -> Iterator[Check]:
    """Yield all checks for which the packages are installed."""
    pairs: list[tuple[str, str, Callable[[torch.dtype], float]]] = [
        ("MultiHeadAttention, complete graph", "torch.nn.MultiheadAttention", _multi_head),
        ("TransformerLayer, post norm", "torch.nn.TransformerEncoderLayer", _encoder("post")),
        ("TransformerLayer, pre norm", "the same with norm_first=True", _encoder("pre")),
        ("TransformerLayer, causal graph", "the same with a causal mask", _encoder("pre", True)),
        ("transformer, padded batch", "torch.nn.Transformer whole", _whole),
    ]
    if importlib.util.find_spec("torch_geometric") is not None:
        pairs += [
            ("attend, explicit edges", "torch_geometric TransformerConv", _transformer_conv),
            ("GATLayer", "torch_geometric GATConv", _gat_conv),
            ("GCNLayer", "torch_geometric GCNConv", _gcn_conv),
        ]
    pairs += [
        (f"{name}, renumbered", "itself; nodes and edges in another order", _equivariance(name))
        for name in NODE_MODELS
    ]
    for ours, theirs, difference in pairs:
        for dtype, limit in LIMITS.items():
            yield Check(ours, theirs, dtype, limit, difference)
    yield Check(
        "attend, complete graph", "the lectures' worked example", torch.float64, 1e-6, _worked
    )
    yield Check(
        "causal graph, gradient from the future", "zero", torch.float64, 0.0, _future_gradient
    )


def _distance(mine: Tensor, other: Tensor, x: Tensor) -> float:
    """Return the maximum absolute difference of two outputs and of their gradients.

    Args:
        mine: output of one implementation.
        other: output of the other implementation, of the same shape.
        x: input of both, with respect to which the gradients are computed.
    """
    probe = torch.randn_like(mine)
    grad, other_grad = (torch.autograd.grad((out * probe).sum(), x)[0] for out in (mine, other))
    return max(_largest(mine - other), _largest(grad - other_grad))


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())


def _sequence(dtype: torch.dtype) -> Tensor:
    return torch.randn(BATCH, NODES, WIDTH, dtype=dtype, requires_grad=True)


def _random_graph() -> Graph:
    """Return a random graph with self-loops and an isolated node."""
    matrix = torch.rand(NODES, NODES) < 0.2
    matrix[-1], matrix[:, -1] = False, False
    return edges(matrix.nonzero().T.contiguous(), NODES)


def _multi_head(dtype: torch.dtype) -> float:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
    ours = MultiHeadAttention(WIDTH, HEADS).to(dtype)
    copy_multi_head(theirs, ours)
    x = _sequence(dtype)
    return _distance(ours(x, complete()), theirs(x, x, x)[0], x)


def _encoder(order: str, masked: bool = False) -> Callable[[torch.dtype], float]:
    def difference(dtype: torch.dtype) -> float:
        theirs = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=order == "pre", dtype=dtype
        )
        ours = TransformerLayer(WIDTH, HEADS, HIDDEN, order="pre" if order == "pre" else "post")
        copy_encoder_layer(theirs, ours.to(dtype))
        x = _sequence(dtype)
        mask = nn.Transformer.generate_square_subsequent_mask(NODES, dtype=dtype)
        other = theirs(x, src_mask=mask if masked else None)
        return _distance(ours(x, causal() if masked else complete()), other, x)

    return difference


def _whole(dtype: torch.dtype) -> float:
    theirs = nn.Transformer(
        WIDTH, HEADS, 2, 2, HIDDEN, 0.0, batch_first=True, norm_first=False, dtype=dtype
    )
    numbers: dict[str, Any] = {"width": WIDTH, "heads": HEADS, "depth": 2, "ffn_dim": HIDDEN}
    ours = transformer(1, **numbers, dropout=0.0, last_norm=True).core.to(dtype)
    copy_transformer(theirs, ours)
    x, y = _sequence(dtype), _sequence(dtype)[:, : NODES // 2].detach()
    real = torch.arange(NODES) < torch.tensor([NODES, NODES // 2, 1])[:, None]
    mask = nn.Transformer.generate_square_subsequent_mask(NODES // 2, dtype=dtype)
    padding = torch.zeros(real.shape, dtype=dtype).masked_fill(~real, -torch.inf)
    other = theirs(
        x, y, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    return _distance(ours(x, y, real), other, x)


def _transformer_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import TransformerConv

    theirs = TransformerConv(WIDTH, WIDTH // HEADS, HEADS, root_weight=False).to(dtype)
    graph, x = _random_graph(), _sequence(dtype)[0].detach().requires_grad_()
    query, key, value = (
        linear(x).unflatten(-1, (HEADS, -1))
        for linear in (theirs.lin_query, theirs.lin_key, theirs.lin_value)
    )
    mine = attend(query, key, value, graph).flatten(-2)
    return _distance(mine, theirs(x, graph.edge_index), x)


def _gat_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import GATConv

    theirs = GATConv(WIDTH, WIDTH // HEADS, HEADS).to(dtype)
    ours = GATLayer(WIDTH, WIDTH // HEADS, HEADS).to(dtype)
    copy_gat(theirs, ours)
    graph, x = _random_graph(), _sequence(dtype)[0].detach().requires_grad_()
    return _distance(ours(x, graph), theirs(x, graph.edge_index), x)


def _gcn_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import GCNConv

    theirs, ours = GCNConv(WIDTH, WIDTH).to(dtype), GCNLayer(WIDTH, WIDTH).to(dtype)
    copy_gcn(theirs, ours)
    graph, x = _random_graph(), _sequence(dtype)[0].detach().requires_grad_()
    return _distance(ours(x, graph), theirs(x, graph.edge_index), x)


def _equivariance(name: str) -> Callable[[torch.dtype], float]:
    """Return a function that measures how much a model depends on the order of nodes and edges.

    Args:
        name: name of the model.
    """

    def difference(dtype: torch.dtype) -> float:
        model = NODE_MODELS[name](WIDTH, WIDTH).to(dtype).eval()
        graph, x = _random_graph(), _sequence(dtype)[0].detach()
        order, edge_order = torch.randperm(NODES), torch.randperm(graph.num_edges)
        renumbered = edges(order.argsort()[graph.edge_index[:, edge_order]], NODES)
        return _largest(model(x[order], renumbered) - model(x, graph)[order])

    return difference


def _worked(dtype: torch.dtype) -> float:
    x = torch.tensor([[1, 2, 3, 4], [4, 5, 9, 1], [6, 2, 1, 4]], dtype=dtype)[:, None]
    first = torch.tensor([3.99901255, 4.99733673, 8.99400312, 1.00266327], dtype=dtype)
    return _largest(attend(x, x, x, complete())[0, 0] - first)


def _future_gradient(dtype: torch.dtype) -> float:
    """Return the maximum gradient of any output with respect to a later input of the sequence."""
    layer = TransformerLayer(WIDTH, HEADS, HIDDEN).to(dtype)
    x = _sequence(dtype)[0].detach().requires_grad_()
    out, worst = layer(x, causal()), 0.0
    for position in range(NODES - 1):
        (grad,) = torch.autograd.grad(out[position].sum(), x, retain_graph=True)
        worst = max(worst, _largest(grad[position + 1 :]))
    return worst
