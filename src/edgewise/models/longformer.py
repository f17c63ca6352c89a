"""Longformer: BERT for long texts, with sliding-window attention and global tokens (hubs).

Formula: as BERT; o_i = attend(Q x_i, K x_j, V x_j); for a hub o_i = attend(Q' x_i, K' x_j, V' x_j)
Graph: tokens attend to ``window(r)``, with r of the layer, and to hubs; hubs attend to all tokens
Score: ``Dot`` (scaled dot product); hubs have separate query, key and value projections
Encoding: learned; position p (from 0, without padding) uses row p + padding id + 1 of the table
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Beltagy et al., Longformer: the long-document Transformer, 2020
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from edgewise import Dot, attend
from edgewise._utils.arguments import check_divides
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import is_plain
from edgewise.attention.hooks import Nodes, head_outputs_are_changed, nodes_are
from edgewise.encodings import Learned
from edgewise.graphs import Graph, Pattern, batch, check_graph, complete, hubs, window
from edgewise.graphs.batch import Sizes
from edgewise.graphs.graph import bind_graph, call_for_graph
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.projections import JointLinear
from edgewise.layers.single_text import refuse_cache
from edgewise.layers.text import Memory, SequenceBatch, with_padding
from edgewise.layers.transformer import unbind_qkv
from edgewise.models.text import TextConfig, text_model


@dataclass(frozen=True, kw_only=True)
class LongformerConfig(TextConfig):
    """Arguments of :func:`longformer`.

    Args:
        radius: window radius in tokens on either side, one for all layers or one per layer.
        hubs: default positions of the hubs, the tokens with global attention; negative positions
            count from the end.
        max_length: number of rows of the position table. Tokens use the rows from ``padding + 1``
            on, so a text has at most ``max_length - padding - 1`` tokens.
    """

    radius: int | tuple[int, ...] = 256
    hubs: tuple[int, ...] = (0,)
    max_length: int = 4098
    types: int = 0
    act: str = "gelu"
    epsilon: float = 1e-5
    padding: int = 1


@text_model(LongformerConfig, padding=0, types=0, depth=0, radius=0)
def longformer(config: LongformerConfig) -> LongformerModel:
    """Build a Longformer encoder with a masked-language-model head.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.longformer(1000, radius=2)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, heads, depth, radius = config.width, config.heads, config.depth, config.radius
    radii = list(radius) if isinstance(radius, Sequence) else [radius] * depth
    if len(radii) != depth:
        raise ArgumentError(
            "radius",
            expected=f"an integer for all layers, or one integer per layer ({depth})",
            got=repr(radius),
            remedy="give as many radii as layers, or change depth",
        )
    norm = partial(nn.LayerNorm, eps=config.epsilon)
    embedding = TextEmbedding(
        config.vocab_size,
        width,
        positions=Learned(config.max_length, width),
        types=config.types,
        norm=norm(width),
        dropout=config.dropout,
        padding=config.padding,
    )
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            LongformerAttention(width, heads, dropout=config.dropout),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=config.dropout),
            width,
            norm=norm,
            dropout=config.dropout,
        )
        for _ in range(depth)
    ]
    windows = [window(layer_radius) for layer_radius in radii]
    backbone = LongformerBackbone(layers, windows, config.hubs, heads)
    head = LanguageModelHead.for_masked_tokens(config.vocab_size, width, act=config.act, norm=norm)
    model = init_normal(LongformerModel(embedding, backbone, head))
    for module in model.modules():
        if isinstance(module, LongformerAttention):
            module.init_hub_projections()
    return model


