"""Output heads of text models: language modelling, classification of texts and tokens, extraction.

The heads map states to logits; :class:`LanguageModel`, :class:`TextClassifier`,
:class:`TokenClassifier`, :class:`ExtractiveSummarizer` and :class:`Seq2SeqLanguageModel` put one on
a text model, and are what is trained: called with :class:`edgewise.layers.Tokens`.
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.errors import ArgumentError
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.encoder_decoder import EncoderDecoderModel
from edgewise.layers.pooling import Pool, Pooling
from edgewise.layers.sequences import Memory
from edgewise.layers.text import TextModel
from edgewise.layers.tokens import Tokens
from edgewise.layers.transformer import activation


class ClassificationHead(nn.Module):
    r"""Logits of a text, :math:`W \tanh(P x_0)` of its first token (BERT) or another pooling.

    Args:
        width: of the states.
        out_width: how many logits.
        pool: which state, or which mean of them; see :class:`edgewise.layers.Pool`.
        act: in the place of tanh.
        dropout: before W.
    """

    def __init__(
        self,
        width: int,
        out_width: int,
        *,
        pool: Pooling = "class",
        act: str = "tanh",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pool, self.dense, self.act = Pool(pool), nn.Linear(width, width), activation(act)
        self.dropout, self.output = nn.Dropout(dropout), nn.Linear(width, out_width)

    def forward(self, states: Tensor, sizes: Sizes | None = None) -> Tensor:
        """``[B, out_width]`` from ``[B, T, width]``, or from a packed batch ``[N, width]``."""
        pooled = self.act(self.dense(self.pool(states, sizes)))
        logits: Tensor = self.output(self.dropout(pooled))
        return logits


class LastTokenHead(nn.Module):
    """Logits of a text by its last token, which has read all others of a causal model (GPT).

    Args:
        width: of the states.
        out_width: how many logits.
        dropout: before the map, which has no bias.
    """

    def __init__(self, width: int, out_width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool, self.dropout = Pool("last"), nn.Dropout(dropout)
        self.output = nn.Linear(width, out_width, bias=False)

    def forward(self, states: Tensor, sizes: Sizes | None = None) -> Tensor:
        """``[B, out_width]`` from ``[B, T, width]``, or from a packed batch ``[N, width]``."""
        logits: Tensor = self.output(self.dropout(self.pool(states, sizes)))
        return logits


class TokenClassificationHead(nn.Sequential):
    """Logits of every token, ``[..., T, out_width]`` from states ``[..., T, width]``.

    Args:
        width: of the states.
        out_width: how many logits.
        dropout: before the map.
    """

    def __init__(self, width: int, out_width: int, *, dropout: float = 0.1) -> None:
        super().__init__(nn.Dropout(dropout), nn.Linear(width, out_width))


class LanguageModel(nn.Module):
    """A causal or masked language model: logits of the next token, or of one that is hidden.

    Args:
        trunk: a text model, whose own head gives the logits.
    """

    def __init__(self, trunk: TextModel) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(
        self, tokens: Tokens, places: Tensor | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """``[N, vocabulary]``, or ``[M, vocabulary]`` where only these of the N tokens count.

        Args:
            tokens: of the texts.
            places: which of them count.
            cache: what was kept of the texts so far, which these tokens go on with.

        Raises:
            ArgumentError: a cache, and a model that would keep ever more in it.
        """
        if cache is None:
            states = tokens.states(self.trunk)
        else:
            self._check_goes_on()
            states = tokens.states(self.trunk, cache=cache)
        return self.trunk.logits(states if places is None else states[places])

    def _check_goes_on(self) -> None:
        if not getattr(self.trunk.reader, "goes_on", False):
            raise ArgumentError(
                "data.consecutive",
                expected="a model that carries something of bounded size from text to text",
                got=f"one that reads by a {type(self.trunk.reader).__name__}",
                remedy="choose transformer_xl, compressive, lstm, gru or rnn, or data.consecutive"
                " false",
            )


class TextClassifier(nn.Module):
    """A classifier of texts: logits of each.

    Args:
        trunk: a text model; its head for tokens is taken away, as nothing would train it.
        head: from states to logits.

    Attributes:
        labels: what the classes are called, where a checkpoint says it.
    """

    labels: tuple[str, ...] = ()

    def __init__(self, trunk: TextModel, head: ClassificationHead | LastTokenHead) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head = trunk, head

    def forward(self, tokens: Tokens) -> Tensor:
        """``[B, out_width]``."""
        logits: Tensor = self.head(tokens.states(self.trunk), tokens.lengths())
        return logits


class TokenClassifier(nn.Module):
    """A classifier of words, such as a tagger: the head sees the mean of each word's tokens.

    Args:
        trunk: a text model; its head for tokens is taken away, as nothing would train it.
        head: from states to logits.

    Attributes:
        labels: what the classes are called, where a checkpoint says it.
    """

    labels: tuple[str, ...] = ()

    def __init__(self, trunk: TextModel, head: TokenClassificationHead) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head, self.pool = trunk, head, Pool("mean")

    def forward(self, tokens: Tokens, words: Sizes | None = None) -> Tensor:
        """``[W, out_width]`` for words of so many tokens each, which are all that there are.

        Without ``words`` each token is one.
        """
        states = tokens.states(self.trunk)
        logits: Tensor = self.head(states if words is None else self.pool(states, words))
        return logits


class Seq2SeqLanguageModel(nn.Module):
    """A sequence-to-sequence language model: logits of each next token of the target.

    Args:
        model: reads the source and the target.
    """

    def __init__(self, model: EncoderDecoderModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """``[M, vocabulary]`` for the M tokens of the targets, both packed or both padded."""
        states = self.model(
            source.ids,
            source.mask,
            target.ids,
            target.mask,
            sizes=source.sizes,
            decoder_sizes=target.sizes,
        )
        if target.sizes is None:
            states = states.flatten(0, 1) if target.mask is None else states[target.mask.bool()]
        return self.model.logits(states)

    def memory(self, source: Tokens, padding: int) -> Memory:
        """The sources as :func:`edgewise.decoding.generate` wants them: padded side by side."""
        padded = source.padded(padding)
        return self.model.encode(padded.ids, padded.mask)
