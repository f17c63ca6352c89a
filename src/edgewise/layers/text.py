"""Language models: token ids in, states and logits out.

In the order of a forward pass: :class:`TextEmbedding`; :class:`Reader`, the Transformer layers on
padded, packed or cached sequences; :class:`LanguageModelHead`; and :class:`TextModel`, all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.biases import add_terms
from edgewise.checks import bound
from edgewise.encodings import packed_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, batch, complete
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.transformer import TransformerStack


class TextEmbedding(nn.Module):
    """Vectors of tokens, of their positions and of their types, summed.

    Args:
        vocabulary: how many tokens there are.
        width: of the features.
        positions: one of :data:`edgewise.encodings.ADDED`, or none.
        types: how many types of tokens (BERT's two sentences), 0 for none.
        norm: after the sum.
        dropout: last.
        scale: of the tokens' vectors; √width in the first Transformer.
        padding: the id of padding, where positions count only other tokens, from ``padding + 1``
            on (RoBERTa).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: nn.Module | None = None,
        types: int = 0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scale: float = 1.0,
        padding: int | None = None,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.tokens.weight, std=0.02 if scale == 1.0 else width**-0.5)
        self.positions, self.scale, self.padding = positions, scale, padding
        self.types = nn.Embedding(types, width) if types else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """``[..., T, width]`` from ids ``[..., T]``; types are 0 where not given.

        Raises:
            ArgumentError: an id that the vocabulary does not have, more tokens than positions.
        """
        try:
            x = _scaled(self.tokens(ids), self.scale)
        except IndexError as error:
            raise self._unknown_token(ids) from error
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids) if types is None else types)
        if self.positions is not None:
            x = self.positions(x, self._counted(ids, positions))
        out: Tensor = self.dropout(self.norm(x))
        return out

    def _counted(self, ids: Tensor, positions: Tensor | None) -> Tensor | None:
        if self.padding is None:
            return positions
        if positions is not None:
            return positions + self.padding + 1
        real = (ids != self.padding).long()
        return real.cumsum(-1) * real + self.padding

    def _unknown_token(self, ids: Tensor) -> ArgumentError:
        return ArgumentError(
            "input_ids",
            expected=f"ids from 0 to {self.tokens.num_embeddings - 1}, the vocabulary's",
            got=f"ids from {int(ids.min())} to {int(ids.max())}",
            remedy="use the tokenizer that the model was made for",
        )


@dataclass(frozen=True, eq=False)
class Memory:
    """Another sequence that a decoder reads, such as an encoder's output or an image's patches.

    Attributes:
        states: ``[..., S, width]``.
        mask: ``[B, S]``, 0 where a state is padding; ``None`` where none is.
        sizes: how many of the S states each member of a packed batch has.
    """

    states: Tensor
    mask: Tensor | None = None
    sizes: Sizes | None = None

    def terms(self, targets: int, sizes: Sizes | None) -> dict[str, Any]:
        """Arguments of a decoder layer that reads it, for so many targets of these sizes."""
        if (sizes is None) != (self.sizes is None):
            raise ArgumentError(
                "sizes",
                expected="source and target both packed, or both padded",
                got="sizes for one of them",
                remedy="pass sizes for both, or an attention mask for both",
            )
        pattern = complete() if sizes is None else batch(complete(), sizes, self.sizes)
        graph = bound(pattern, targets, self.states.shape[-2], self.states.device)
        bias = padding_bias(self.mask, graph, self.states)
        return {"source": self.states, "source_graph": graph, "source_bias": bias}

    def repeated(self, times: int) -> Memory:
        """The same with every member of the batch so many times in a row."""
        mask = None if self.mask is None else self.mask.repeat_interleave(times, 0)
        return Memory(self.states.repeat_interleave(times, 0), mask)


class Reader(nn.Module):
    """Transformer layers with what sequences need: padding, packing, positions and a cache.

    Args:
        stack: the layers, and the pattern that they read where a call gives no other.
        relative: positions on the edges; :data:`edgewise.encodings.RELATIVE`.
    """

    def __init__(self, stack: TransformerStack, *, relative: nn.Module | None = None) -> None:
        super().__init__()
        self.stack, self.relative = stack, relative

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """States of x, ``[..., T, width]``.

        Args:
            x: ``[B, T, width]``, or a packed batch ``[N, width]`` with ``sizes``.
            attention_mask: ``[B, T]``, 0 where a node is padding, which nobody reads; with a
                cache, the nodes that it holds come first.
            sizes: how many of the N nodes each sequence of a packed batch has.
            positions: ``[..., T]``, for rotary layers; by default 0, 1, ... in each sequence.
            graph: who reads whom, in place of the stack's own pattern.
            memory: another sequence to read.
            cache: what earlier calls computed; the nodes of x come after it.

        Raises:
            ArgumentError: a mask or sizes that do not fit x, or both; a graph of other sizes.
        """
        count, past = x.shape[-2], cache.length if cache is not None else 0
        positions = positions_of(x, attention_mask, sizes, positions, past)
        pattern = self.stack.graph if graph is None else graph
        if sizes is not None and not isinstance(pattern, Graph):
            pattern = batch(pattern, sizes)
        own = bound(pattern, count, past + count, x.device)
        terms: dict[str, Any] = dict(self.relative(own)) if self.relative is not None else {}
        terms["bias"] = add_terms(terms.get("bias"), padding_bias(attention_mask, own, x))
        if memory is not None:
            terms.update(memory.terms(count, sizes))
        states: Tensor = self.stack(x, own, positions=positions, cache=cache, **terms)
        if cache is not None:
            cache.length += count
        return states