class LongformerAttention(GraphLayer):
    r"""Sliding-window attention of tokens and global attention of hubs, with one softmax.

    .. math::
        o_i = \mathrm{attend}(Q x_i, K x_j, V x_j), \; j \in \mathrm{window}(i) \cup \mathrm{hubs};
        \qquad o_g = \mathrm{attend}(Q' x_g, K' x_j, V' x_j), \; j \in \mathrm{text}
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.qkv = JointLinear(width, (width, width, width))
        self.hub_query = nn.Linear(width, width)
        self.hub_key = nn.Linear(width, width)
        self.hub_value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    @torch.no_grad()
    def init_hub_projections(self) -> None:
        """Copy the weights of the token projections to the hub projections, as in the paper."""
        projections = (self.hub_query, self.hub_key, self.hub_value)
        biases = self.qkv.bias.split(self.qkv.widths)
        for projection, weight, bias in zip(projections, self.qkv.weights(), biases, strict=True):
            projection.weight.copy_(weight)
            projection.bias.copy_(bias)

    def forward(self, x: Tensor, graph: Pattern, *, hubs: Tensor, hub_graph: Pattern) -> Tensor:
        """Return features ``[..., N, width]``. ``hub_graph`` leads to the hubs ``[G]``, with G
        targets, or G · H targets, one per hub and head, which is faster for few hubs.
        """
        dropout = self.dropout if self.training else 0.0
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        with nodes_are(lambda: token_nodes(x, hubs)):  # The outputs of hubs are replaced below.
            out = attend(query, key, value, graph, dropout=dropout, layout="NHD").flatten(-2)
        if len(hubs):
            hub_query = self._heads(self.hub_query(x.index_select(-2, hubs)))
            maps = self.hub_key, self.hub_value
            of_hubs = attend_from_hubs(
                x, hub_query, *maps, hubs=hubs, graph=hub_graph, dropout=dropout
            )
            out = out.index_copy(-2, hubs, of_hubs)
        projected: Tensor = self.output(out)
        return projected

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.heads, self.head_width)


def attend_from_hubs(
    x: Tensor,
    query: Tensor,
    key_map: nn.Module,
    value_map: nn.Module,
    *,
    hubs: Tensor,
    graph: Pattern,
    dropout: float,
) -> Tensor:
    """Return the attention outputs ``[..., G, width]`` of the G global tokens (hubs).

    Args:
        x: features ``[..., N, width]`` of all tokens.
        query: queries of the hubs ``[..., G, H, D]``.
        key_map: projection of features to keys; its weight is used if the graph is by head.
        value_map: projection of features to values.
        hubs: indices of the hubs ``[G]``.
        graph: graph to G hubs, or to G · H targets, one per hub and head.
        dropout: probability of setting an attention weight to 0.
    """
    heads, head_width = query.shape[-2:]
    by_head = isinstance(graph, Graph) and graph.num_targets == len(hubs) * heads
    if not by_head:
        size = heads, head_width
        key, value = (linear(x).unflatten(-1, size) for linear in (key_map, value_map))
        with nodes_are(lambda: _hub_nodes(x, hubs)):
            out = attend(query, key, value, graph, dropout=dropout, layout="NHD")
        return out.flatten(-2)
    # Few hubs attend to x instead of keys and values: q·(K x + b) = (Kᵀ q)·x + q·b, where the
    # softmax ignores the constant q·b, and Σ w (V x + b) = V (Σ w x) + b; dropout does not
    # apply to the bias b.
    assert isinstance(key_map, nn.Linear)
    assert isinstance(value_map, nn.Linear)
    shape = heads, head_width, x.shape[-1]
    key_weight, value_weight = (linear.weight.view(shape) for linear in (key_map, value_map))
    mapped_query = torch.einsum("...ghd,hdw->...ghw", query, key_weight).to(x.dtype)
    nodes, score = x.unsqueeze(-2), Dot(head_width**-0.5)
    with nodes_are(lambda: _hub_nodes(x, hubs, heads)):
        mean = attend(
            mapped_query.flatten(-3, -2).unsqueeze(-2),
            nodes,
            nodes,
            graph,
            score=score,
            dropout=dropout,
        )
    out = torch.einsum("...ghw,hdw->...ghd", mean.view(mapped_query.shape), value_weight)
    return out.flatten(-2) + value_map.bias


def token_nodes(x: Tensor, hubs: Tensor) -> Nodes:
    """Describe the tokens as nodes, without the outputs of the hubs."""
    unused = torch.zeros(x.shape[-2], dtype=torch.bool, device=x.device).index_fill(0, hubs, True)
    return Nodes((x.shape[-2], x.shape[-2]), unused=unused)


def _hub_nodes(x: Tensor, hubs: Tensor, heads: int | None = None) -> Nodes:
    """Describe the hubs as targets, or each of their ``heads``."""
    sizes = x.shape[-2], x.shape[-2]
    if heads is None:
        return Nodes(sizes, hubs)
    head = torch.arange(heads, device=x.device).repeat(len(hubs))
    return Nodes(sizes, hubs.repeat_interleave(heads), head=head, heads=heads)


class LongformerBackbone(nn.Module):
    """Stack of Longformer layers, with one window per layer."""

    caches = False

    def __init__(
        self,
        layers: Sequence[nn.Module],
        graphs: Sequence[Pattern],
        hubs: Sequence[int],
        heads: int,
    ) -> None:
        super().__init__()
        self.layers, self.graphs, self.hubs = nn.ModuleList(layers), list(graphs), tuple(hubs)
        self.heads = heads

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the states of x, of the same shape; states of padding are 0."""
        sequences = sequences or SequenceBatch.of_features(x)
        refuse_cache("longformer", sequences, memory)
        mask = global_attention_mask
        if mask is not None and mask.shape != x.shape[:-1]:
            raise ArgumentError(
                "global_attention_mask",
                expected=f"shape {list(x.shape[:-1])}, the shape of input_ids",
                got=f"shape {list(mask.shape)}",
                remedy="give 1 for tokens with global attention and 0 for other tokens",
            )
        patterns = self.graphs if graph is None else [check_graph(graph)] * len(self.graphs)
        if mask is not None:
            mask = mask.cpu()  # The graphs of the hubs are built on the CPU.
            mask = mask[None] if mask.dim() == 1 and sequences.sizes is None else mask
        shared = mask is None or bool((mask == mask[:1]).all())
        if sequences.sizes is None and shared and not sequences.has_padding:
            nodes = self.hubs if mask is None else _positions(mask[0]) if len(mask) else ()
            nodes = nodes if x.shape[-2] else ()
            return self._run(x, patterns, [nodes], None)
        rows, sizes = sequences.packed()
        packed = x.flatten(0, -2)
        packed = packed if rows is None else packed[rows]
        if mask is None:
            hubs_by_text = [list(self.hubs) if size else [] for size in sizes]
        else:
            hubs_by_text = [_positions(text_mask) for text_mask in _split_texts(mask, sequences)]
        states = self._run(packed, patterns, hubs_by_text, sizes)
        if rows is None:
            return states.view_as(x)
        return with_padding(states, rows, x)

    def _run(
        self,
        x: Tensor,
        patterns: Sequence[Pattern],
        hubs_by_text: Sequence[Sequence[int]],
        sizes: list[int] | None,
    ) -> Tensor:
        """Apply the layers to packed texts, or to texts of equal length if ``sizes`` is None."""
        lengths = [x.shape[-2]] if sizes is None else sizes
        firsts = itertools.accumulate(lengths, initial=0)
        hub_nodes, hub_counts = [], []
        for first, size, text_hubs in zip(firsts, lengths, hubs_by_text, strict=False):
            positions = sorted({node % size for node in text_hubs})
            hub_nodes += [first + position for position in positions]
            hub_counts.append(len(positions))
        hubs = torch.tensor(hub_nodes, dtype=torch.long, device=x.device)
        # For few hubs, a target per hub and head is faster than computing K' x and V' x.
        is_few = max(hub_counts, default=0) * self.heads < x.shape[-1]
        by_head = is_few and not head_outputs_are_changed() and self._has_plain_projections()
        per_hub = self.heads if by_head else 1
        targets = [per_hub * count for count in hub_counts]
        all_nodes = complete() if sizes is None else batch(complete(), targets, sizes)
        hub_graph = bind_graph(all_nodes, per_hub * len(hubs), x.shape[-2], x.device)
        local: dict[Pattern, Graph] = {}  # Layers with the same window share a graph.
        for layer, pattern in zip(self.layers, patterns, strict=True):
            if pattern not in local:
                count = x.shape[-2]
                layer_graph = call_for_graph(_local_graph, pattern, hubs_by_text, sizes, count)
                local[pattern] = layer_graph.to(x.device)
            x = layer(x, local[pattern], hubs=hubs, hub_graph=hub_graph)
        return x

    def _has_plain_projections(self) -> bool:
        """Return whether the matrices of K' and V' may be used without calling the modules."""
        layers: Any = self.layers
        attentions = [layer.attention.sublayer for layer in layers]
        return all(
            is_plain(linear, nn.Linear)
            for attention in attentions
            for linear in (attention.hub_key, attention.hub_value)
        )


