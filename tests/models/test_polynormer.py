"""Polynormer against its formula, with dense attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import graphs, models
from tests.models.test_graph_transformers import HEADS, SIZES, WIDTH, packed


def dense(model: nn.Module, x: Tensor, graph: graphs.Graph) -> Tensor:
    """The states of the model in evaluation, with matrices of all pairs of nodes."""
    h = model.embed(x)
    total = torch.zeros_like(h)
    reads = graph.dense() | torch.eye(len(x), dtype=torch.bool)
    for layer in model.layers:
        gate = layer.gate(h).relu()
        gat = layer.attention
        value = gat.linear(h).view(len(x), HEADS, -1)
        scores = (value * gat.att_dst).sum(-1)[:, None] + (value * gat.att_src).sum(-1)[None]
        scores = F.leaky_relu(scores, 0.2).masked_fill(~reads[..., None], -torch.inf)
        attended = torch.einsum("ijh,jhd->ihd", scores.softmax(1), value).flatten(1) + gat.bias
        out = (attended + layer.linear(h)).relu()
        beta = layer.mixture.sigmoid()
        h = (1 - beta) * layer.norm(gate * out) + beta * out
        total = total + h
    h = model.global_norm(total)
    same = torch.block_diag(*(torch.ones(n, n, dtype=torch.double) for n in SIZES))
    for layer in model.global_layers:
        key = layer.key(h).sigmoid().view(len(x), HEADS, -1)
        weights = torch.einsum("ihd,jhd->ijh", key, key) * same[..., None]
        weights = weights / weights.sum(1, keepdim=True)
        value = layer.value(h).view(len(x), HEADS, -1)
        attended = layer.norm(torch.einsum("ijh,jhd->ihd", weights, value).flatten(1))
        h = layer.output(attended * (layer.gate(h) + layer.mixture.sigmoid())).relu()
    return h


def random_model(**options: int | str) -> nn.Module:
    torch.manual_seed(0)
    model = models.polynormer(WIDTH, 2, width=WIDTH, depth=2, heads=HEADS, **options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def test_by_its_formula() -> None:
    model = random_model(pool="none")
    x, graph, _ = packed(6)
    expected = model.head(dense(model, x, graph))
    torch.testing.assert_close(model(x, graph, batch=SIZES), expected, rtol=0, atol=1e-11)
    pooled = random_model()
    means = torch.stack([states.mean(0) for states in dense(pooled, x, graph).split(SIZES)])
    torch.testing.assert_close(
        pooled(x, graph, batch=SIZES), pooled.head(means), rtol=0, atol=1e-11
    )


def test_the_first_steps_are_local() -> None:
    model = random_model(pool="none", local_steps=2).train()
    path = graphs.window(1).bind(9)
    x = torch.randn(9, WIDTH, dtype=torch.double, requires_grad=True)
    reaches = []
    for _ in range(3):
        (grad,) = torch.autograd.grad(model(x, path)[0].sum(), x)
        reaches.append(bool(grad[3:].any()))  # Two layers reach two steps.
    assert reaches == [False, False, True]
    other = random_model(pool="none", local_steps=2)
    other.load_state_dict(model.state_dict())
    model.eval()
    torch.testing.assert_close(other(x, path), model(x, path))  # The count is in the checkpoint.
