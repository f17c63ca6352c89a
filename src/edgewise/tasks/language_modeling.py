"""Causal language modelling: cross-entropy of the next token in nats, perplexity and bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.base_task import Task
from edgewise.batches import Batch
from edgewise.errors import ArgumentError
from edgewise.layers import LanguageModel, TextModel, Tokens
from edgewise.tasks.text import text_model

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class LanguageModeling(Task):
    r"""Outputs are scores ``[M, vocabulary]`` of the next token, targets its number ``[M]``.

    .. math:: L = -\frac1M \sum_t \log p(x_{t+1} \mid x_{\le t})

    The loss is in nats a token (of a character where these are the tokens); bits are
    :math:`L / \ln 2` and the perplexity :math:`e^L`.
    """

    takes: ClassVar[tuple[str, ...]] = ("longest",)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        return LanguageModel(text_model(model, data_sizes))

    def check(self, model: nn.Module, batch: Batch) -> None:
        """Refuse a model that is shown the answer: one in which a token reads a later one.

        It looks at the longest text of the batch; see :func:`read_ahead`. What is no
        :class:`edgewise.layers.LanguageModel` of :class:`edgewise.layers.Tokens` is trusted.

        Raises:
            ArgumentError: a state depends on a later token.

        """
        tokens = batch.inputs[0]
        if not (isinstance(model, LanguageModel) and isinstance(tokens, Tokens)):
            return
        sizes = torch.as_tensor(tokens.lengths()).tolist()
        longest = sizes.index(max(sizes))
        texts = tokens.ids if tokens.sizes is None else tokens.ids.split(sizes)
        found = read_ahead(model.trunk, texts[longest])
        if found is not None:
            border, late = found
            several = f"states of the first {border} tokens depend"
            first = "state of the first token depends" if border == 1 else several
            raise ArgumentError(
                "model",
                expected="one in which no token reads a later one, which is what it is to say",
                got=f"one whose {first} on token {late + 1}",
                remedy="choose one that reads backwards alone, such as gpt, a graph such as "
                '"causal()", or one_way=True of those that have it; to read both ways, hide '
                "words: tasks.MaskedLanguageModeling",
            )

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:
        return {"bits": loss / math.log(2), "perplexity": math.exp(min(loss, 700.0))}


def read_ahead(model: TextModel, ids: Tensor) -> tuple[int, int] | None:
    """A border that is read over, and the first token beyond it that is read; ``None`` if none is.

    What a state does not depend on has a gradient of exactly zero in it, however it is computed, so
    that this needs to know nothing of the model. Three borders are looked at: after the first
    token, in the middle and before the last. A window, blocks, a hub or a recurrence from the end
    reaches over one of them.

    Args:
        model: in any mode, which it keeps.
        ids: ``[T]``, of one text.

    Returns:
        how many tokens are before the border, and the place of the later one, from 0.

    """
    count, training = len(ids), model.training
    draw = torch.Generator().manual_seed(0)
    try:
        model.eval()
        with torch.enable_grad():
            x = model.embedding(ids[None]).detach().requires_grad_()
            states: Tensor = model.reader(x)
        # Not their sum, which a norm makes the same whatever they are.
        mixed = (states * torch.randn(states.shape, generator=draw).to(states)).sum(-1)[0]
        for border in sorted({1, count // 2, count - 1} - {0}):
            (gradient,) = torch.autograd.grad(mixed[:border].sum(), x, retain_graph=True)
            late = gradient[0, border:].abs().sum(-1).nonzero().flatten()
            if len(late):
                return border, border + int(late[0])
    finally:
        model.train(training)
    return None
