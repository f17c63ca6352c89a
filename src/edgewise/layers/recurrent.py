"""Recurrent baselines (RNN, LSTM, GRU)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from edgewise._utils.arguments import check_even
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.layers.cache import Cache
from edgewise.layers.text import (
    LanguageModelHead,
    Memory,
    SequenceBatch,
    TextEmbedding,
    TextModel,
    with_padding,
)


class RecurrentBackbone(nn.Module):
    """Recurrent network over a sequence, :math:`h_t = f(x_t, h_{t - 1})`.

    Args:
        kind: ``torch.nn.RNN``, ``LSTM`` or ``GRU``.
        bidirectional: read the sequence also backwards; each direction gives half of the state.
        dropout: dropout rate after each layer.

    Raises:
        ArgumentError: ``bidirectional`` is set and ``width`` is odd.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.RecurrentBackbone(torch.nn.LSTM, 16, depth=2)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    bounded_cache = True
    """Whether the cache has constant size, so that a text of any length can be read in parts."""

    def __init__(
        self,
        kind: Callable[..., nn.RNNBase],
        width: int,
        depth: int,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        if bidirectional:
            check_even("width", width, "each direction computes half of the features")
        between = dropout if depth > 1 else 0.0  # PyTorch warns if a single layer has dropout.
        half = width // directions
        self.cell = kind(width, half, depth, dropout=between, bidirectional=bidirectional)
        self.caches = not bidirectional
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Return the states of x, zero at padding; see :class:`edgewise.layers.Backbone`.

        Raises:
            ArgumentError: ``graph`` or ``memory`` is given, or a cache is given to a bidirectional
                network.
        """
        for name, argument in (("graph", graph), ("memory", memory)):
            if argument is not None:
                raise ArgumentError(
                    name,
                    expected="None, because a recurrent network reads the tokens in order",
                    got=type(argument).__name__,
                    remedy="use an attention model, such as gpt or transformer",
                )
        sequences = sequences or SequenceBatch.of_features(x)
        if self.cell.bidirectional and sequences.cache is not None:
            raise ArgumentError(
                "cache",
                expected="no cache, because a bidirectional network needs the whole text",
                got="a cache",
                remedy="build the model with bidirectional=False to generate text",
            )
        rows, sizes = sequences.unpadded()
        nodes = x.reshape(-1, x.shape[-1])
        texts = (nodes if rows is None else nodes[rows]).split(sizes)
        states = self._run(texts, x, sequences.cache)
        if rows is None:
            states = states.view(*x.shape[:-1], states.shape[-1])
        else:
            states = with_padding(states, rows, x)
        sequences.advance()
        out: Tensor = self.dropout(states)
        return out

    def _run(self, sequences: Sequence[Tensor], like: Tensor, cache: Cache | None) -> Tensor:
        """Return the concatenated states of sequences ``[T_i, width]``; empty ones are skipped."""
        rows = [number for number, sequence in enumerate(sequences) if len(sequence)]
        if not rows:
            return like.new_zeros(0, self.cell.hidden_size * (1 + self.cell.bidirectional))
        previous = cache.state(self) if cache is not None else None
        state = previous
        if previous is not None and len(rows) < len(sequences):
            state = tuple(tensor[rows] for tensor in previous)
        lengths = {len(sequences[n]) for n in rows}
        if len(lengths) == 1:  # PyTorch can neither trace nor transform packed sequences.
            out, new = self.cell(torch.stack([sequences[n] for n in rows], 1), _time_first(state))
            nodes: Tensor = out.transpose(0, 1).flatten(0, 1)
        else:
            packed = pack_sequence([sequences[n] for n in rows], enforce_sorted=False)
            out, new = self.cell(packed, _time_first(state))
            nodes = torch.cat(unpack_sequence(out))
        if cache is not None:
            state = _with_skipped(_batch_first(new), previous, rows, len(sequences))
            cache.keep_state(self, state)
        return nodes


class RecurrentModel(TextModel):
    """Recurrent language model; subclasses define the attribute ``cell`` (RNN, LSTM or GRU).

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of layers.
        bidirectional: read each text in both directions, with half of the hidden size each.
        dropout: dropout probability of the embedding and between the layers.
    """

    cell: type[nn.RNNBase]

    def __init__(
        self,
        vocab_size: int,
        *,
        width: int = 128,
        depth: int = 2,
        bidirectional: bool = False,
        dropout: float = 0.1,
    ) -> None:
        backbone = RecurrentBackbone(
            self.cell, width, depth, bidirectional=bidirectional, dropout=dropout
        )
        embedding = TextEmbedding(vocab_size, width, dropout=dropout)
        super().__init__(embedding, backbone, LanguageModelHead(vocab_size, width))


def _time_first(state: tuple[Tensor, ...] | None) -> Tensor | tuple[Tensor, ...] | None:
    """Convert cached states ``[B, layers, H]`` to the shape ``[layers, B, H]`` for the cell."""
    if state is None:
        return None
    time_first = tuple(tensor.transpose(0, 1).contiguous() for tensor in state)
    return time_first if len(time_first) == 2 else time_first[0]


def _batch_first(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    tensors = state if isinstance(state, tuple) else (state,)
    return tuple(tensor.transpose(0, 1) for tensor in tensors)


def _with_skipped(
    new: tuple[Tensor, ...], previous: tuple[Tensor, ...] | None, rows: list[int], count: int
) -> tuple[Tensor, ...]:
    """Return the states of all sequences: new, or for skipped ones the previous state or zeros."""
    if len(rows) == count:
        return new
    previous = previous or tuple(tensor.new_zeros(count, *tensor.shape[1:]) for tensor in new)
    index = torch.tensor(rows, device=new[0].device)
    return tuple(old.index_copy(0, index, x) for old, x in zip(previous, new, strict=True))
