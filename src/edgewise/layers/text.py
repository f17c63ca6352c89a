"""Text models: from token ids to states and logits.

:class:`TextModel` consists of :class:`TextEmbedding`, :class:`Backbone` (Transformer layers) and
:class:`LanguageModelHead`, in this order. :class:`SequenceBatch` handles padding, packing and
caching.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions
from edgewise.attention.biases import EdgeTerms, add_terms
from edgewise.encodings import packed_positions
from edgewise.graphs import Graph, Pattern, batch, check_graph, complete
from edgewise.graphs.batch import Sizes
from edgewise.graphs.graph import bind_graph
from edgewise.layers.cache import Cache
from edgewise.layers.transformer import TransformerStack, activation, apply_dropout


class TextModel(nn.Module):
    """Text model: embedding, backbone and output head.

    Args:
        embedding: embedding of ids.
        backbone: layers applied to the embeddings, such as :class:`edgewise.layers.Backbone`.
        head: maps states and the embedding matrix to logits, or ``None``.
        pooler: maps states to a vector for each sequence, if a checkpoint has one.
        width: feature size of the states; by default the size of the embeddings.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.gpt(1000)  # a TextModel
        >>> states = model(torch.randint(1000, (2, 10)))
        >>> model.logits(states).shape
        torch.Size([2, 10, 1000])
    """

    def __init__(
        self,
        embedding: TextEmbedding,
        backbone: nn.Module,
        head: nn.Module | None,
        *,
        pooler: nn.Module | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.backbone, self.head, self.pooler = embedding, backbone, head, pooler
        self.width = embedding.tokens.embedding_dim if width is None else width

    @property
    def caches(self) -> bool:
        """Return whether the model supports a cache."""
        return bool(getattr(self.backbone, "caches", True))

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
        """Return the last hidden states ``[B, T, width]``, or ``[N, width]`` of a packed batch.

        Args:
            input_ids: token ids ``[B, T]``, or ``[N]`` for a packed batch (concatenated texts).
            attention_mask: ``[B, T]``, 0 at padding.
            token_type_ids: token types, of the shape of ``input_ids``.
            sizes: number of tokens of each text of a packed batch.
            positions: positions, of the shape of ``input_ids``; by default 0, 1, ... in each text.
            graph: attention graph, instead of the default pattern of the model.
            memory: another sequence to attend to, for decoders.
            cache: state of earlier calls, whose tokens precede ``input_ids``.

        Raises:
            ArgumentError: mask or sizes do not match the tokens, or both are given; ``graph`` does
                not match the number of tokens; or an id is outside the vocabulary.
        """
        sequences = SequenceBatch(
            input_ids, attention_mask, sizes=sizes, positions=positions, cache=cache
        )
        x = self.embedding(input_ids, sequences.positions, token_type_ids)
        states: Tensor = self.backbone(x, sequences, graph=graph, memory=memory)
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return logits ``[..., vocabulary]`` for states ``[..., width]``."""
        if self.head is None:
            raise ArgumentError(
                "model",
                expected="a model with a language modelling head",
                got="a model without a head, loaded from a checkpoint without a head",
                remedy="load the checkpoint of a language model (...ForMaskedLM, ...ForCausalLM)",
            )
        logits: Tensor = self.head(states, self.embedding.tokens.weight)
        return logits


