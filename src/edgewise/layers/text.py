"""Text models: from token ids to states and logits.

:class:`TextModel` consists of :class:`TextEmbedding`, :class:`Backbone` (Transformer layers) and
:class:`LanguageModelHead`, in this order. ``sequences.py`` handles padding, packing and caching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.biases import EdgeTerms, add_terms
from edgewise.graphs import Pattern, check_graph
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.sequences import Memory, SequenceBatch
from edgewise.layers.transformer import TransformerStack, activation, apply_dropout


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
