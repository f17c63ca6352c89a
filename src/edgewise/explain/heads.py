"""Attention heads: importance, entropy, distance, weight on global and on first tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.attention.hooks import NODES
from edgewise.engines.call import ACCUMULATORS, AttentionCall
from edgewise.explain.losses import Losses, losses_of
from edgewise.explain.module_names import NamedInterceptor, head_positions, model_of, naming_the_run
from edgewise.explain.pruning import Heads, heads_by_name
from edgewise.explain.record import LayerRecord, Recorded
from edgewise.graphs import Graph

By = Literal["gradient", "gain", "leaving_out"]
HUB_FACTOR = 4.0


@contextmanager
def masked_heads(model: Any, heads: Heads) -> Iterator[None]:
    """Multiply the outputs of some heads by 0 within the ``with`` block.

    ``heads`` is ``{layer: numbers}``; see :func:`prune`.

    Raises:
        ArgumentError: a layer does not exist, or the model calls a layer that has no such head.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> with explain.masked_heads(bert, {0: [0, 1]}):
        ...     masked = bert(ids)
        >>> torch.allclose(masked, bert(ids))
        False
    """
    module, masked = model_of(model), heads_by_name(model, heads)
    names = {type(module).__name__, *dict(module.named_modules())}
    for name in masked:
        if name not in names:
            raise unknown_name("heads", name, names - {""})
    gate = _Gates(lambda name, numbers: _mask(name, numbers, masked.get(name, ())))
    with gate.watching(module):
        yield


def importance(
    model: Any,
    batches: Iterable[Any] | None = None,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    *,
    by: By = "gradient",
    split: str = "val",
    max_batches: int | None = None,
) -> dict[str, Tensor]:
    r"""Return the importance of the heads of each layer, as ``{layer name: [H]}``.

    ``model`` is a run of :func:`edgewise.load`, or a model with ``batches`` and a function ``loss``
    of model and batch. At most ``max_batches`` are used, spread evenly over the ``split`` of a run.
    The heads of a pruned layer are those of :func:`layers_with_heads`.

    Args:
        by: ``"gradient"``: :math:`E |\partial L / \partial \xi_h|`, where :math:`\xi_h = 1`
            multiplies the output of the head, over batches (in the paper over examples; Michel et
            al., 2019). ``"gain"``: the sum over edges of :math:`|\partial L / \partial g_{ij}|`,
            where :math:`g_{ij} = 1` multiplies the score. ``"leaving_out"``: the increase of the
            loss without the head.

    Raises:
        ArgumentError: the model computes no attention.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32)
        >>> batches = [torch.randint(100, (4, 6)) for _ in range(2)]
        >>> found = explain.importance(bert, batches, lambda model, ids: model(ids).square().mean())
        >>> [values.shape for values in found.values()]  # one number for each head
        [torch.Size([2])]
    """
    check_choice("by", by, ("gradient", "gain", "leaving_out"))
    losses = losses_of(model, batches, loss, split=split, max_batches=max_batches)
    with naming_the_run(model):
        return _by_leaving_out(losses) if by == "leaving_out" else _by_gradient(losses, by)


def _by_gradient(losses: Losses, by: By) -> dict[str, Tensor]:
    total: dict[str, Tensor] = {}
    for batch in losses.batches:
        gate: _Gates | _Gains = _Gains() if by == "gain" else _Gates(_ones)
        with torch.enable_grad(), gate.watching(losses.model):
            value = losses.loss(losses.model, batch)
        _check_found(losses.model, gate.used)
        names = [name for name, factors in gate.used.items() for _ in factors]
        factors = [factor for factors in gate.used.values() for factor in factors]
        grads = torch.autograd.grad(value, factors, allow_unused=True)
        for name, factor, grad in zip(names, factors, grads, strict=True):
            score = torch.zeros_like(factor) if grad is None else grad.abs()
            score = score.flatten(0, -2).sum(0) if score.dim() > 1 else score
            total[name] = total[name] + score if name in total else score
    return {name: value / max(len(losses.batches), 1) for name, value in total.items()}


def _by_leaving_out(losses: Losses) -> dict[str, Tensor]:
    gate = _Gates(_ones)
    with torch.no_grad(), gate.watching(losses.model):
        losses.loss(losses.model, losses.batches[0])
    _check_found(losses.model, gate.used)
    full = losses.mean()
    increases = {name: torch.zeros(len(numbers)) for name, numbers in gate.numbers.items()}
    for name, numbers in gate.numbers.items():
        for position, head in enumerate(numbers):
            with masked_heads(losses.model, {name: [head]}):
                increases[name][position] = losses.mean() - full
    return increases


def _check_found(model: nn.Module, used: Mapping[str, Any]) -> None:
    if not used:
        raise ArgumentError(
            "model",
            expected="a model that computes attention with Edgewise",
            got=f"{type(model).__name__}, which computed no attention",
            remedy="choose a model with attention layers of Edgewise",
        )


def _ones(name: str, numbers: Sequence[int]) -> Tensor:  # noqa: ARG001 - same signature as _mask
    return torch.ones(len(numbers), requires_grad=torch.is_grad_enabled())


def _mask(name: str, numbers: Sequence[int], heads: Iterable[int]) -> Tensor:
    mask = torch.ones(len(numbers))
    mask[head_positions(heads, numbers, name)] = 0.0
    return mask


class _Gates(NamedInterceptor):
    """Interceptor that multiplies head outputs by ``make(layer, head numbers)`` ``[H]``."""

    changes_heads = True

    def __init__(self, make: Callable[[str, Sequence[int]], Tensor]) -> None:
        super().__init__()
        self.make = make
        self.used: dict[str, list[Tensor]] = {}
        self.numbers: dict[str, list[int]] = {}

    def _gate(self, out: Tensor) -> Tensor:
        nodes = NODES.get()
        head = None if nodes is None else nodes.head
        if self.name not in self.used:
            count = out.shape[-2] if nodes is None or head is None else nodes.heads
            self.numbers[self.name] = self.head_numbers(count)
            self.used[self.name] = [self.make(self.name, self.numbers[self.name])]
        factor = self.used[self.name][0].to(out)
        factor = factor if head is None else factor[head][:, None]
        return out * factor[..., None]

    def attend(self, call: AttentionCall, graph: Graph, compute: Callable[..., Tensor]) -> Tensor:
        return self._gate(compute(call, graph))

    def attend_with_lse(
        self, call: AttentionCall, graph: Graph, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        out, lse = compute(call, graph)
        return self._gate(out), lse

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Graph,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        out = compute(value, weight, graph, reduce)
        return out if weight is None else self._gate(out)


class _Gains(NamedInterceptor):
    """Interceptor that multiplies each score by a gain of 1, whose gradient can be computed."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, list[Tensor]] = {}

    def changed(self, call: AttentionCall, graph: Graph) -> tuple[AttentionCall, Graph]:
        if call.score is None:
            return call, graph
        like = call.query
        nodes = NODES.get()
        head = None if nodes is None else nodes.head
        shape = graph.num_edges, like.shape[-2] if nodes is None or head is None else nodes.heads
        dtype = ACCUMULATORS[like.dtype]  # The kernels need gains in this dtype.
        gain = torch.ones(shape, dtype=dtype, device=like.device, requires_grad=True)
        self.used.setdefault(self.name, []).append(gain)
        if head is not None:
            gain = gain.gather(-1, head[graph.target][:, None])
        call_gain = call.gain
        if call_gain is None:
            return replace(call, gain=gain), graph
        call_gain = call_gain if isinstance(call_gain, Tensor) else call_gain.expand()
        return replace(call, gain=gain * call_gain), graph