def _split_texts(mask: Tensor, sequences: SequenceBatch) -> Sequence[Tensor]:
    """Return the part of a token mask that belongs to each text, without padding."""
    if sequences.sizes is not None:
        masks: Sequence[Tensor] = mask.split(sequences.packed()[1])
        return masks
    if not sequences.has_padding:
        return mask.unbind()
    rows = zip(mask, sequences.extents, strict=True)
    return [row[e.first : e.first + e.size] for row, e in rows]


def _positions(mask: Tensor) -> list[int]:
    """Return the positions where the mask is not 0."""
    positions: list[int] = mask.nonzero().flatten().tolist()
    return positions


def _local_graph(
    pattern: Pattern, hubs_by_text: Sequence[Sequence[int]], sizes: list[int] | None, count: int
) -> Graph:
    """Return the graph of a pattern, with edges from the global tokens (hubs) of each text to all
    tokens of the text.
    """
    if sizes is None:
        return (pattern | hubs(hubs_by_text[0], reads=False)).bind(count)
    sources = [
        hubs(text_hubs, reads=False).bind(size)
        for text_hubs, size in zip(hubs_by_text, sizes, strict=True)
    ]
    of_texts = pattern if isinstance(pattern, Graph) else batch(pattern, sizes)
    return (of_texts | batch(sources)).bind(count)


