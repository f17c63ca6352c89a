"""Recorder of attention weights: ``with explain.record(model) as recorded: model(...)``."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.attention.hooks import NODES, Nodes, nodes_of, without_interception
from edgewise.attention.steps import attention_weights
from edgewise.engines.call import AttentionCall
from edgewise.explain.calls import merged_fractions
from edgewise.explain.module_names import (
    NamedInterceptor,
    head_positions,
    layer_keys,
    listed,
    model_of,
    numbered_layer,
)
from edgewise.explain.rollout import rollout
from edgewise.graphs import Graph, edges
from edgewise.layers.sparse import Linear as SparseLinear

MAX_EDGES = 1_000_000
CROSS = re.compile("cross_?att|encoder_att|encdecatt", re.IGNORECASE)
"""Names of cross-attention layers in models of ``transformers``."""
Kind = Literal["attention", "part", "aggregation"]


@dataclass(eq=False)
class LayerRecord:
    """Weights of one attention call.

    Attributes:
        name: name of the module, such as ``"backbone.stack.layers.0.attention"``; "#2", "#3", …
            follow for its further calls.
        weights: ``[..., E, H]`` in the order of ``graph.edge_index``, detached, before dropout. If
            ``edges`` is given, ``[..., K, H]`` for these K edges.
        heads: numbers of the recorded heads, before any pruning.
        edges: indices ``[K]`` of the recorded edges, or ``None`` for all edges.
        kind: ``"attention"``; ``"part"`` for a call of :func:`edgewise.attend_with_lse` whose
            output the model itself combines with others; or ``"aggregation"`` for the
            weights of :func:`edgewise.aggregate`, which may not be those of a softmax (GCN, MoNet,
            LightConv).
        is_cross: whether the module is a layer of cross-attention.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> layer = layers.MultiHeadAttention(8, heads=2)
        >>> with explain.record(layer) as recorded:
        ...     out = layer(torch.randn(5, 8), graphs.window(1))
        >>> record = recorded[0]
        >>> record.heads, record.weights.shape, record.head(1).shape
        ([0, 1], torch.Size([13, 2]), torch.Size([13]))
    """

    name: str
    graph: Graph
    weights: Tensor
    heads: list[int]
    edges: Tensor | None = None
    kind: Kind = "attention"
    module: str = field(default="", repr=False)
    is_cross: bool = field(default=False, repr=False)
    nodes: Nodes | None = field(default=None, repr=False)

    @property
    def is_self_attention(self) -> bool:
        """True if targets and sources are the same nodes, by their numbers and by the module."""
        segments = self.graph.segments
        same = self.graph.num_targets == self.graph.num_sources
        return same and not self.is_cross and (segments is None or torch.equal(*segments))

    @property
    def edge_index(self) -> Tensor:
        """Sources and targets ``[2, K]`` of the recorded edges."""
        edge_index = self.graph.edge_index
        return edge_index if self.edges is None else edge_index[:, self.edges]

    @property
    def left_out(self) -> int:
        """Number of edges of the graph that are not recorded."""
        return 0 if self.edges is None else self.graph.num_edges - len(self.edges)

    def head(self, head: int) -> Tensor:
        """Return the weights ``[..., K]`` of a head.

        Raises:
            ArgumentError: the head is not recorded.
        """
        return self.weights[..., self.position(head)]

    def position(self, head: int) -> int:
        """Return the index in ``weights`` of a head, numbered as before any pruning."""
        if head in self.heads:
            return self.heads.index(head)
        raise ArgumentError(
            "head",
            expected=f"a recorded head of {self.name}: {listed(self.heads)}",
            got=repr(head),
            remedy="choose a recorded head",
        )

    def __repr__(self) -> str:
        left = f", {self.left_out:,} edges left out" if self.left_out else ""
        return f"<{self.kind} of {self.name}: weights {list(self.weights.shape)}{left}>"


class Recorded:
    """Attention weights of the calls of a model, in the order of the calls.

    Attributes:
        modules: names of the modules that made calls, in the order of their first calls, by which
            commands, pages and figures number the layers.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=2, heads=2, ffn_dim=32).eval()
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(torch.randint(100, (1, 6)))
        >>> recorded.names
        ['backbone.stack.layers.0.attention.sublayer', 'backbone.stack.layers.1.attention.sublayer']
        >>> recorded.rollout().shape
        torch.Size([1, 6, 6])
    """

    def __init__(self) -> None:
        self.layers: list[LayerRecord] = []
        self.modules: list[str] = []

    @property
    def names(self) -> list[str]:
        """Names of the layers."""
        return [layer.name for layer in self.layers]

    def number(self, layer: LayerRecord) -> int:
        """Return the number of a layer in commands, pages and figures."""
        if layer.module in self.modules:
            return self.modules.index(layer.module)
        return self.layers.index(layer)

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[LayerRecord]:
        return iter(self.layers)

    def __getitem__(self, layer: int | str) -> LayerRecord:
        """Return a layer by its index or name."""
        if isinstance(layer, str):
            if layer not in self.names:
                raise unknown_name("layer", layer, self.names)
            return self.layers[self.names.index(layer)]
        if not -len(self.layers) <= layer < len(self.layers):
            raise ArgumentError(
                "layer",
                expected=f"an index of one of the {len(self.layers)} recorded layers, from 0",
                got=str(layer),
                remedy=f"choose from {', '.join(self.names)}"
                if self.names
                else "call the model within the with block first",
            )
        return self.layers[layer]

    def rollout(
        self, layers: str | int | Sequence[str | int] | None = None, residual: float = 0.5
    ) -> Tensor:
        """Return attention rollout ``[..., N, N]``: the weight of input j in output i.

        The weights, averaged over heads plus the ``residual``, are multiplied over layers (Abnar
        and Zuidema, 2020). For more than 4,096 nodes, the result is sparse, without batch
        dimensions.

        Args:
            layers: numbers or names of layers, or names of modules that contain them, such as
                ``"encoder"``. All layers by default, without ``"aggregation"`` if there is any
                attention.
            residual: weight of the residual connection.

        Raises:
            ArgumentError: the layers do not share one set of nodes, or edges are left out.
        """
        chosen = self.layers
        if any(layer.kind != "aggregation" for layer in chosen):
            chosen = [layer for layer in chosen if layer.kind != "aggregation"]
        if layers is not None:
            keys = layer_keys(layers, "layers")
            chosen = [
                layer for layer in chosen if _is_chosen(layer.module, keys, self.number(layer))
            ]
        return rollout(
            [(layer.name, layer.graph, layer.edge_index, layer.weights) for layer in chosen],
            residual,
        )

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.layers)) or "<no layers>"


@contextmanager
def record(
    model: Any,
    layers: str | int | Sequence[str | int] | None = None,
    heads: Sequence[int] | None = None,
    targets: Sequence[int] | Tensor | None = None,
    max_edges: int = MAX_EDGES,
) -> Iterator[Recorded]:
    """Record the attention weights of every call of a model within the ``with`` block.

    Outputs, gradients and random numbers do not change. The model may be an Edgewise model or run,
    a model with layers of :mod:`edgewise.interop.pyg`, or a ``transformers`` model on the
    ``"edgewise"`` attention.

    These calls are recorded: :func:`edgewise.attend`, :func:`edgewise.aggregate` with ``weight``,
    and :func:`edgewise.attend_with_lse`, whose calls become one layer if
    :func:`edgewise.merge_attention` combines their outputs. The layers of Longformer, BigBird,
    Reformer and Swin are recorded over tokens, too: weights of all hash rounds are added, and 0 is
    the weight of an edge that a head does not have. For a model without any weights, such as GIN,
    the sums and means over its nodes are recorded, with weights of 1 or 1 / in-degree. Compiled
    code (``torch.compile``) is not recorded.

    Args:
        layers: numbers (of `edgewise heads`) or names of layers, or names of modules that contain
            them; all by default.
        heads: numbers of recorded heads, before any pruning; all by default.
        targets: target nodes whose edges are recorded; all by default.
        max_edges: maximum number of edges per call, over all examples of a batch. Of more, only the
            edges of evenly spaced targets are recorded, with a warning.

    Yields:
        A :class:`Recorded`, to which each call adds a layer.

    Raises:
        ArgumentError: a layer or head does not exist; a target does not exist; or, at the end of
            the block, no attention was computed.

    Example:
        >>> import torch, edgewise as ew
        >>> from edgewise import explain, graphs
        >>> layer = ew.layers.MultiHeadAttention(8, heads=2)
        >>> with explain.record(layer) as recorded:
        ...     out = layer(torch.randn(5, 8), graphs.complete())
        >>> recorded.layers[0].weights.shape
        torch.Size([25, 2])
    """
    module = model_of(model)
    check_range("max_edges", max_edges, "choose for example 1_000_000", least=1)
    keys = None if layers is None else layer_keys(layers, "layers")
    names = dict(module.named_modules())
    for layer in keys or ():
        if isinstance(layer, str) and layer not in names:
            raise unknown_name("layers", layer, [name for name in names if name])
    for name, chosen in (("heads", heads), ("targets", targets)):
        if chosen is not None and not len(chosen):
            raise ArgumentError(
                name, expected="at least one index", got="none", remedy=f"omit {name} to record all"
            )
    recorded = Recorded()
    recorder = _Recorder(recorded, keys, heads, targets, max_edges)
    with recorder.watching(module):
        yield recorded
        if not recorded.modules:
            recorder.record_unweighted()
    for layer in keys or ():
        if isinstance(layer, int) and recorded.modules:
            numbered_layer(layer, recorded.modules, "layers")
    if not recorded.layers:
        raise _nothing_recorded(module, keys, recorded.modules)


def _nothing_recorded(
    module: nn.Module, keys: Sequence[str | int] | None, seen: Sequence[str]
) -> ArgumentError:
    if keys is not None and seen:
        return ArgumentError(
            "layers",
            expected=f"layers that compute attention: {', '.join(seen)}",
            got=", ".join(map(str, keys)) or "none",
            remedy="choose from the expected layers, or omit layers= to record all",
        )
    return ArgumentError(
        "model",
        expected="a model that is called within the block and computes attention with Edgewise",
        got=f"{type(module).__name__}, which computed no attention",
        remedy="call the model within the with block; a transformers model needs "
        'attn_implementation="edgewise", or edgewise.interop.huggingface.load if it computes '
        "attention itself (Longformer, BigBird, Reformer); a PyTorch Geometric model needs the "
        "layers of edgewise.interop.pyg, and a compiled model must be passed uncompiled",
    )


class _Recorder(NamedInterceptor):
    """Interceptor that adds the weights of each call to a :class:`Recorded`."""

    def __init__(
        self,
        recorded: Recorded,
        layers: Sequence[str | int] | None,
        heads: Sequence[int] | None,
        targets: Sequence[int] | Tensor | None,
        max_edges: int,
    ) -> None:
        super().__init__()
        self.recorded, self.layers, self.heads = recorded, layers, heads
        self.targets, self.max_edges = targets, max_edges
        self.unweighted: list[tuple[str, Graph, Nodes, str]] = []
        self._parts = WeakIdKeyDictionary()
        self._last: tuple[str, Tensor] | None = None
        self._joined: tuple[Any, list[LayerRecord], LayerRecord] | None = None

    def attend(self, call: AttentionCall, graph: Graph, compute: Callable[..., Tensor]) -> Tensor:
        out = compute(call, graph)
        records = self._record_call(call, graph, "attention")
        if records is not None and records[0].nodes is not None:
            self._join(*records)
        return out

    def attend_with_lse(
        self, call: AttentionCall, graph: Graph, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        out, lse = compute(call, graph)
        records = self._record_call(call, graph, "part")
        if records is not None:
            self._parts[out] = records
        return out, lse

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Graph,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        out = compute(value, weight, graph, reduce)
        if weight is None:
            self._keep_unweighted(value, graph, reduce)
            return out
        name = self.name
        # Skip products with sparse features and sums of weights (degrees), because these are not
        # messages between nodes.
        if isinstance(self.module, SparseLinear) or (
            value.shape[-2:].numel() == 1 and _is_one(value)
        ):
            return out
        # MAGNA and LightGCN apply the same weights several times; record them once.
        if self._last is not None and self._last[0] == name and _is_same(self._last[1], weight):
            return out
        self._last = name, weight
        shape = (*weight.shape[:-2], graph.num_edges, weight.shape[-1])

        def weights(chosen: Tensor | None) -> Tensor:
            expanded = weight.detach().expand(shape)
            return expanded.clone() if chosen is None else expanded[..., chosen, :]

        self._add(graph, shape[:-2], weights, "aggregation")
        return out

    def _keep_unweighted(self, value: Tensor, graph: Graph, reduce: str) -> None:
        """Store a sum or mean without weights, to be recorded if no call has weights."""
        if isinstance(self.module, SparseLinear) or value.shape[-2:].numel() == 1:
            return
        nodes = nodes_of(graph)
        if nodes.sizes[0] == nodes.sizes[1] and not self.recorded.layers:
            self.unweighted.append((self.name, graph, nodes, reduce))

    def record_unweighted(self) -> None:
        """Add the stored sums and means as layers, with weights 1, or 1 / in-degree for means."""
        for module, graph, nodes, reduce in self.unweighted:
            weight = torch.ones(graph.num_edges, 1, device=graph.device)
            if reduce == "mean":
                degree = torch.bincount(graph.target, minlength=graph.num_targets)
                weight = weight / degree[graph.target][:, None]

            def weights(chosen: Tensor | None, weight: Tensor = weight) -> Tensor:
                return weight if chosen is None else weight[chosen]

            on_nodes = graph
            if nodes.target is not None:  # R-GCN has a target for each relation of a node.
                on_nodes = edges(torch.stack(nodes.edges(graph.edge_index)), nodes.sizes[0])
            self._add(on_nodes, (), weights, "aggregation", module)

    def merge_attention(
        self,
        outputs: Sequence[tuple[Tensor, Tensor]],
        compute: Callable[..., tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        out, total = compute(outputs)
        parts = [self._parts.get(output) for output, _ in outputs]
        if all(part is not None and part[1] in self.recorded.layers for part in parts):
            calls = [part[0] for part in parts if part]
            with torch.no_grad():
                fractions = merged_fractions(
                    [call.nodes for call in calls], [lse for _, lse in outputs], total
                )
                merged = _on_tokens(calls, fractions)
            layer = self._replace([part[1] for part in parts if part], merged)
            self._parts[out] = merged, layer
        return out, total

    def _check_nodes_are_tokens(self) -> None:
        kind = type(self.module)
        if "Swin" in kind.__name__ and kind.__module__.startswith("transformers."):
            raise ArgumentError(
                "model",
                expected="a model whose layers attend over all tokens or patches of an input",
                got=f"a layer {kind.__name__} of transformers, whose calls are of single windows",
                remedy="convert the model with edgewise.interop.huggingface.load",
            )

    def _record_call(
        self, call: AttentionCall, graph: Graph, kind: Kind
    ) -> tuple[LayerRecord, LayerRecord] | None:
        self._check_nodes_are_tokens()

        def weights(chosen: Tensor | None) -> Tensor:
            return attention_weights(
                call.query,
                call.key,
                graph,
                edges=chosen,
                score=call.score,
                bias=call.bias,
                gain=call.gain,
                edge_key=call.edge_key,
                normaliser=call.normaliser or "softmax",
            )

        return self._add(graph, call.batch, weights, kind)

    def _add(
        self,
        graph: Graph,
        batch: Sequence[int],
        weights: Callable[[Tensor | None], Tensor],
        kind: Kind,
        module: str | None = None,
    ) -> tuple[LayerRecord, LayerRecord] | None:
        """Add a call as a layer; return the record of its nodes, and that of the layer."""
        module = self.name if module is None else module
        if module not in self.recorded.modules:
            self.recorded.modules.append(module)
        number = self.recorded.modules.index(module)
        if self.layers is not None and not _is_chosen(module, self.layers, number):
            return None
        nodes = NODES.get()
        with torch.no_grad(), without_interception():
            chosen = self._chosen_edges(module, graph, torch.Size(batch).numel(), nodes)
            values = weights(chosen).detach()
            by_head = nodes if nodes is not None and nodes.head is not None else None
            heads = self.head_numbers(values.shape[-1] if by_head is None else by_head.heads)
            is_cross = self._is_cross()
            call = LayerRecord(module, graph, values, heads, chosen, kind, module, is_cross, nodes)
            layer = self._selected(call if nodes is None else _on_tokens([call]))
        self.recorded.layers.append(layer)
        self._name_all()
        return call, layer

    def _join(self, call: LayerRecord, layer: LayerRecord) -> None:
        """Make one layer of the calls that a module makes for different targets."""
        running = self._running[-1]
        calls = [call]
        if self._joined is not None and self._joined[0] is running:
            calls = [*self._joined[1], call]
            layer = self._replace([self._joined[2], layer], _on_tokens(calls))
        self._joined = running, calls, layer

    def _replace(self, layers: Sequence[LayerRecord], merged: LayerRecord) -> LayerRecord:
        """Replace recorded layers by one, in the position of the first, and return it."""
        layer, position = self._selected(merged), self.recorded.layers.index(layers[0])
        self.recorded.layers[position] = layer
        others = [other for other in self.recorded.layers if other not in layers]
        self.recorded.layers[:] = others
        self._name_all()
        return layer

    def _selected(self, layer: LayerRecord) -> LayerRecord:
        """Return the record with the heads that are recorded."""
        if self.heads is None:
            return layer
        columns = head_positions(self.heads, layer.heads, layer.module)
        heads = [int(head) for head in self.heads]
        return replace(layer, weights=layer.weights[..., columns], heads=heads)

    def _is_cross(self) -> bool:
        """Return whether the running module attends to another sequence than its targets."""
        if getattr(self.module, "source_width", None) is not None:
            return True
        # In transformers, the attribute that holds the layer tells it, often the only sign.
        names = ".".join(self.name.split(".")[-2:])
        return getattr(self.module, "is_cross_attention", False) or bool(CROSS.search(names))

    def _name_all(self) -> None:
        count: Counter[str] = Counter()
        for layer in self.recorded.layers:
            count[layer.module] += 1
            times = count[layer.module]
            layer.name = layer.module if times == 1 else f"{layer.module}#{times}"

    def _chosen_edges(
        self, module: str, graph: Graph, members: int, nodes: Nodes | None
    ) -> Tensor | None:
        """Return the indices of the edges to record for a batch of ``members``; None for all."""
        most = self.max_edges // max(members, 1)
        chosen = None
        count = graph.num_targets if nodes is None else nodes.sizes[0]
        if self.targets is not None:
            targets = torch.as_tensor(self.targets, device=graph.target.device).flatten()
            if bool(((targets < 0) | (targets >= count)).any()):
                raise ArgumentError(
                    "targets",
                    expected=f"target nodes of {module}, from 0 to {count - 1}",
                    got=listed(targets.tolist()),
                    remedy="choose indices in this range",
                )
            chosen = torch.isin(_target_tokens(graph, nodes), targets).nonzero()[:, 0]
        count = graph.num_edges if chosen is None else len(chosen)
        if count <= most:
            return chosen
        target = _target_tokens(graph, nodes)
        target = target if chosen is None else target[chosen]
        present, degree = target.unique(return_counts=True)
        selected = _spread(degree, most)
        within = torch.isin(target, present[selected]).nonzero()[:, 0]
        warnings.warn(
            f"{module} has {count:,} edges, more than max_edges ({self.max_edges:,}"
            f"{f' for {members} members of a batch' if members > 1 else ''}): recorded the "
            f"{len(within):,} edges of {len(selected):,} of {len(present):,} targets. Choose "
            "targets= or layers=, or raise max_edges=, to record other edges.",
            stacklevel=2,
        )
        return within if chosen is None else chosen[within]


def _spread(degree: Tensor, most: int) -> Tensor:
    """Return the indices of evenly spaced targets, at least one, with at most ``most`` edges."""
    step = max(2, -(-int(degree.sum()) // max(most, 1)))
    while step < len(degree) and int(degree[::step].sum()) > most:
        step += 1
    return torch.arange(0, len(degree), step, device=degree.device)


def _target_tokens(graph: Graph, nodes: Nodes | None) -> Tensor:
    return graph.target if nodes is None else nodes.target_tokens(graph.target)


def _on_tokens(
    calls: Sequence[LayerRecord], fractions: Sequence[Tensor] | None = None
) -> LayerRecord:
    """Merge the calls of a layer into one record over tokens, and add the weights of equal edges.

    The weights of each call are first multiplied by its fraction ``[..., N_dst, H]``, if any.
    """
    first = calls[0]
    targets, sources = (
        (first.graph.num_targets, first.graph.num_sources)
        if first.nodes is None
        else first.nodes.sizes
    )
    num_heads = len(first.heads)
    used = [_used_edges(call) for call in calls]
    keys = [keys for _, keys in used]
    has_all = all(call.edges is None for call in calls)
    every = [
        keys if has_all else _used_edges(replace(call, edges=None))[1]
        for call, keys in zip(calls, keys, strict=True)
    ]
    unique = torch.cat(every).unique()
    chosen = None if has_all else torch.searchsorted(unique, torch.cat(keys).unique())
    recorded = unique if chosen is None else unique[chosen]
    batch = torch.broadcast_shapes(*(call.weights.shape[:-2] for call in calls))
    merged = first.weights.new_zeros(*batch, len(recorded) * num_heads)
    for number, (call, (rows, call_keys)) in enumerate(zip(calls, used, strict=True)):
        target = call.edge_index[1][rows]
        weights = call.weights.index_select(-2, rows)
        if fractions is not None:
            weights = weights * fractions[number].index_select(-2, target)
        of_nodes = None if call.nodes is None else call.nodes.head
        head = torch.arange(num_heads, device=target.device)
        if of_nodes is not None:
            head = of_nodes.to(target.device)[target][:, None]
        column = torch.searchsorted(recorded, call_keys)[:, None] * num_heads + head
        weights = weights.expand(*batch, *weights.shape[-2:]).flatten(-2).to(merged)
        merged.index_add_(-1, column.flatten(), weights)
    pairs = torch.stack([unique % max(sources, 1), unique // max(sources, 1)])
    return replace(
        first,
        graph=edges(pairs, (sources, targets)),
        weights=merged.unflatten(-1, (len(recorded), num_heads)),
        edges=chosen,
        kind="attention" if fractions is not None else first.kind,
        nodes=None,
    )


def _used_edges(call: LayerRecord) -> tuple[Tensor, Tensor]:
    """Return the rows of the recorded edges to used targets, and their keys as pairs of tokens."""
    (source, target), nodes = call.edge_index, call.nodes
    rows = torch.arange(len(target), device=target.device)
    sources = call.graph.num_sources
    if nodes is not None:
        if nodes.unused is not None:
            rows = (~nodes.unused.to(target.device)[target]).nonzero()[:, 0]
        source, target = nodes.edges(call.edge_index[:, rows])
        sources = nodes.sizes[1]
    return rows, target * sources + source


def _is_chosen(module: str, layers: Sequence[str | int], number: int) -> bool:
    return any(
        layer == number
        if isinstance(layer, int)
        else not layer or f"{module}.".startswith(f"{layer}.")
        for layer in layers
    )


def _is_one(value: Tensor) -> bool:
    return not value.requires_grad and bool((value == 1).all())


def _is_same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.data_ptr() == second.data_ptr()
