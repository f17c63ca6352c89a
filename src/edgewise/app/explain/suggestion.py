"""Sparse attention patterns suggested by the weights of a trained model, with loss and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    text = repr(pattern)
    return text[1:-1] if text.startswith("(") else text


@dataclass(frozen=True)
class LayerSuggestion:
    """Sparse pattern for a layer, with the fractions of attention weight and of edges in it."""

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

    Example:
        >>> import edgewise
        >>> from edgewise.app.explain import suggest
        >>> suggestion = suggest(edgewise.load("runs/sst2"), coverage=0.95)  # doctest: +SKIP
        >>> suggestion.loss - suggestion.full_loss  # doctest: +SKIP
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
        """
        recipe_fields = fields_of(recipe)
        decoder = [name for name in self.layers if "decoder" in name.split(".")]
        layers_of_field = {
            "model.graph": [name for name in self.layers if name not in decoder],
            "model.decoder_graph": decoder,
        }
        graphs = {}
        for field, names in layers_of_field.items():
            if field in recipe_fields and names:
                widest = max((self.layers[name] for name in names), key=lambda layer: layer.edges)
                pattern, graph = widest.pattern, recipe_fields[field].value
                graphs[field] = _text(pattern if graph == complete() else graph & pattern)
        return graphs

    def __str__(self) -> str:
        names = [f"{layer.number}: {name}" for name, layer in self.layers.items()]
        width = max(map(len, names))
        longest = max(len(layer.text) for layer in self.layers.values())
        lines = [f"{'layer':<{width}}  {'pattern':<{longest}}  weight kept  edges kept"]
        lines += [
            f"{name:<{width}}  {layer.text:<{longest}}  {layer.weight:>11.1%}  {layer.edges:>10.1%}"
            for name, layer in zip(names, self.layers.values(), strict=True)
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
    patterns = {name: layer.pattern for name, layer in layers.items()}
    (full_loss, full_seconds), (sparse_loss, seconds) = _measure(losses, {}, patterns)
    return Suggestion(layers, sparse_loss, full_loss, seconds, full_seconds)


def _tables(losses: Losses) -> dict[str, _Table]:
    """Return the statistics of each layer with self-attention, by the name of the layer."""
    tables: dict[str, _Table] = {}
    cross: set[str] = set()
    for inputs in losses.batches:
        with torch.no_grad(), record(losses.model, max_edges=10**8) as recorded:
            losses.loss(losses.model, inputs)
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


def _measure(losses: Losses, *patterns: Mapping[str, Pattern]) -> list[tuple[float, float]]:
    """Return the mean loss and the shortest time in seconds for each set of attention patterns."""
    variants = [RestrictedAttention(patterns_of_layers) for patterns_of_layers in patterns]
    means: list[float] = []
    times: list[list[float]] = [[] for _ in variants]
    for variant in variants:  # This pass also builds the graphs, before time is measured.
        with variant.watching(losses.model):
            means.append(losses.mean())
    for _ in range(REPEATS):  # The passes alternate, so that other work slows all variants.
        for variant, seconds in zip(variants, times, strict=True):
            with variant.watching(losses.model):
                start = time.perf_counter()
                losses.mean()
                seconds.append(time.perf_counter() - start)
    return list(zip(means, map(min, times), strict=True))


class _Table:
    """Statistics of each edge: distance and positions from both ends of the text, its weight, and
    the weight if all weights of a target were equal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.edges: list[tuple[Tensor, ...]] = []
        self.members = 0.0
        self.shortest = ENDS

    def add(self, layer: LayerRecord) -> None:
        source, target = layer.edge_index
        weights = layer.weights.mean(-1).double()
        weights = weights.flatten(0, -2).sum(0) if weights.dim() > 1 else weights
        members = layer.weights.shape[:-2].numel()
        size = _text_sizes(layer.graph)
        text, position = runs_and_positions(size, layer.graph.num_sources)
        from_end = size[text] - position
        degree = torch.bincount(target, minlength=layer.graph.num_targets)
        self.members += float((degree > 0).sum()) * members
        self.shortest = min(self.shortest, int((position + from_end).min()))
        distance, equal = (source - target).abs(), members / degree[target].double()
        self.edges.append((distance, position[source], from_end[source], weights, equal))

    def suggestion(self, coverage: float) -> LayerSuggestion:
        distance, position, from_end, weights, equal = (
            torch.cat(values) for values in zip(*self.edges, strict=True)
        )

        def is_hub(edges: Tensor) -> bool:
            fraction = float(weights[edges].sum()) / self.members
            equal_fraction = float(equal[edges].sum()) / self.members
            return fraction >= max(HUB_WEIGHT, HUB_FACTOR * equal_fraction)

        hub_positions = [n for n in range(self.shortest) if is_hub(position == n)]
        hub_positions += [-n for n in range(1, self.shortest) if is_hub(from_end == n)]
        on_hub = torch.zeros(len(weights), dtype=torch.bool)
        for hub in hub_positions:
            on_hub |= position == hub if hub >= 0 else from_end == -hub
        by_distance = torch.zeros(int(distance.max()) + 1, dtype=torch.double)
        by_distance.index_add_(0, distance[~on_hub], weights[~on_hub])
        weight = (by_distance.cumsum(0) + weights[on_hub].sum()) / self.members
        enough = (weight >= coverage - 1e-9).nonzero()
        width = int(enough[0]) if len(enough) else len(weight) - 1
        pattern: Pattern = window(width)
        if hub_positions:
            pattern = pattern | hubs(hub_positions)
        edges = float((on_hub | (distance <= width)).double().mean())
        return LayerSuggestion(pattern, float(weight[width]), edges, self.number)


def _text_sizes(graph: Graph) -> Tensor:
    """Return the number of source nodes of each text in a graph that packs several texts."""
    if graph.segments is None:
        return torch.tensor([graph.num_sources])
    return graph.segments[1].cpu()


class RestrictedAttention(NamedInterceptor):
    """Interceptor that restricts the attention of each named module to a pattern, in each text."""

    def __init__(self, patterns: Mapping[str, Pattern]) -> None:
        super().__init__()
        self.patterns = patterns
        self._cache: dict[Any, tuple[Graph, Tensor | None]] = {}
        self._graphs: list[Graph] = []  # Keeps graphs alive whose ids are keys.

    def attend(self, call: AttentionCall, graph: Graph, compute: Callable[..., Tensor]) -> Tensor:
        pattern = self.patterns.get(self.name)
        if pattern is None or graph.num_targets != graph.num_sources:
            return compute(call, graph)
        terms = (call.bias, call.gain, call.edge_key, call.edge_value)
        has_terms = any(term is not None for term in terms)
        subgraph, edges = self._intersection(graph, pattern, has_terms)
        if edges is not None:
            call = call.on_edges(edges)
        return compute(call, subgraph)

    def _intersection(
        self, graph: Graph, pattern: Pattern, has_terms: bool
    ) -> tuple[Graph, Tensor | None]:
        """Return the graph of the edges that are in a pattern, and the indices of these edges."""
        size = _text_sizes(graph)
        is_complete = not has_terms and graph.num_edges == int(size.square().sum())
        key = (tuple(size.tolist()), pattern, None if is_complete else id(graph))
        if key not in self._cache:
            texts = [pattern.bind(count) for count in size.tolist()]
            subgraph = (texts[0] if len(texts) == 1 else batch(texts)).to(graph.device)
            edges = None
            if not is_complete:
                edges = subgraph.contains(graph.source, graph.target).nonzero()[:, 0]
                index = graph.edge_index[:, edges]
                subgraph = Edges(index, graph.num_targets, graph.num_sources, graph.segments)
            self._cache[key] = subgraph, edges
            self._graphs.append(graph)
        return self._cache[key]