class LongformerModel(TextModel):
    """Text model whose calls take a mask of the hubs, the tokens with global attention; by default
    those of the question, before the first ``separator``, in question answering.
    """

    backbone: LongformerBackbone
    separator: int | None = None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        global_attention_mask: Tensor | None = None,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        **other: Any,
    ) -> Tensor:
        """Return the last hidden states, ``[B, T, width]``, or ``[N, width]`` of a packed batch.
        ``global_attention_mask`` has the shape of ``input_ids``, 1 for hubs.
        """
        sequences = SequenceBatch(
            input_ids,
            attention_mask,
            sizes=sizes,
            positions=positions,
            cache=other.pop("cache", None),
        )
        if global_attention_mask is None and self.separator is not None:
            global_attention_mask = _question_tokens(input_ids, self.separator, sequences)
        x = self.embedding(input_ids, sequences.positions, token_type_ids)
        states: Tensor = self.backbone(
            x, sequences, graph=graph, global_attention_mask=global_attention_mask, **other
        )
        return states


def _question_tokens(input_ids: Tensor, separator: int, sequences: SequenceBatch) -> Tensor:
    """Return a mask of the tokens before the first separator of each text, on the CPU."""
    ends, attention_mask = input_ids.cpu() == separator, sequences.attention_mask
    real = torch.ones_like(ends) if attention_mask is None else attention_mask.cpu().bool()
    lengths = [ends.shape[-1]] if sequences.sizes is None else sequences.packed()[1]
    texts = zip((ends & real).split(lengths, -1), real.split(lengths, -1), strict=True)
    masks = []
    for text_ends, text in texts:
        if ((text_ends.sum(-1) < 2) & text.any(-1)).any():
            raise ArgumentError(
                "input_ids",
                expected=f"separators (token {separator}) after the question and after the text",
                got="a text with fewer than two separators",
                remedy="tokenise question and text as a pair, or give global_attention_mask to the "
                "model without its head, model.trunk",
            )
        masks.append(text_ends.cumsum(-1) == 0)
    return torch.cat(masks or [ends], -1)