@dataclass(eq=False)
class HeadStatistics:
    """Statistics of the heads of a layer, each ``[H]``: means over targets and texts.

    Attributes:
        layer: name of the layer.
        heads: numbers of the heads, before any pruning.
        entropy: entropy of the weights of a target, in nats.
        relative_entropy: entropy divided by that of equal weights.
        distance: distance of target and source, by index or in a grid; NaN in cross-attention.
        own: weight of the edge from a target to itself. NaN in cross-attention.
        first: weight of the first source of each text.
        hubs: weight of sources that receive more than 4 times the mean weight in their text.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(torch.randint(100, (1, 6)))
        >>> explain.statistics(recorded)[0].entropy.shape  # one number for each head
        torch.Size([2])
    """

    layer: str
    heads: list[int]
    entropy: Tensor
    relative_entropy: Tensor
    distance: Tensor
    own: Tensor
    first: Tensor
    hubs: Tensor

    def __str__(self) -> str:
        names = ("entropy", "relative_entropy", "distance", "own", "first", "hubs")
        lines = [self.layer, "  ".join(["head", *(f"{name:>16}" for name in names)])]
        for row, head in enumerate(self.heads):
            numbers = (float(getattr(self, name)[row]) for name in names)
            lines.append("  ".join([f"{head:>4}", *(f"{number:16.3f}" for number in numbers)]))
        return "\n".join(lines)


