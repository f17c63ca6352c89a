"""Polynormer against its formula, with dense attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgewise import graphs, models
from edgewise.models.polynormer import attend_linearly
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
        h = model.output(attended * (layer.gate(h) + layer.mixture.sigmoid())).relu()
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


def test_global_attention_is_linear_also_for_unequal_graphs() -> None:
    torch.manual_seed(0)
    sizes = [40, 0, *[1] * 30, 5, 8, 9]
    key, value = (torch.rand(sum(sizes), 2, 4, dtype=torch.double) for _ in range(2))
    expected = []
    for k, v in zip(key.split(sizes), value.split(sizes), strict=True):
        weights = torch.einsum("ihd,jhd->ijh", k, k)
        expected.append(torch.einsum("ijh,jhd->ihd", weights / weights.sum(1, keepdim=True), v))
    out = attend_linearly(key, value, graphs.batch(graphs.empty(), sizes))
    torch.testing.assert_close(out, torch.cat(expected), rtol=0, atol=1e-12)


class Largest(TorchDispatchMode):
    """The largest number of elements of a tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self.size = max(self.size, out.numel())
        return out


def test_memory_of_global_attention_has_no_padding_to_the_largest_graph() -> None:
    graph = graphs.batch(graphs.empty(), [1000] + [1] * 199)
    key = torch.rand(1199, 8, 8)
    with Largest() as largest:
        attend_linearly(key, key, graph)
    # 1,199 nodes and 200 graphs in blocks of 8 rows, against 200 · 1,000 rows with padding.
    assert largest.size <= (1199 + 200 * 8) * 8 * 9


def test_local_and_global_states_have_heads_of_their_own() -> None:
    model = random_model(pool="none", local_calls=1).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    x, path = torch.randn(9, WIDTH, dtype=torch.double), graphs.window(1).bind(9)
    unused = []
    for _ in range(2):
        model.zero_grad()
        model(x, path).sum().backward()
        unused.append(
            {name.split(".")[0] for name, p in model.named_parameters() if p.grad is None}
        )
    assert unused == [{"global_norm", "global_layers", "output", "head"}, {"local_head"}]
    assert (model.local_head.out_features, model.head.out_features) == (2, 2)


def test_a_checkpoint_loads_with_another_warm_up() -> None:
    x, path = torch.randn(9, WIDTH, dtype=torch.double), graphs.window(1).bind(9)
    for first, second in [(1, 2), (2, 1), (2, 3)]:
        model = random_model(pool="none", local_calls=first).train()
        for _ in range(4):
            model(x, path)
        other = random_model(pool="none", local_calls=second)
        other.load_state_dict(model.state_dict())
        torch.testing.assert_close(other(x, path), model.eval()(x, path))


def test_the_first_calls_are_local() -> None:
    model = random_model(pool="none", local_calls=2).train()
    path = graphs.window(1).bind(9)
    x = torch.randn(9, WIDTH, dtype=torch.double, requires_grad=True)
    reaches = []
    for _ in range(3):
        (grad,) = torch.autograd.grad(model(x, path)[0].sum(), x)
        reaches.append(bool(grad[3:].any()))  # Two layers reach two steps.
    assert reaches == [False, False, True]
    other = random_model(pool="none", local_calls=2)
    other.load_state_dict(model.state_dict())
    model.eval()
    torch.testing.assert_close(other(x, path), model(x, path))  # The count is in the checkpoint.
