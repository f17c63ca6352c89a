"""Sparse attention patterns suggested by the weights of a trained model, with loss and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions
from edgewise.app.runs.recipe_fields import fields_of
from edgewise.app.train.recipe import Recipe
from edgewise.engines.call import AttentionCall
from edgewise.explain.losses import Losses, losses_of
from edgewise.explain.module_names import NamedInterceptor, naming_the_run
from edgewise.explain.record import LayerRecord, record
from edgewise.graphs import Edges, Graph, Pattern, batch, complete, hubs, window

HUB_WEIGHT, HUB_FACTOR = 0.1, 2.0
ENDS = 4
REPEATS = 3


def _text(pattern: Pattern) -> str:
    written = repr(pattern)
    return written[1:-1] if written.startswith("(") else written


@dataclass(frozen=True)
class LayerSuggestion:
    """Sparse pattern that is suggested for a layer.

    Attributes:
        pattern: pattern (graph for any number of nodes), with global tokens if there are any:
            ``window(w)`` or ``window(w) | hubs([...])``.
        weight: fraction of the attention weight that is on edges of the pattern, averaged over
            heads.
        edges: fraction of the edges of the recorded graphs that are in the pattern.
        number: number of the layer in commands, pages and figures.
    """

    pattern: Pattern
    weight: float
    edges: float
    number: int = 0

    @property
    def text(self) -> str:
        """The pattern as text, which :func:`edgewise.graphs.parse` and recipes read."""
        return _text(self.pattern)


@dataclass(frozen=True)
class Suggestion:
    """Suggested patterns for the layers of a model, compared with its full attention.

    Attributes:
        layers: suggestion of each layer by its name.
        loss: mean loss with these patterns, without further training.
        full_loss: mean loss with the model's full attention.
        seconds: time of the forward passes over all batches with these patterns.
        full_seconds: time of the forward passes with the model's full attention.
    """

    layers: dict[str, LayerSuggestion]
    loss: float
    full_loss: float
    seconds: float
    full_seconds: float

    @property
    def is_faster(self) -> bool:
        """Whether the patterns save at least a tenth of the edges and of the time."""
        edges = sum(layer.edges for layer in self.layers.values()) / len(self.layers)
        return edges < 0.9 and self.seconds < 0.9 * self.full_seconds

    def fields(self, recipe: Recipe) -> dict[str, str]:
        """Return the graphs as fields of a recipe, such as ``{"model.graph": "window(3)"}``.

        A field sets the graph of several layers, so its value is the suggestion with the most edges
        among these layers. If the recipe's graph is not ``complete()``, such as ``causal()``, the
        suggestion is intersected with that graph.

        Args:
            recipe: recipe of the run.

        Returns:
            The fields; empty if the model has no field for a graph.
        """
        own = fields_of(recipe)
        decoder = [name for name in self.layers if "decoder" in name.split(".")]
        parts = {
            "model.graph": [name for name in self.layers if name not in decoder],
            "model.decoder_graph": decoder,
        }
        found = {}
        for field, names in parts.items():
            if field in own and names:
                widest = max((self.layers[name] for name in names), key=lambda one: one.edges)
                graph, before = widest.pattern, own[field].value
                found[field] = _text(graph if before == complete() else before & graph)
        return found

    def __str__(self) -> str:
        names = [f"{one.number}: {name}" for name, one in self.layers.items()]
        width = max(map(len, names))
        longest = max(len(one.text) for one in self.layers.values())
        lines = [f"{'layer':<{width}}  {'pattern':<{longest}}  weight kept  edges kept"]
        lines += [
            f"{name:<{width}}  {one.text:<{longest}}  {one.weight:>11.1%}  {one.edges:>10.1%}"
            for name, one in zip(names, self.layers.values(), strict=True)
        ]
        lines.append(
            f"loss {self.loss:.4f} (full attention {self.full_loss:.4f}), "
            f"{self.seconds:.3f} s (full attention {self.full_seconds:.3f} s) "
            "for the forward passes of the same batches, without further training"
        )
        return "\n".join(lines)


def suggest(
    model: Any,
    batches: Iterable[Any] | None = None,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    *,
    coverage: float = 0.9,
    split: str = "val",
    max_batches: int | None = 8,
) -> Suggestion:
    """Suggest a sparse pattern for each layer of self-attention, and measure it.

    Hubs (global tokens) are nodes at the beginning or end of a text that receive at least 10 % of
    the attention weight, and at least twice as much as if all weights were equal (means over heads
    and targets).
    They lie within the shortest text, so that the pattern is defined for all texts. The window is
    the smallest one for which window and hubs together have the fraction ``coverage`` of the
    weight.

    Args:
        model: a run of :func:`edgewise.load`, or a model with ``batches`` and ``loss``.
        batches: batches for ``loss``.
        loss: function from model and batch to the mean loss.
        coverage: fraction of the weight that the pattern must have, the mean over heads.
        split: for a run: ``"train"``, ``"val"`` or ``"test"``.
        max_batches: number of batches that are read and measured; those of a run are spread evenly
            over the split.

    Raises:
        ArgumentError: the model computes no self-attention over sequences, or the nodes of the run
            have no order, such as papers and atoms, so that a window means nothing.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> from edgewise.app.explain import suggest
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32)
        >>> batches = [torch.randint(100, (4, 6)) for _ in range(2)]
        >>> found = suggest(bert, batches, lambda model, ids: model(ids).square().mean())
        >>> list(found.layers)
        ['backbone.stack.layers.0.attention.sublayer']
    """
    check_range("coverage", coverage, "choose for example 0.9", least=0, below=1)
    if not isinstance(model, nn.Module) and not model.predictor.ordered:
        raise ArgumentError(
            "run",
            expected="a run on sequences or images, whose nodes have an order that windows use",
            got=f"a run of {model.recipe.name}, whose nodes have no order",
            remedy="keep the graph of the run; `edgewise heads` shows which heads matter",
        )
    losses = losses_of(model, batches, loss, split=split, max_batches=max_batches)
    with naming_the_run(model, remedy="choose a run of a Transformer, such as bert or gpt"):
        tables = _tables(losses)
    layers = {name: table.suggestion(coverage) for name, table in tables.items()}
    found = _measured(losses, {}, {name: one.pattern for name, one in layers.items()})
    (full_loss, full_seconds), (loss_found, seconds) = found
    return Suggestion(layers, loss_found, full_loss, seconds, full_seconds)


def _tables(losses: Losses) -> dict[str, _Table]:
    """Return the statistics of each layer with self-attention, by the name of the layer."""
    tables: dict[str, _Table] = {}
    cross: set[str] = set()
    for one in losses.batches:
        with torch.no_grad(), record(losses.model, max_edges=10**8) as recorded:
            losses.loss(losses.model, one)
        for layer in recorded:
            if not layer.is_self_attention:
                cross.add(layer.module)  # In other batches, it may have equal sizes.
            elif layer.kind == "attention":
                table = tables.setdefault(layer.module, _Table(recorded.number(layer)))
                table.add(layer)
    tables = {name: table for name, table in tables.items() if name not in cross}
    if not tables:
        raise ArgumentError(
            "model",
            expected="a model with self-attention",
            got=f"{type(losses.model).__name__}, which has no self-attention",
            remedy="choose a Transformer, such as bert or gpt",
        )
    return tables


def _measured(losses: Losses, *patterns: Mapping[str, Pattern]) -> list[tuple[float, float]]:
    """Return the mean loss and the time with each set of attention patterns.

    The time in seconds is the shortest of several passes over all batches. The passes of the sets
    alternate, so that other work on the machine slows all of them.

    Args:
        losses: model, batches and loss.
        patterns: sets of patterns, each by name of the layer.
    """
    variants = [_Restricted(own) for own in patterns]
    means: list[float] = []
    times: list[list[float]] = [[] for _ in variants]
    for own in variants:  # This pass also builds the graphs, before time is measured.
        with own.watching(losses.model):
            means.append(losses.mean())
    for _ in range(REPEATS):
        for own, spent in zip(variants, times, strict=True):
            with own.watching(losses.model):
                start = time.perf_counter()
                losses.mean()
                spent.append(time.perf_counter() - start)
    return list(zip(means, map(min, times), strict=True))


@contextmanager
def restricted_to(model: nn.Module, patterns: Mapping[str, Pattern]) -> Iterator[None]:
    """Restrict the attention of each named layer to its pattern within the ``with`` block.

    In a batch, the pattern applies to each text separately.

    Args:
        model: the model.
        patterns: patterns (graphs for any number of nodes), by name of the layer.
    """
    with _Restricted(patterns).watching(model):
        yield


class _Table:
    """Statistics of each edge of a layer, over all texts of all batches.

    The statistics are the distance between source and target, the position of the source from both
    ends of the text, the attention weight, and the weight if all weights of a target were equal.

    Args:
        number: number of the layer in commands, pages and figures.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.layers: list[tuple[Tensor, ...]] = []
        self.members = 0.0
        self.shortest = ENDS

    def add(self, layer: LayerRecord) -> None:
        source, target = layer.edge_index
        weights = layer.weights.mean(-1).double()
        weights = weights.flatten(0, -2).sum(0) if weights.dim() > 1 else weights
        members = layer.weights.shape[:-2].numel()
        position, from_end = _places(layer.graph)
        degree = torch.bincount(target, minlength=layer.graph.num_targets)
        self.members += float((degree > 0).sum()) * members
        self.shortest = min(self.shortest, int((position + from_end).min()))
        distance, equal = (source - target).abs(), members / degree[target].double()
        self.layers.append((distance, position[source], from_end[source], weights, equal))

    def suggestion(self, coverage: float) -> LayerSuggestion:
        distance, position, from_end, weights, equal = (
            torch.cat(parts) for parts in zip(*self.layers, strict=True)
        )

        def is_hub(edges: Tensor) -> bool:
            share = self._share(weights[edges])
            return share >= max(HUB_WEIGHT, HUB_FACTOR * self._share(equal[edges]))

        found = [n for n in range(self.shortest) if is_hub(position == n)]
        found += [-n for n in range(1, self.shortest) if is_hub(from_end == n)]
        on_hub = torch.zeros(len(weights), dtype=torch.bool)
        for hub in found:
            on_hub |= position == hub if hub >= 0 else from_end == -hub
        by_distance = torch.zeros(int(distance.max()) + 1, dtype=torch.double)
        by_distance.index_add_(0, distance[~on_hub], weights[~on_hub])
        kept = (by_distance.cumsum(0) + weights[on_hub].sum()) / self.members
        enough = (kept >= coverage - 1e-9).nonzero()
        width = int(enough[0]) if len(enough) else len(kept) - 1
        pattern: Pattern = window(width) | hubs(found) if found else window(width)
        within = on_hub | (distance <= width)
        edges = float(within.double().mean())
        return LayerSuggestion(pattern, float(kept[width]), edges, self.number)

    def _share(self, weights: Tensor) -> float:
        return float(weights.sum()) / self.members