class TextEmbedding(nn.Module):
    r"""Sum of token, position and type embeddings, then norm and dropout.

    .. math:: x_t = \mathrm{dropout}(\mathrm{norm}(s\,E_{id_t} + P_t + S_{type_t}))

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: feature size.
        positions: position encoding that is added to the token embeddings, such as
            :class:`edgewise.encodings.Learned`, or ``None``.
        types: number of token types (2 in BERT, for two sentences); 0 for none.
        norm: norm of the sum.
        dropout: dropout rate.
        scale: factor s of token embeddings; √width in the original Transformer.
        padding: id of the padding token. If given, positions skip padding and start at
            ``padding + 1`` (RoBERTa).

    Example:
        >>> import torch
        >>> from edgewise import encodings, layers
        >>> embedding = layers.TextEmbedding(1000, 16, positions=encodings.Sinusoidal(16))
        >>> embedding(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        vocab_size: int,
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
        self.tokens = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.tokens.weight, std=0.02 if scale == 1.0 else width**-0.5)
        self.positions, self.scale, self.padding = positions, scale, padding
        self.types = nn.Embedding(types, width) if types else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return features ``[B, T, width]`` of ids ``[B, T]``, or ``[N, width]`` if packed.

        Args:
            ids: token ids ``[B, T]``, or ``[N]`` of a packed batch.
            positions: positions, of the shape of ``ids``; by default 0, 1, ...
            types: token types, of the shape of ``ids``; by default 0.

        Raises:
            ArgumentError: an id is outside the vocabulary, there are more tokens than positions, or
                ids are not integers.
        """
        if ids.dtype not in (torch.int64, torch.int32):
            raise ArgumentError(
                "input_ids",
                expected="ids of tokens, in int64 or int32",
                got=str(ids.dtype),
                remedy="convert input_ids with .long() if they are token ids",
            )
        if ids.dim() > 2:
            raise ArgumentError(
                "input_ids",
                expected="texts [B, T], or [N] with sizes",
                got=f"a tensor of {ids.dim()} axes, {list(ids.shape)}",
                remedy="call .flatten(0, -2) on input_ids, and .unflatten(0, ...) on the output",
            )
        try:
            x = self.tokens(ids)
        except IndexError as error:
            raise self._unknown_token(ids) from error
        if self.scale != 1.0:
            x = x * self.scale
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids) if types is None else types)
        if self.padding is not None:
            positions = self._positions_after_padding(ids, positions)
        if self.positions is not None:
            x = self.positions(x, positions)
        return apply_dropout(self.dropout, self.norm(x))

    def _positions_after_padding(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Return positions that skip padding and start at ``padding + 1`` (RoBERTa)."""
        assert self.padding is not None
        if positions is not None:
            return positions + self.padding + 1
        is_token = (ids != self.padding).long()
        return is_token.cumsum(-1) * is_token + self.padding

    def _unknown_token(self, ids: Tensor) -> ArgumentError:
        return ArgumentError(
            "input_ids",
            expected=f"ids from 0 to {self.tokens.num_embeddings - 1}, the ids of the vocabulary",
            got=f"ids from {int(ids.min())} to {int(ids.max())}",
            remedy="use the tokenizer that the model was built for",
        )


class Backbone(nn.Module):
    """Transformer layers over a batch of sequences.

    Args:
        stack: Transformer layers and their default attention pattern.
        relative: relative position encoding, such as :class:`edgewise.encodings.Buckets`. Called
            with the attention graph, it returns a bias or vectors of the edges for attention.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> backbone = models.bert(1000).backbone
        >>> backbone(torch.randn(2, 10, 128)).shape
        torch.Size([2, 10, 128])
    """

    def __init__(self, stack: TransformerStack, *, relative: nn.Module | None = None) -> None:
        super().__init__()
        self.stack, self.relative = stack, relative

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Return the states of x, of the same shape.

        Where possible, padding is removed before the layers and its states are 0; see
        :meth:`SequenceBatch.without_padding`. Otherwise the states of padding have no meaning.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing, positions and cache; none by default.
            graph: attention graph, instead of the default pattern of the stack.
            memory: another sequence to attend to, for decoder layers.

        Raises:
            ArgumentError: ``graph`` does not match the number of tokens, or only one of x and
                ``memory`` is packed.
        """
        sequences = sequences or SequenceBatch.of_features(x)
        pattern = self.stack.graph if graph is None else check_graph(graph)
        if memory is not None:
            return self._run(x, sequences, pattern, memory.terms(sequences))
        if not sequences.has_padding:
            return self._run(x, sequences, pattern, {})
        x, sequences, restore_padding = sequences.without_padding(x, pattern)
        return restore_padding(self._run(x, sequences, pattern, {}))

    def _run(
        self, x: Tensor, sequences: SequenceBatch, pattern: Pattern, cross: dict[str, Any]
    ) -> Tensor:
        """Apply the layers; ``cross`` are arguments of the cross-attention of decoder layers."""
        graph = sequences.bind(pattern)
        edge_terms: EdgeTerms = {} if self.relative is None else self.relative(graph)
        if sequences.has_padding:
            padding = sequences.padding_bias(graph, x)
            edge_terms = {**edge_terms, "bias": add_terms(edge_terms.get("bias"), padding)}
        states: Tensor = self.stack(
            x, graph, positions=sequences.positions, cache=sequences.cache, **edge_terms, **cross
        )
        sequences.advance()
        return states


class LanguageModelHead(nn.Module):
    r"""Language modelling head, :math:`\mathrm{logits} = E\,f(x) \cdot \mathrm{scale} + b`.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: feature size of the states.
        tied: whether E is the embedding matrix (Press and Wolf, 2017) or a separate matrix.
        bias: whether there is a bias b.
        transform: the function f (None = identity); :meth:`for_masked_tokens` uses that of BERT.
        scale: scale of the logits; width^-0.5 in T5.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> head = layers.LanguageModelHead(1000, 16)
        >>> head(torch.randn(2, 10, 16), torch.randn(1000, 16)).shape  # states, embedding matrix
        torch.Size([2, 10, 1000])
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        tied: bool = True,
        bias: bool = False,
        transform: nn.Module | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocab_size, width))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        self.transform = nn.Identity() if transform is None else transform
        self.scale = scale

    @classmethod
    def for_masked_tokens(
        cls, vocab_size: int, width: int, *, act: str, norm: Callable[[int], nn.Module]
    ) -> LanguageModelHead:
        """Create BERT's head, where f is a linear map, ``act`` and ``norm(width)``."""
        transform = nn.Sequential(nn.Linear(width, width), activation(act), norm(width))
        return cls(vocab_size, width, bias=True, transform=transform)

    def forward(self, states: Tensor, embedding_weight: Tensor) -> Tensor:
        """Return logits ``[..., vocabulary]`` for states ``[..., width]``.

        ``embedding_weight`` is the embedding matrix; it is used as E if the head is tied.
        """
        weight = embedding_weight if self.weight is None else self.weight
        states = self.transform(states)
        if self.scale != 1.0:
            states = states * self.scale
        return nn.functional.linear(states, weight, self.bias)


class SequenceBatch:
    """Sequences of a model call, with their padding, packing, positions and cache.

    Each token is a node of the attention graph. The attention mask is read once, so a call waits
    for the GPU at most once.

    Args:
        like: tokens ``[B, T]``, or a packed batch ``[N]``: concatenated sequences, with ``sizes``.
        attention_mask: ``[B, T]``, 0 at padding, which no node attends to. With a cache, cached
            nodes come first.
        sizes: number of nodes of each sequence of a packed batch.
        positions: positions, of the shape of the tokens; by default 0, 1, ... after cached
            positions.
        cache: state of earlier calls, whose nodes precede the nodes of this call.

    Attributes:
        count: T or N, the number of nodes of this call.
        past: number of cached nodes.
        positions: given positions, or those implied by sizes or cache; ``None`` for 0, 1, ...

    Raises:
        ArgumentError: the tokens are not a tensor with at least one axis, mask or sizes do not
            match the tokens, or both mask and sizes are given.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> ids, mask = torch.tensor([[5, 7, 0], [5, 8, 9]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
        >>> batch = layers.SequenceBatch(ids, mask)
        >>> batch.has_padding, batch.bind(graphs.causal()).num_edges
        (True, 6)
    """

    def __init__(
        self,
        like: Tensor,
        attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> None:
        if not isinstance(like, Tensor) or not like.dim():
            raise ArgumentError(
                "input_ids",
                expected="a tensor of ids: [B, T], or [N] for a packed batch with the argument "
                "`sizes`",
                got=f"a {type(like).__name__}: {like!r}"[:60],
                remedy="pass torch.tensor([ids])",
            )
        self.attention_mask, self.sizes, self.cache = attention_mask, sizes, cache
        self.shape, self.count, self.device = like.shape, like.shape[-1], like.device
        self.past = cache.length if cache is not None else 0
        self._extents: list[Extent] | None = None
        self._check(like.shape)
        if positions is None and sizes is not None:
            positions = packed_positions(sizes).to(like.device)
        elif positions is None and self.past:
            positions = torch.arange(self.past, self.past + self.count, device=like.device)
        self.positions = positions

    @classmethod
    def of_features(
        cls, x: Tensor, attention_mask: Tensor | None = None, *, sizes: Sizes | None = None
    ) -> SequenceBatch:
        """Create a batch from features ``[B, T, width]``, or packed features ``[N, width]``."""
        return cls(x[..., 0], attention_mask, sizes=sizes)

    def bind(self, pattern: Pattern, sources: int | None = None) -> Graph:
        """Return the graph of a pattern for this call, in which each sequence is separate.

        Args:
            pattern: attention pattern of a whole text.
            sources: number of nodes in the cache of a layer that has dropped the first nodes.
        """
        if self.sizes is not None and not isinstance(pattern, Graph):
            pattern = batch(pattern, self.sizes)
        sources = self.past + self.count if sources is None else sources
        if isinstance(pattern, Pattern) and not isinstance(pattern, Graph):
            return pattern.bind(self.count, sources).to(self.device)
        return bind_graph(pattern, self.count, sources, self.device)

    def padding_bias(self, graph: Graph, like: Tensor) -> Tensor | None:
        """Return the bias ``[B, E, 1]`` that is -inf on edges from padding; None without padding.

        ``like`` is a tensor whose dtype and device the bias has.
        """
        mask = self.padding_mask
        return padding_bias(None if mask is None else mask[..., -graph.num_sources :], graph, like)

    @property
    def padding_mask(self) -> Tensor | None:
        """The attention mask if there is padding, else ``None``."""
        return self.attention_mask if self.has_padding else None

    @property
    def has_padding(self) -> bool:
        """True if a token of this call or of the cache is padding."""
        return self.attention_mask is not None and any(
            extent.size < self.past + self.count for extent in self.extents
        )

    @property
    def extents(self) -> list[Extent]:
        """Extent of each row of the attention mask; empty without a mask."""
        # Not a cached_property, because torch.compile cannot trace its lock.
        if self._extents is None:
            self._extents = self._look()
        return self._extents

    def _look(self) -> list[Extent]:
        if self.attention_mask is None or not self.attention_mask.shape[-1]:
            return []
        real = self.attention_mask.reshape(-1, self.attention_mask.shape[-1]).bool().byte()
        size, new = real.sum(1), real[:, self.past :].sum(1)
        first, after = real.argmax(1), real.flip(1).argmax(1)
        facts = torch.stack([size, new, first, real.shape[1] - after], 1)
        return [Extent(*row) for row in facts.tolist()]

    @property
    def _in_one_piece(self) -> bool:
        """True if no text has padding between its tokens."""
        return all(extent.in_one_piece for extent in self.extents)

    def packed(self) -> tuple[Tensor | None, list[int]]:
        """Return the indices of tokens that are not padding, ``[N]``, and the length of each text.

        The indices are those of the flattened batch; they are ``None`` if there is no padding.

        Raises:
            ArgumentError: a text has padding between its nodes.
        """
        if not self._in_one_piece:
            raise ArgumentError(
                "attention_mask",
                expected="padding only before or after the tokens of a text",
                got="padding between the tokens of a text",
                remedy="move the padding to the end",
            )
        return self.unpadded()

    def unpadded(self) -> tuple[Tensor | None, list[int]]:
        """Return the same as :meth:`packed`, but allow padding between the tokens of a text."""
        if self.sizes is not None:
            return None, [int(size) for size in self.sizes]
        mask = self.padding_mask
        if mask is None:
            return None, [self.count] * self.shape[:-1].numel()
        sizes = [extent.new for extent in self.extents]
        return nonzero_indices(mask[..., self.past :].bool(), sum(sizes)), sizes

    def without_padding(
        self, x: Tensor, pattern: Pattern
    ) -> tuple[Tensor, SequenceBatch, Callable[[Tensor], Tensor]]:
        """Convert padded texts to a packed batch, so that no edges from padding are computed.

        Returns the input unchanged if there is no padding, a text has padding between its nodes, a
        cache is used, or ``pattern`` is a graph with a fixed number of nodes.

        Args:
            x: features ``[B, T, width]``, or ``[T, width]`` of one text.
            pattern: attention pattern of a text.

        Returns:
            Features and sequences of a packed batch, and a function that converts its states to the
            shape of x, 0 at padding.
        """
        fixed = self.cache is not None or isinstance(pattern, Graph)
        if fixed or not self.has_padding or not self._in_one_piece:
            return x, self, lambda states: states
        rows, sizes = self.packed()
        assert rows is not None
        positions = self.positions
        if positions is None:
            positions = torch.arange(self.count, device=x.device)
        flat, positions = x.flatten(0, -2)[rows], positions.expand(self.shape).flatten()[rows]
        packed = SequenceBatch(flat[:, 0], sizes=sizes, positions=positions)
        return flat, packed, lambda states: with_padding(states, rows, x)

    def right_padded(self, x: Tensor) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Tensor]]:
        """Convert features to one row for each text, with padding only at the end.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch or of one text.

        Returns:
            Features ``[texts, longest, width]``, 0 after the end of a text; a mask that is True at
            tokens, or ``None`` without padding; and a function that converts states to the shape of
            x, 0 at padding.

        Raises:
            ArgumentError: a text has padding between its nodes.
        """
        if self.sizes is None and not self.has_padding:
            return (x, None, lambda states: states) if x.dim() == 3 else (x[None], None, _first)
        rows, sizes = self.packed()
        packed = x if rows is None else x.flatten(0, 1)[rows]
        longest, lengths = max(sizes, default=0), torch.tensor(sizes, device=x.device)
        real = torch.arange(longest, device=x.device) < lengths[:, None]
        index = runs_and_positions(lengths, len(packed))  # Text and position of each token.
        padded = x.new_zeros(len(sizes), longest, x.shape[-1]).index_put(index, packed)

        def back(states: Tensor) -> Tensor:
            nodes = states[index]
            return nodes if rows is None else with_padding(nodes, rows, x)

        return padded, real, back

    def advance(self) -> None:
        """Add the number of nodes of this call to the cache length; called after all layers."""
        if self.cache is not None:
            self.cache.length += self.count

    def _check(self, shape: torch.Size) -> None:
        count, past, mask = self.count, self.past, self.attention_mask
        if mask is not None and tuple(mask.shape) != (*shape[:-1], past + count):
            raise ArgumentError(
                "attention_mask",
                expected=f"shape {[*shape[:-1], past + count]}, the shape of the tokens, cached "
                "tokens included",
                got=f"shape {list(mask.shape)}",
                remedy="give 1 for every token and 0 for padding, cached tokens first",
            )
        if self.sizes is None:
            return
        total = int(torch.as_tensor(self.sizes).sum())
        if len(shape) != 1 or mask is not None or past or total != count:
            raise ArgumentError(
                "sizes",
                expected=f"sizes that sum to {count} for tokens of shape [{count}], without "
                "attention mask or cache",
                got=f"sizes that sum to {total} for tokens of shape {list(shape)}"
                f"{', a mask' if mask is not None else ''}{', a cache' if past else ''}",
                remedy="concatenate the sequences, or pad them and pass attention_mask",
            )