def statistics(recorded: Recorded) -> list[HeadStatistics]:
    """Return statistics of the heads of each recorded layer.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(ids)
        >>> len(explain.statistics(recorded))
        1
    """
    return [_statistics(layer) for layer in recorded]


def _statistics(layer: LayerRecord) -> HeadStatistics:
    graph, (source, target) = layer.graph, layer.edge_index
    weights = (
        layer.weights.float().flatten(0, -3) if layer.weights.dim() > 2 else layer.weights[None]
    )
    weights = weights.double()
    degree = torch.bincount(target, minlength=graph.num_targets)
    reached = int((degree > 0).sum())
    members = max(len(weights) * reached, 1)

    def mean(of_edges: Tensor) -> Tensor:
        mean_value: Tensor = of_edges.sum((0, 1)) / members
        return mean_value

    surprise = -torch.special.xlogy(weights, weights)
    by_target = weights.new_zeros(len(weights), graph.num_targets, weights.shape[-1])
    by_target = by_target.index_add(1, target, surprise)
    several = degree > 1
    most = degree.clamp(min=2).log()[:, None]
    relative = (by_target / most)[:, several].mean((0, 1)) if several.any() else mean(surprise * 0)
    unknown = weights.new_full((weights.shape[-1],), torch.nan)
    received = weights.new_zeros(len(weights), graph.num_sources, weights.shape[-1])
    received = received.index_add(1, source, weights)
    text, size = _texts(graph)
    usual = received.new_zeros(len(weights), len(size), weights.shape[-1])
    usual = usual.index_add(1, text, received) / size[:, None]
    is_hub = received > HUB_FACTOR * usual[:, text]
    return HeadStatistics(
        layer.name,
        layer.heads,
        entropy=mean(surprise),
        relative_entropy=relative,
        distance=mean(weights * _distance(graph, source, target)[:, None])
        if layer.is_self_attention
        else unknown,
        own=mean(weights * (source == target)[:, None]) if layer.is_self_attention else unknown,
        first=mean(weights * (source == starts(size)[text[source]])[:, None]),
        hubs=(received * is_hub).sum((0, 1)) / members,
    )


