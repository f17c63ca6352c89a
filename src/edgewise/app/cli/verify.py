"""Command ``edgewise verify``: compare layers of Edgewise with those of other libraries."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from edgewise.app.cli.output import say
from edgewise.app.cli.peers import copy_encoder_layer, copy_multi_head, copy_transformer
from edgewise.attention.attend import attend
from edgewise.graphs import Graph, causal, complete, edges
from edgewise.layers import MultiHeadAttention, TransformerLayer
from edgewise.models import NODE_MODELS
from edgewise.models.gat import GATLayer
from edgewise.models.gcn import GCNLayer
from edgewise.models.transformer import transformer

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-12}
WIDTH, HEADS, HIDDEN, NODES, BATCH = 32, 4, 64, 24, 3


class Check(NamedTuple):
    """Difference of a layer from a reference with the same weights, in outputs and gradients."""

    layer: str
    reference: str
    dtype: torch.dtype
    limit: float
    difference: Callable[[torch.dtype], float]

    def run(self) -> float:
        """Return the difference for random weights and inputs."""
        torch.manual_seed(0)
        return self.difference(self.dtype)


def verify(_arguments: Namespace) -> int:
    """Run ``edgewise verify``: print all differences; return 1 if one is beyond its limit."""
    say(f"{'edgewise':<38} {'compared with':<42} {'dtype':<8} {'max diff':>9} {'limit':>7}")
    failures = 0
    for check in checks():
        difference = check.run()
        is_equal = difference <= check.limit  # False for NaN
        failures += not is_equal
        mark = "ok" if is_equal else "FAILED"
        dtype = str(check.dtype).removeprefix("torch.")
        say(
            f"{check.layer:<38} {check.reference:<42} {dtype:<8} "
            f"{difference:>9.1e} {check.limit:>7.0e}  {mark}"
        )
    if find_spec("torch_geometric") is None:
        say("PyTorch Geometric is not installed, so its layers were not compared.")
    say("all within their limits" if not failures else f"{failures} beyond their limits")
    return int(failures > 0)


def checks() -> Iterator[Check]:
    """Yield all checks for which the packages are installed."""
    comparisons: list[tuple[str, str, Callable[[torch.dtype], float]]] = [
        ("MultiHeadAttention, complete graph", "torch.nn.MultiheadAttention", _multi_head),
        ("TransformerLayer, post norm", "torch.nn.TransformerEncoderLayer", _encoder("post")),
        ("TransformerLayer, pre norm", "the same with norm_first=True", _encoder("pre")),
        ("TransformerLayer, causal graph", "the same with a causal mask", _encoder("pre", True)),
        ("transformer, padded batch", "torch.nn.Transformer whole", _transformer),
    ]
    if find_spec("torch_geometric") is not None:
        comparisons += [
            ("attend, explicit edges", "torch_geometric TransformerConv", _transformer_conv),
            ("GATLayer", "torch_geometric GATConv", _gat_conv),
            ("GCNLayer", "torch_geometric GCNConv", _gcn_conv),
        ]
    comparisons += [
        (f"{name}, renumbered", "itself; nodes and edges in another order", _equivariance(name))
        for name in NODE_MODELS
    ]
    for layer, reference, difference in comparisons:
        for dtype, limit in LIMITS.items():
            yield Check(layer, reference, dtype, limit, difference)
    worked = "the lectures' worked example"
    yield Check("attend, complete graph", worked, torch.float64, 1e-6, _worked_example)
    future = "causal graph, gradient from the future"
    yield Check(future, "zero", torch.float64, 0.0, _future_gradient)


def _difference(out: Tensor, expected: Tensor, x: Tensor) -> float:
    """Return the maximum difference of two outputs and of their gradients with respect to ``x``."""
    probe = torch.randn_like(out)
    gradients = [torch.autograd.grad((y * probe).sum(), x)[0] for y in (out, expected)]
    return max(_largest(out - expected), _largest(gradients[0] - gradients[1]))


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())


def _sequence(dtype: torch.dtype) -> Tensor:
    return torch.randn(BATCH, NODES, WIDTH, dtype=dtype, requires_grad=True)


def _nodes(dtype: torch.dtype) -> Tensor:
    return _sequence(dtype)[0].detach().requires_grad_()


def _random_graph() -> Graph:
    """Return a random graph with self-loops and an isolated node."""
    matrix = torch.rand(NODES, NODES) < 0.2
    matrix[-1], matrix[:, -1] = False, False
    return edges(matrix.nonzero().T.contiguous(), NODES)


def _multi_head(dtype: torch.dtype) -> float:
    reference = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
    layer = MultiHeadAttention(WIDTH, HEADS).to(dtype)
    copy_multi_head(reference, layer)
    x = _sequence(dtype)
    return _difference(layer(x, complete()), reference(x, x, x)[0], x)


def _encoder(order: Literal["pre", "post"], masked: bool = False) -> Callable[[torch.dtype], float]:
    def difference(dtype: torch.dtype) -> float:
        reference = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=order == "pre", dtype=dtype
        )
        layer = TransformerLayer(WIDTH, HEADS, HIDDEN, order=order)
        copy_encoder_layer(reference, layer.to(dtype))
        x = _sequence(dtype)
        mask = nn.Transformer.generate_square_subsequent_mask(NODES, dtype=dtype)
        expected = reference(x, src_mask=mask if masked else None)
        return _difference(layer(x, causal() if masked else complete()), expected, x)

    return difference


def _transformer(dtype: torch.dtype) -> float:
    reference = nn.Transformer(
        WIDTH, HEADS, 2, 2, HIDDEN, 0.0, batch_first=True, norm_first=False, dtype=dtype
    )
    sizes: dict[str, Any] = {"width": WIDTH, "heads": HEADS, "depth": 2, "ffn_dim": HIDDEN}
    model = transformer(1, **sizes, dropout=0.0, last_norm=True).core.to(dtype)
    copy_transformer(reference, model)
    x, y = _sequence(dtype), _sequence(dtype)[:, : NODES // 2].detach()
    real = torch.arange(NODES) < torch.tensor([NODES, NODES // 2, 1])[:, None]
    mask = nn.Transformer.generate_square_subsequent_mask(NODES // 2, dtype=dtype)
    padding = torch.zeros(real.shape, dtype=dtype).masked_fill(~real, -torch.inf)
    expected = reference(
        x, y, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    return _difference(model(x, y, real), expected, x)


def _transformer_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import TransformerConv

    reference = TransformerConv(WIDTH, WIDTH // HEADS, HEADS, root_weight=False).to(dtype)
    graph, x = _random_graph(), _nodes(dtype)
    query, key, value = (
        linear(x).unflatten(-1, (HEADS, -1))
        for linear in (reference.lin_query, reference.lin_key, reference.lin_value)
    )
    out = attend(query, key, value, graph).flatten(-2)
    return _difference(out, reference(x, graph.edge_index), x)


def _gat_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import GATConv

    reference = GATConv(WIDTH, WIDTH // HEADS, HEADS).to(dtype)
    layer = GATLayer(WIDTH, WIDTH // HEADS, HEADS).to(dtype)
    with torch.no_grad():
        layer.linear.weight.copy_(reference.lin.weight)
        layer.att_src.copy_(reference.att_src[0])
        layer.att_dst.copy_(reference.att_dst[0])
        layer.bias.copy_(reference.bias)
    graph, x = _random_graph(), _nodes(dtype)
    return _difference(layer(x, graph), reference(x, graph.edge_index), x)


def _gcn_conv(dtype: torch.dtype) -> float:
    from torch_geometric.nn import GCNConv

    reference, layer = GCNConv(WIDTH, WIDTH).to(dtype), GCNLayer(WIDTH, WIDTH).to(dtype)
    with torch.no_grad():
        layer.linear.weight.copy_(reference.lin.weight)
        layer.bias.copy_(reference.bias)
    graph, x = _random_graph(), _nodes(dtype)
    return _difference(layer(x, graph), reference(x, graph.edge_index), x)


def _equivariance(name: str) -> Callable[[torch.dtype], float]:
    """Return a function that measures how much a model depends on the order of nodes and edges."""

    def difference(dtype: torch.dtype) -> float:
        model = NODE_MODELS[name](WIDTH, WIDTH).to(dtype).eval()
        graph, x = _random_graph(), _nodes(dtype).detach()
        order, edge_order = torch.randperm(NODES), torch.randperm(graph.num_edges)
        renumbered = edges(order.argsort()[graph.edge_index[:, edge_order]], NODES)
        return _largest(model(x[order], renumbered) - model(x, graph)[order])

    return difference


def _worked_example(dtype: torch.dtype) -> float:
    x = torch.tensor([[1, 2, 3, 4], [4, 5, 9, 1], [6, 2, 1, 4]], dtype=dtype)[:, None]
    first = torch.tensor([3.99901255, 4.99733673, 8.99400312, 1.00266327], dtype=dtype)
    return _largest(attend(x, x, x, complete())[0, 0] - first)


def _future_gradient(dtype: torch.dtype) -> float:
    """Return the maximum gradient of any output with respect to a later input of the sequence."""
    layer = TransformerLayer(WIDTH, HEADS, HIDDEN).to(dtype)
    x = _nodes(dtype)
    out, worst = layer(x, causal()), 0.0
    for position in range(NODES - 1):
        (grad,) = torch.autograd.grad(out[position].sum(), x, retain_graph=True)
        worst = max(worst, _largest(grad[position + 1 :]))
    return worst