class LanguageModelHead(nn.Module):
    r"""Logits of tokens by their vectors, :math:`E\,f(x) \cdot \mathrm{scale} + b`.

    Args:
        vocabulary: how many tokens there are.
        width: of the states; for a head that is not tied, or has f.
        tied: E is the embedding's own matrix (Press and Wolf, 2017), else one of its own.
        bias: whether there is b.
        transform: f; BERT's is a linear map, GELU and a norm.
        scale: T5's is width^-0.5.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        tied: bool = True,
        bias: bool = False,
        transform: nn.Module | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary, width))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        self.transform = nn.Identity() if transform is None else transform
        self.scale = scale

    def forward(self, states: Tensor, tokens: Tensor) -> Tensor:
        """``[..., vocabulary]`` from states ``[..., width]`` and the embedding's matrix."""
        weight = tokens if self.weight is None else self.weight
        return nn.functional.linear(_scaled(self.transform(states), self.scale), weight, self.bias)


class TextModel(nn.Module):
    """A language model: an embedding, a reader and a head.

    Args:
        embedding: of ids.
        reader: of features; :class:`edgewise.layers.Reader`.
        head: from states and the tokens' vectors to logits; ``None`` where there is none.
        pooler: from states to a vector a sequence, where a checkpoint brings one.
    """

    def __init__(
        self,
        embedding: TextEmbedding,
        reader: nn.Module,
        head: nn.Module | None,
        *,
        pooler: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.reader, self.head, self.pooler = embedding, reader, head, pooler

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The last hidden state, ``[B, T, width]``, or ``[N, width]`` of a packed batch.

        Args:
            input_ids: ``[B, T]``, or ``[N]`` with ``sizes``.
            attention_mask: ``[B, T]``, 0 where a token is padding.
            token_type_ids: like ``input_ids``, where the model has types.
            sizes: how many of the N tokens each text of a packed batch has.
            positions: like ``input_ids``; by default 0, 1, ... in each text.
            graph: who reads whom, in place of the model's own pattern.
            memory: another sequence to read, for decoders.
            cache: what earlier calls computed; these tokens come after it.
        """
        past = cache.length if cache is not None else 0
        positions = positions_of(input_ids[..., None], attention_mask, sizes, positions, past)
        x = self.embedding(input_ids, positions, token_type_ids)
        states: Tensor = self.reader(
            x,
            attention_mask,
            sizes=sizes,
            positions=positions,
            graph=graph,
            memory=memory,
            cache=cache,
        )
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Logits of every token ``[..., vocabulary]``, for states of any leading shape."""
        if self.head is None:
            raise ArgumentError(
                "model",
                expected="a model with a head, for logits of tokens",
                got="a model without one, as its checkpoint has none",
                remedy="load the checkpoint of a language model (...ForMaskedLM, ...ForCausalLM)",
            )
        logits: Tensor = self.head(states, self.embedding.tokens.weight)
        return logits


def positions_of(
    x: Tensor,
    mask: Tensor | None,
    sizes: Sizes | None,
    positions: Tensor | None = None,
    past: int = 0,
) -> Tensor | None:
    """The positions given, else those that sizes or a cache imply; ``None`` for 0, 1, ...

    Raises:
        ArgumentError: a mask or sizes that do not fit x ``[..., T, width]``.
    """
    check_layout(x, mask, sizes, past)
    if positions is not None:
        return positions
    if sizes is not None:
        return packed_positions(sizes).to(x.device)
    return torch.arange(past, past + x.shape[-2], device=x.device) if past else None


def padding_bias(mask: Tensor | None, graph: Graph, like: Tensor) -> Tensor | None:
    """``[B, E, 1]``: -inf on the edges out of padding; ``None`` where there is no padding."""
    if mask is None or bool(mask.all()):
        return None
    reads = mask.bool()[:, graph.source, None]
    return torch.zeros(reads.shape, dtype=like.dtype, device=like.device).masked_fill(
        ~reads, -torch.inf
    )


def check_layout(x: Tensor, mask: Tensor | None, sizes: Sizes | None, past: int) -> None:
    """Mask and sizes fit the features."""
    count = x.shape[-2]
    if mask is not None and tuple(mask.shape) != (*x.shape[:-2], past + count):
        raise ArgumentError(
            "attention_mask",
            expected=f"shape {[*x.shape[:-2], past + count]}, as the tokens have",
            got=f"shape {list(mask.shape)}",
            remedy="give 1 for every token and 0 for padding, cached tokens first",
        )
    if sizes is None:
        return
    if x.dim() != 2 or mask is not None or past or int(torch.as_tensor(sizes).sum()) != count:
        raise ArgumentError(
            "sizes",
            expected="the lengths of the sequences on one packed axis, without mask or cache",
            got=f"sizes that sum to {int(torch.as_tensor(sizes).sum())} for {list(x.shape[:-1])}"
            f" tokens{', a mask' if mask is not None else ''}{', a cache' if past else ''}",
            remedy="concatenate the sequences, or pad them and pass attention_mask",
        )


def _scaled(x: Tensor, scale: float) -> Tensor:
    return x if scale == 1.0 else x * scale  # a pass over x less, for most models
