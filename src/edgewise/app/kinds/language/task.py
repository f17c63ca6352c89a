"""Language modelling: prediction of the next token, or of masked tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.batches import Batch
from edgewise.app.train.task import Task
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.text import text_model
from edgewise.layers import LanguageModel, TextModel, Tokens

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class LanguageModeling(Task):
    r"""Next-token prediction, with logits ``[M, vocab_size]`` and next token ids ``[M]``.

    .. math:: L = -\frac1M \sum_t \log p(x_{t+1} \mid x_{\le t})

    The loss L is in nats per token. The metrics are ``bits``, :math:`L / \ln 2` per token, and
    ``perplexity``, :math:`e^L`.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.language import LanguageModeling
        >>> logits = torch.zeros(4, 10)  # four tokens, a vocabulary of ten
        >>> round(LanguageModeling().loss(logits, torch.arange(4)).item(), 4)
        2.3026
    """

    takes: ClassVar[tuple[str, ...]] = ("longest_text",)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        return LanguageModel(text_model(model, data_sizes))

    def check(self, model: nn.Module, batch: Batch) -> None:
        """Check on the longest text of the batch that the model is causal.

        Only a :class:`edgewise.layers.LanguageModel` with inputs :class:`edgewise.layers.Tokens` is
        checked.

        Raises:
            ArgumentError: the state of a token depends on a later token.
        """
        tokens = batch.inputs[0]
        if not (isinstance(model, LanguageModel) and isinstance(tokens, Tokens)):
            return
        sizes = torch.as_tensor(tokens.lengths()).tolist()
        longest = sizes.index(max(sizes))
        texts = tokens.ids if tokens.sizes is None else tokens.ids.split(sizes)
        dependence = find_dependence_on_later_token(model.trunk, texts[longest])
        if dependence is not None:
            border, later = dependence
            several = f"states of the first {border} tokens depend"
            first = "state of the first token depends" if border == 1 else several
            raise ArgumentError(
                "model",
                expected="a causal model, whose states do not depend on later tokens",
                got=f"a model whose {first} on token {later + 1}",
                remedy="choose a causal model such as gpt, a graph such as "
                '"causal()", or causal=True if the model has it; for bidirectional models, mask '
                "tokens with tasks.MaskedLanguageModeling",
            )

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:
        return {"bits": loss / math.log(2), "perplexity": math.exp(min(loss, 700.0))}


def find_dependence_on_later_token(model: TextModel, ids: Tensor) -> tuple[int, int] | None:
    """Return the end of a text whose states depend on a later token, and that token. Cuts after the
    first, middle and next to last token suffice: any pattern crosses at least one of these.
    """
    count, training = len(ids), model.training
    generator = torch.Generator().manual_seed(0)
    try:
        model.eval()
        with torch.enable_grad():
            x = model.embedding(ids[None]).detach().requires_grad_()
            states: Tensor = model.backbone(x)
        # Sum with random weights, because the plain sum over a LayerNorm's outputs is constant.
        mixed = (states * torch.randn(states.shape, generator=generator).to(states)).sum(-1)[0]
        for border in sorted({1, count // 2, count - 1} - {0}):
            (gradient,) = torch.autograd.grad(mixed[:border].sum(), x, retain_graph=True)
            later = gradient[0, border:].abs().sum(-1).nonzero().flatten()
            if len(later):
                return border, border + int(later[0])
    finally:
        model.train(training)
    return None


@dataclass(frozen=True)
class MaskedLanguageModeling(LanguageModeling):
    r"""Masked-token prediction, with logits ``[M, vocab_size]`` of the M selected tokens.

    .. math:: L = -\frac1M \sum_{t \in \mathrm{selected}} \log p(x_t \mid \tilde x)

    :func:`edgewise.app.kinds.language.masking.mask_tokens` selects and masks tokens. The masked
    text is x̃.

    Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.language import MaskedLanguageModeling
        >>> logits = torch.zeros(4, 10)  # four masked tokens, a vocabulary of ten
        >>> round(MaskedLanguageModeling().loss(logits, torch.arange(4)).item(), 4)
        2.3026
    """

    def check(self, model: nn.Module, batch: Any) -> None:
        """Do nothing, because predictions of masked tokens may depend on later tokens."""

    def metrics(self) -> dict[str, Metric]:
        return Classification().metrics()