def _places(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the position of each source in its text: from the start, and from the end.

    The first node has the position 0 from the start, and the last node 1 from the end.
    """
    size = torch.tensor([graph.num_sources]) if graph.segments is None else graph.segments[1].cpu()
    text, position = runs_and_positions(size, graph.num_sources)
    return position, size[text] - position


class _Restricted(NamedInterceptor):
    """Interceptor that restricts the attention of each named module to its pattern.

    Args:
        patterns: patterns (graphs for any number of nodes), by name of the module.
    """

    def __init__(self, patterns: Mapping[str, Pattern]) -> None:
        super().__init__()
        self.patterns = patterns
        self._known: dict[Any, tuple[Graph, Tensor | None]] = {}
        self._held: list[Graph] = []  # Keeps graphs alive whose ids are keys.

    def attend(self, call: AttentionCall, graph: Graph, compute: Callable[..., Tensor]) -> Tensor:
        pattern = self.patterns.get(self.name)
        if pattern is None or graph.num_targets != graph.num_sources:
            return compute(call, graph)
        terms = (call.bias, call.gain, call.edge_key, call.edge_value)
        bare = all(term is None for term in terms)
        smaller, kept = self._graph(graph, pattern, bare=bare)
        if kept is None:
            return compute(call, smaller)
        chosen = call.chosen(kept)  # The result has no edge_value.
        value = call.edge_value
        if value is not None:
            value = value[..., kept, :, :] if isinstance(value, Tensor) else value.edges(kept)
        chosen = replace(chosen, edge_value=value, dropout=call.dropout)
        return compute(chosen, smaller)

    def _graph(self, graph: Graph, pattern: Pattern, *, bare: bool) -> tuple[Graph, Tensor | None]:
        """Return the edges that are in a graph and in a pattern.

        Args:
            graph: graph of the call.
            pattern: pattern that is applied to each text of the graph.
            bare: whether the call has no terms for edges, such as a bias.

        Returns:
            The graph of these edges, and their indices in ``graph``. If ``bare`` is true and the
            graph is complete in each text, the graph of the pattern, which is faster to compute
            with than a list of edges, and ``None``.
        """
        size = (
            torch.tensor([graph.num_sources]) if graph.segments is None else graph.segments[1].cpu()
        )
        complete = bare and graph.num_edges == int(size.square().sum())
        key = (tuple(size.tolist()), pattern, None if complete else id(graph))
        if key not in self._known:
            parts = [pattern.bind(count) for count in size.tolist()]
            own = (parts[0] if len(parts) == 1 else batch(parts)).to(graph.device)
            kept = None
            if not complete:
                kept = own.contains(graph.source, graph.target).nonzero()[:, 0]
                own = Edges(
                    graph.edge_index[:, kept], graph.num_targets, graph.num_sources, graph.segments
                )
            self._known[key] = own, kept
            self._held.append(graph)
        return self._known[key]