def _texts(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the index of the text of each source node, and the number of nodes of each text."""
    if graph.segments is None:
        size = torch.tensor([graph.num_sources], device=graph.device)
    else:
        size = graph.segments[1].to(graph.device)
    return runs_and_positions(size, graph.num_sources)[0], size


def _distance(graph: Graph, source: Tensor, target: Tensor) -> Tensor:
    positions = graph.positions()
    if positions is None:
        return (source - target).abs().double()
    positions = positions.to(source.device).double()
    apart: Tensor = (positions[source] - positions[target]).norm(dim=-1)
    return apart


@dataclass(frozen=True)
class Observations:
    """Counts for three observations about a trained encoder.

    Many weights are near zero, many others are local, and a few nodes are global. Weights are
    compared with the equal weight, 1 / the in-degree of the target.

    Attributes:
        near_zero: fraction of all weights below ``small`` times the equal weight.
        local: of the other weights, the fraction at a distance of at most ``window``.
        local_edges: fraction of edges at such a distance: the value of ``local`` for equal weights.
        global_nodes: mean number, over texts and heads, of nodes to which at least 90 % of the
            targets give ``large`` times the equal weight.
        nodes: mean number of nodes in a text.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(torch.randint(100, (1, 6)))
        >>> explain.observations(recorded).nodes
        6.0
    """

    near_zero: float
    local: float
    local_edges: float
    global_nodes: float
    nodes: float
    small: float
    window: int
    large: float

    def __str__(self) -> str:
        return (
            f"1. {self.near_zero:.1%} of the weights are below {self.small:g} × the equal weight.\n"
            f"2. {self.local:.1%} of the others are between nodes at a distance of at most "
            f"{self.window}, as are {self.local_edges:.1%} of all edges.\n"
            f"3. {self.global_nodes:.2f} of {self.nodes:.1f} nodes of an input receive at least "
            f"{self.large:g} × the equal weight from 90 % of the nodes, in the mean over heads."
        )


def observations(
    recorded: Recorded, *, small: float = 0.1, window: int = 2, large: float = 2.0
) -> Observations:
    """Count the three :class:`Observations`; only self-attention is counted.

    Args:
        small: weights below this multiple of the equal weight count as near zero.
        window: distance up to which a weight counts as local.
        large: multiple of the equal weight that a global node receives from 90 % of the targets.

    Raises:
        ArgumentError: no self-attention was recorded.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(ids)
        >>> 0 <= explain.observations(recorded, window=1).local <= 1
        True
    """
    layers = [layer for layer in recorded if layer.is_self_attention]
    if not layers:
        raise ArgumentError(
            "recorded",
            expected="at least one layer of self-attention",
            got=", ".join(recorded.names) or "no layers",
            remedy="record layers of self-attention, such as the layers of the encoder",
        )
    counts = torch.zeros(5, dtype=torch.double)
    global_nodes = texts = nodes = 0.0
    for layer in layers:
        source, target = layer.edge_index
        weights = layer.weights[None] if layer.weights.dim() == 2 else layer.weights.flatten(0, -3)
        near = _distance(layer.graph, source, target) <= window
        degree = torch.bincount(target, minlength=layer.graph.num_targets)
        relative = weights * degree[target][:, None]
        is_large = relative >= small
        counts += torch.tensor(
            [
                is_large.numel(),
                int((~is_large).sum()),
                int((is_large & near[:, None]).sum()),
                int(near.sum()),
                len(near),
            ]
        )
        hit = (relative >= large).double()
        received = hit.new_zeros(len(hit), layer.graph.num_sources, hit.shape[-1])
        received = received.index_add(1, source, hit)
        possible = torch.bincount(source, minlength=layer.graph.num_sources)[:, None]
        is_global = (received >= 0.9 * possible) & (possible > 0)
        global_nodes += int(is_global.sum()) / hit.shape[-1]
        texts += len(hit) * len(_texts(layer.graph)[1])
        nodes += len(hit) * layer.graph.num_sources
    every, zero, local, near_edges, edges = counts.tolist()
    return Observations(
        zero / max(every, 1),
        local / max(every - zero, 1),
        near_edges / max(edges, 1),
        global_nodes / texts,
        nodes / texts,
        small,
        window,
        large,
    )
