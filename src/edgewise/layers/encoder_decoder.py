"""Encoder-decoder models."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.text import LanguageModelHead, Memory, SequenceBatch, TextEmbedding


class EncoderDecoder(nn.Module):
    """Encoder and decoder on features; the decoder attends to its input and the encoder's output.

    Called as ``model(x [B, S, width], y [B, T, width])``, like ``torch.nn.Transformer``.

    Args:
        encoder: encoder of the source, such as an :class:`edgewise.layers.Backbone`.
        decoder: decoder with cross-attention, such as :class:`edgewise.layers.DecoderLayer`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from edgewise import graphs, layers
        >>> encoder = [layers.TransformerLayer(32, heads=4, ffn_dim=64)]
        >>> decoder = [layers.DecoderLayer(32, heads=4, ffn_dim=64)]
        >>> model = layers.EncoderDecoder(
        ...     layers.Backbone(layers.TransformerStack(encoder, nn.Identity(), graphs.complete())),
        ...     layers.Backbone(layers.TransformerStack(decoder, nn.Identity(), graphs.causal())),
        ... )
        >>> model(torch.randn(2, 10, 32), torch.randn(2, 8, 32)).shape
        torch.Size([2, 8, 32])
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
        """Return the states ``[B, T, width]`` of the decoder; masks are 0 at padding."""
        sequences = SequenceBatch.of_features(source, source_mask)
        memory = Memory(self.encoder(source, sequences), sequences.padding_mask)
        out: Tensor = self.decoder(
            target, SequenceBatch.of_features(target, target_mask), memory=memory
        )
        return out


class EncoderDecoderModel(nn.Module):
    """An :class:`EncoderDecoder` with token embeddings and an output head.

    Args:
        embedding: embedding of source ids, and of target ids unless ``target_embedding`` is given.
        core: encoder and decoder.
        head: maps states to logits of tokens.
        target_embedding: embedding of target ids, if source and target have different vocabularies.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.transformer(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model.logits(model(source, decoder_input_ids=target)).shape
        torch.Size([2, 8, 1000])
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
        """Return the decoder states ``[B, T, width]``; without target ids, the encoder states.

        Ids are ``[B, S]`` and ``[B, T]`` with masks that are 0 at padding, or concatenated texts
        ``[N]`` and ``[M]`` with ``sizes`` and ``decoder_sizes``. ``graph`` replaces the encoder's
        pattern.
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
        """Encode the source; the result is the argument ``memory`` of :meth:`decode`."""
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
        """Return the decoder states ``[B, T, width]`` of target ids.

        With ``cache``, the ids are those after earlier calls, and the mask includes those of
        earlier calls. ``positions`` and ``graph`` replace 0, 1, ... in each text and the decoder's
        pattern.
        """
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
        """Return logits ``[..., vocabulary]`` for states ``[..., width]``."""
        logits: Tensor = self.head(states, self._target_embedding().tokens.weight)
        return logits

    def _target_embedding(self) -> TextEmbedding:
        return self.embedding if self.target_embedding is None else self.target_embedding