class Extent(NamedTuple):
    """Position of the tokens that are not padding in one row of the attention mask.

    Attributes:
        size: number of these tokens.
        new: number of these tokens in this call, without cached tokens.
        first: index of the first of these tokens.
        end: index of the last of these tokens, plus 1.
    """

    size: int
    new: int
    first: int
    end: int

    @property
    def in_one_piece(self) -> bool:
        """True if there is no padding between tokens."""
        return not self.size or self.end - self.first == self.size


@dataclass(frozen=True, eq=False)
class Memory:
    """Another sequence that a decoder attends to, such as an encoder's output or image patches.

    Attributes:
        states: features ``[..., S, width]``.
        mask: ``[B, S]``, 0 at padding; ``None`` without padding, which is faster.
        sizes: number of states of each sequence of a packed batch.

    Example:
        >>> import torch
        >>> from edgewise.layers import Memory
        >>> Memory(torch.randn(2, 7, 16), torch.ones(2, 7)).repeated(3).states.shape
        torch.Size([6, 7, 16])
    """

    states: Tensor
    mask: Tensor | None = None
    sizes: Sizes | None = None

    def terms(self, sequences: SequenceBatch) -> dict[str, Any]:
        """Return the keyword arguments with which a decoder layer attends to these states."""
        if (sequences.sizes is None) != (self.sizes is None):
            raise ArgumentError(
                "sizes",
                expected="source and target sequences that are both packed or both padded",
                got="sizes only for source or only for target",
                remedy="pass sizes for source and target, or an attention mask for source and "
                "target",
            )
        packed = sequences.sizes is not None
        pattern = batch(complete(), sequences.sizes, self.sizes) if packed else complete()
        graph = bind_graph(pattern, sequences.count, self.states.shape[-2], self.states.device)
        bias = padding_bias(self.mask, graph, self.states)
        return {"source": self.states, "source_graph": graph, "source_bias": bias}

    def repeated(self, times: int) -> Memory:
        """Return this batch with each sequence repeated ``times`` times in a row."""
        mask = None if self.mask is None else self.mask.repeat_interleave(times, 0)
        return Memory(self.states.repeat_interleave(times, 0), mask)


