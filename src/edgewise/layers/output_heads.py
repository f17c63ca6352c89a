"""Output heads of text models: language modelling, text classification and token classification.

A head maps states to logits; :class:`LanguageModel` and others combine a text model with a head,
and are called with :class:`edgewise.layers.Tokens`.
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs.batch import Sizes
from edgewise.layers.cache import Cache
from edgewise.layers.encoder_decoder import EncoderDecoderModel
from edgewise.layers.pooling import Pool, Pooling
from edgewise.layers.text import Memory, TextModel
from edgewise.layers.tokens import Tokens
from edgewise.layers.transformer import activation


class ClassificationHead(nn.Module):
    r"""Classification head :math:`W \tanh(P x_0)`, where x₀ is the pooled state of a text.

    Args:
        pool: pooling of the states, by default the first token; see :class:`edgewise.layers.Pool`.
        act: name of the activation function instead of tanh.
        dropout: dropout rate before W.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> model = layers.TextClassifier(models.bert(1000), layers.ClassificationHead(128, 2))
        >>> model(layers.Tokens(torch.randint(1000, (3, 10)))).shape
        torch.Size([3, 2])
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
        """Return logits ``[B, out_width]`` of states ``[B, T, width]`` or packed ``[N, width]``."""
        pooled = self.act(self.dense(self.pool(states, sizes)))
        logits: Tensor = self.output(self.dropout(pooled))
        return logits


class LastTokenHead(nn.Module):
    """Classification head :math:`W x_T` on the last token of a causal model (GPT).

    Args:
        dropout: dropout rate before W.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.LastTokenHead(16, 2)(torch.randn(3, 10, 16)).shape
        torch.Size([3, 2])
    """

    def __init__(self, width: int, out_width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool, self.dropout = Pool("last"), nn.Dropout(dropout)
        self.output = nn.Linear(width, out_width, bias=False)

    def forward(self, states: Tensor, sizes: Sizes | None = None) -> Tensor:
        """Return logits ``[B, out_width]`` of states ``[B, T, width]`` or packed ``[N, width]``."""
        logits: Tensor = self.output(self.dropout(self.pool(states, sizes)))
        return logits


class TokenClassificationHead(nn.Sequential):
    """Token classification head: logits ``[..., T, out_width]`` from states ``[..., T, width]``.

    Args:
        dropout: dropout rate before the linear map.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.TokenClassificationHead(16, 5)(torch.randn(3, 10, 16)).shape
        torch.Size([3, 10, 5])
    """

    def __init__(self, width: int, out_width: int, *, dropout: float = 0.1) -> None:
        super().__init__(nn.Dropout(dropout), nn.Linear(width, out_width))


class LanguageModel(nn.Module):
    """Language model: returns logits of the next token (causal models) or of masked tokens.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> model = layers.LanguageModel(models.gpt(1000))
        >>> model(layers.Tokens(torch.randint(1000, (3, 10)))).shape
        torch.Size([30, 1000])
    """

    def __init__(self, trunk: TextModel) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(
        self, tokens: Tokens, positions: Tensor | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """Return logits ``[N, vocabulary]``, or ``[M, vocabulary]`` at ``positions`` ``[M]``.

        Raises:
            ArgumentError: ``cache`` is given to a model whose cache grows with the text.
        """
        if cache is None:
            states = tokens.states(self.trunk)
        else:
            self._check_bounded_cache()
            states = tokens.states(self.trunk, cache=cache)
        return self.trunk.logits(states if positions is None else states[positions])

    def _check_bounded_cache(self) -> None:
        if not getattr(self.trunk.backbone, "bounded_cache", False):
            raise ArgumentError(
                "data.consecutive",
                expected="a model that carries a state of bounded size from one window of text to "
                "the next",
                got=f"a model with the backbone {type(self.trunk.backbone).__name__}",
                remedy="choose the model transformer_xl, compressive, lstm, gru or rnn, or set "
                "data.consecutive=false",
            )


class TextClassifier(nn.Module):
    """Text classifier: a text model, without its language model head, and a head for each text.

    With a :class:`Pool` as head, it returns one state vector for each text. ``labels`` holds class
    names, if a checkpoint has them.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> model = layers.TextClassifier(models.gpt(1000), layers.LastTokenHead(128, 2))
        >>> model(layers.Tokens(torch.randint(1000, (3, 10)))).shape
        torch.Size([3, 2])
    """

    labels: tuple[str, ...] = ()

    def __init__(self, trunk: TextModel, head: ClassificationHead | LastTokenHead | Pool) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head = trunk, head

    def forward(self, tokens: Tokens) -> Tensor:
        """Return logits ``[B, out_width]``."""
        logits: Tensor = self.head(tokens.states(self.trunk), tokens.lengths())
        return logits


class TokenClassifier(nn.Module):
    """Word classifier, such as a tagger. The state of a word is the mean state of its tokens.

    ``labels`` holds class names, if a checkpoint has them.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> head = layers.TokenClassificationHead(128, 5)
        >>> model = layers.TokenClassifier(models.bert(1000), head)
        >>> model(layers.Tokens(torch.randint(1000, (3, 10)))).shape
        torch.Size([30, 5])
    """

    labels: tuple[str, ...] = ()

    def __init__(self, trunk: TextModel, head: TokenClassificationHead) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head, self.pool = trunk, head, Pool("mean")

    def forward(self, tokens: Tokens, words: Sizes | None = None) -> Tensor:
        """Return logits ``[W, out_width]``, one row per word.

        ``words`` are the numbers of tokens of the W words, by default one each.
        """
        states = tokens.states(self.trunk)
        logits: Tensor = self.head(states if words is None else self.pool(states, words))
        return logits


class Seq2SeqLanguageModel(nn.Module):
    """Sequence-to-sequence model: returns logits of the next target token at each position.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> model = layers.Seq2SeqLanguageModel(models.transformer(1000))
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(layers.Tokens(source), layers.Tokens(target)).shape
        torch.Size([16, 1000])
    """

    def __init__(self, model: EncoderDecoderModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """Return logits ``[M, vocabulary]`` at the M target tokens, without padding."""
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
        """Encode the source texts: the ``memory`` of :func:`edgewise.decoding.generate`."""
        padded = source.padded(padding)
        return self.model.encode(padded.ids, padded.mask)
