"""Random calls of the primitive: every kind of score and edge term, with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import edgewise as ew
from edgewise.graphs import Graph

Options = dict[str, Any]
Make = Callable[..., Tensor]


@dataclass(frozen=True)
class Kind:
    """A way of calling: ``build(make, E, H, D, Dv)`` gives options, ``make(*shape)`` a leaf."""

    name: str
    build: Callable[[Make, int, int, int, int], Options] = lambda *_: {}
    width: int = 3

    def __str__(self) -> str:
        return self.name


@dataclass
class Call:
    """Arguments of ``attend``, and those of them that have gradients."""

    nodes: tuple[Tensor, ...]
    options: Options
    leaves: list[Tensor] = field(default_factory=list)


def make_call(
    graph: Graph,
    kind: Kind,
    *,
    heads: int = 2,
    value_width: int = 3,
    batch: tuple[tuple[int, ...], ...] = ((), (), ()),
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
) -> Call:
    generator = torch.Generator().manual_seed(graph.num_edges + 7)
    leaves: list[Tensor] = []

    def make(*shape: int) -> Tensor:
        leaf = torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)
        leaves.append(leaf.requires_grad_())
        return leaf

    sources, targets, width = graph.num_sources, graph.num_targets, kind.width
    query = make(*batch[0], targets, heads, width)
    key = make(*batch[1], sources, heads, width)
    value = make(*batch[2], sources, heads, value_width)
    options = kind.build(make, graph.num_edges, heads, width, value_width)
    return Call((query, key, value), options, leaves)


def results(
    run: Callable[..., Any], call: Call, graph: Any, **more: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """What a run gives (an output, or output and log-sum-exp), and every leaf's gradient."""
    given = run(*call.nodes, graph, **call.options, **more)
    outputs = list(given) if isinstance(given, tuple) else [given]
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        readable = output.isfinite()  # the log-sum-exp of nothing is -inf
        weight = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        total = total + (torch.where(readable, output, 0).double() * weight).sum()
    if not total.requires_grad:
        return outputs, [torch.zeros_like(leaf) for leaf in call.leaves]
    gradients = torch.autograd.grad(
        total, call.leaves, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return outputs, list(gradients)


def assert_same(
    left: tuple[list[Tensor], list[Tensor]],
    right: tuple[list[Tensor], list[Tensor]],
    tolerance: float = 1e-12,
) -> None:
    """Outputs and gradients agree, to a tolerance relative to their size."""
    for ours, theirs in zip(left[0] + left[1], right[0] + right[1], strict=True):
        assert ours.shape == theirs.shape
        assert not ours.isnan().any()
        size = max([1.0, *theirs[theirs.isfinite()].abs().flatten().tolist()])
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * size)


def bilinear(query: Tensor, key: Tensor) -> Tensor:
    """A score that no engine knows."""
    return (query * key).sum(-1) + (query - key).cos().prod(-1)


def table(make: Make, edges: int, heads: int) -> ew.TableBias:
    return ew.TableBias(torch.arange(edges) * 7 % 5, make(5, heads))


def dropped(bias: Tensor, every: int) -> Tensor:
    """-inf on some edges."""
    gone = torch.arange(bias.shape[-2]) % every == 0
    return bias.masked_fill(gone[:, None], -torch.inf)


ACTIVATIONS = ["leaky_relu", "relu", "tanh", "gelu", "silu", "identity"]
SCORES = [
    Kind("dot"),
    Kind("dot of width 5", width=5),
    Kind("scaled dot", lambda *_: {"score": ew.Dot(0.7)}),
    Kind("additive", lambda *_: {"score": ew.Additive()}, width=1),
    Kind("steep additive", lambda *_: {"score": ew.Additive(negative_slope=0.5)}, width=1),
    *[
        Kind(
            f"additive {name}",
            lambda make, _e, h, d, _v, name=name: {"score": ew.Additive(name, make(h, d))},
        )
        for name in ACTIVATIONS
    ],
    Kind("callable", lambda *_: {"score": bilinear}),
    Kind("no score", lambda *_: {"score": None}),
]
BIASES = [
    Kind("bias", lambda make, e, h, *_: {"bias": make(e, h)}),
    Kind("bias of all heads", lambda make, e, *_: {"bias": make(e, 1)}),
    Kind("table", lambda make, e, h, *_: {"bias": table(make, e, h)}),
    Kind("table of all heads", lambda make, e, *_: {"bias": table(make, e, 1)}),
    Kind("bias with -inf", lambda make, e, h, *_: {"bias": dropped(make(e, h), 3)}),
    Kind("bias of -inf", lambda make, e, h, *_: {"bias": dropped(make(e, h), 1)}),
    Kind("bias alone", lambda make, e, h, *_: {"bias": make(e, h), "score": None}),
    Kind("gain", lambda make, e, h, *_: {"gain": make(e, h)}),
    Kind("gain of all heads", lambda make, e, *_: {"gain": make(e, 1)}),
    Kind("gain from a table", lambda make, e, h, *_: {"gain": table(make, e, h)}),
    Kind("gain, bias", lambda make, e, h, *_: {"gain": make(e, 1), "bias": dropped(make(e, h), 4)}),
    Kind(
        "additive, gain, table",
        lambda make, e, h, d, _: {
            "score": ew.Additive("tanh", make(h, d)),
            "gain": make(e, h),
            "bias": table(make, e, h),
        },
    ),
]
BATCHED = [
    Kind("bias of a batch", lambda make, e, h, *_: {"bias": make(2, e, h)}),
    Kind("gain of a batch", lambda make, e, *_: {"gain": make(2, e, 1)}),
]
VECTORS = [
    Kind("edge keys", lambda make, e, h, d, _: {"edge_key": make(e, h, d)}),
    Kind("edge values", lambda make, e, h, _, v: {"edge_value": make(e, h, v)}),
    Kind(
        "projected",
        lambda make, e, h, d, v: {
            "edge_key": ew.Projected(make(e, 2), make(h, d, 2)),
            "edge_value": ew.Projected(make(e, 4), make(h, v, 4)),
            "score": ew.Additive("gelu", make(h, d)),
        },
    ),
    Kind(
        "everything",
        lambda make, e, h, d, v: {
            "edge_key": make(e, h, d),
            "edge_value": ew.Projected(make(e, 2), make(h, v, 2)),
            "gain": make(e, 1),
            "bias": table(make, e, h),
        },
    ),
]