def with_padding(states: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Scatter states of the nodes that are not padding into a padded batch, with 0 elsewhere.

    Args:
        states: ``[N, width]``.
        rows: flat indices of the nodes ``[N]``, from :meth:`SequenceBatch.packed`.
        like: features ``[..., T, any width]`` of the padded batch.
    """
    shape = *like.shape[:-1], states.shape[-1]
    empty = states.new_zeros(like.shape[:-1].numel(), states.shape[-1])
    return empty.index_copy(0, rows, states).view(shape)


def nonzero_indices(marked: Tensor, count: int) -> Tensor:
    """Return the indices of the ``count`` True entries of the flattened tensor ``marked``.

    Unlike ``torch.nonzero``, this does not wait for the GPU.
    """
    number = torch.arange(1, count + 1, device=marked.device)
    return torch.searchsorted(marked.flatten().cumsum(0), number)


def padding_bias(mask: Tensor | None, graph: Graph, like: Tensor) -> Tensor | None:
    """Return the bias ``[B, E, 1]`` that is -inf on edges from padding; ``None`` without a mask.

    Args:
        mask: ``[B, sources]``, 0 at padding.
        graph: graph with E edges.
        like: tensor whose dtype and device the bias has.
    """
    if mask is None:
        return None
    reads = mask.bool()[:, graph.source, None]
    return torch.zeros(reads.shape, dtype=like.dtype, device=like.device).masked_fill(
        ~reads, -torch.inf
    )


def _first(states: Tensor) -> Tensor:
    return states[0]
