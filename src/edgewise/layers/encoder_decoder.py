"""Encoder-decoder models: the source is read whole, the target token by token while reading it."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.sequences import Memory, SequenceBatch
from edgewise.layers.text import LanguageModelHead, TextEmbedding


class EncoderDecoder(nn.Module):
    """Two stacks: the decoder reads its own past, and all that the encoder made of the source.

    On features, this is ``torch.nn.Transformer``: ``model(x, y)`` for source features
    ``[B, S, width]`` and target features ``[B, T, width]``.

    Args:
        encoder: reads the source.
        decoder: reads the target; its layers are :class:`edgewise.layers.CrossBlock`.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """The decoder's states, ``[B, T, width]``; masks are 0 where a node is padding."""
        sequences = SequenceBatch.of_features(source, source_mask)
        memory = Memory(self.encoder(source, sequences), sequences.padding_mask)
        out: Tensor = self.decoder(
            target, SequenceBatch.of_features(target, target_mask), memory=memory
        )
        return out


class EncoderDecoderModel(nn.Module):
    """An :class:`EncoderDecoder` of token ids, with a head.

    Args:
        embedding: of the source's ids, and of the target's where they share one.
        core: the two stacks.
        head: from states and the tokens' vectors to logits.
        target_embedding: of the target's ids, where it has a vocabulary of its own.
    """

    def __init__(
        self,
        embedding: TextEmbedding,
        core: EncoderDecoder,
        head: LanguageModelHead,
        *,
        target_embedding: TextEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.core, self.head = embedding, core, head
        self.target_embedding = target_embedding

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        decoder_sizes: Sizes | None = None,
        graph: Pattern | None = None,
    ) -> Tensor:
        """The decoder's last hidden state ``[B, T, width]``; without its ids, the encoder's.

        Args:
            input_ids: the source, ``[B, S]``, or packed with ``sizes``.
            attention_mask: ``[B, S]``, 0 where a token is padding.
            decoder_input_ids: the target, ``[B, T]``, or packed with ``decoder_sizes``.
            decoder_attention_mask: ``[B, T]``, likewise.
            sizes: the lengths of packed sources.
            decoder_sizes: the lengths of packed targets.
            graph: who reads whom in the source, in place of the encoder's pattern.
        """
        memory = self.encode(input_ids, attention_mask, sizes=sizes, graph=graph)
        if decoder_input_ids is None:
            return memory.states
        return self.decode(decoder_input_ids, memory, decoder_attention_mask, sizes=decoder_sizes)

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
    ) -> Memory:
        """The source as a memory for :meth:`decode`."""
        sequences = SequenceBatch(input_ids, attention_mask, sizes=sizes, positions=positions)
        x = self.embedding(input_ids, sequences.positions)
        states = self.core.encoder(x, sequences, graph=graph)
        return Memory(states, sequences.padding_mask, sizes)

    def decode(
        self,
        decoder_input_ids: Tensor,
        memory: Memory,
        decoder_attention_mask: Tensor | None = None,
        *,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The decoder's states ``[B, T, width]`` of ids ``[B, T]``, after those in the cache."""
        sequences = SequenceBatch(
            decoder_input_ids,
            decoder_attention_mask,
            sizes=sizes,
            positions=positions,
            cache=cache,
        )
        x = self._target_embedding()(decoder_input_ids, sequences.positions)
        states: Tensor = self.core.decoder(x, sequences, graph=graph, memory=memory)
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Logits of every token ``[..., vocabulary]``, for states of any leading shape."""
        logits: Tensor = self.head(states, self._target_embedding().tokens.weight)
        return logits

    def _target_embedding(self) -> TextEmbedding:
        return self.embedding if self.target_embedding is None else self.target_embedding
