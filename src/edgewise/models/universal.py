"""Universal Transformer: one layer applied repeatedly, with position and step encodings.

Formula: h = h + position + step; a = h + attention(norm(h)); h = a + FFN(norm(a)); shared weights
Graph: complete by default, or any pattern or graph passed in the call
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: sinusoidal, of position and step, added before every step
Normalisation: softmax over the neighbourhood; layer norm before each sublayer and at the end
Update: residuals around attention and the feed-forward network; optional halting per token
Paper: Dehghani et al., Universal Transformers, 2018; halting: Graves, 2016 (arXiv:1603.08983)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.encodings.positions import positions_or_count
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.graphs import Pattern, check_graph, complete
from edgewise.layers import (
    Backbone,
    Cache,
    LanguageModelHead,
    SequenceBatch,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    TransformerStack,
    add_penalty,
    init_xavier,
)
from edgewise.layers.transformer import Order
from edgewise.models.text import TextConfig, text_model


@dataclass(frozen=True, kw_only=True)
class UniversalConfig(TextConfig):
    """Arguments of :func:`universal`.

    Args:
        depth: number of steps; with ``halting``, the maximum number of steps.
        halting: whether each token may stop before the last step (adaptive computation time).
        halting_threshold: sum of the halting probabilities of its steps at which a token stops.
        ponder_cost: weight of the ponder cost in the training loss, with ``halting`` (0 = none):
            the number of steps plus the remainder, averaged over the tokens.
        order: position of the norms: "pre" before each sublayer and at the end, "post" after each
            sublayer.
    """

    halting: bool = False
    halting_threshold: float = 0.99
    ponder_cost: float = 0.01
    act: str = "relu"
    graph: Pattern = complete()
    order: Order = "pre"


@text_model(UniversalConfig, ponder_cost=0)
def universal(config: UniversalConfig) -> TextModel:
    """Build a Universal Transformer language model, which applies one layer ``depth`` times.

    With ``cache=``, keys and values are cached for each step, and no step is skipped. Norms come
    before the sublayers, as in the authors' implementation (tensor2tensor). With ``order="post"``,
    as in the paper, the model does not learn at the default settings: each norm scales down the
    tokens together with the position and step codes, which are added before every step.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.universal(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, dropout, order = config.width, config.dropout, config.order
    if config.halting_threshold > 1:
        raise ArgumentError(
            "halting_threshold",
            expected="a probability above 0 and at most 1",
            got=repr(config.halting_threshold),
            remedy="choose for example 0.99",
        )
    layer = TransformerLayer(
        width, config.heads, config.ffn_dim, act=config.act, order=order, dropout=dropout
    )
    norm = nn.LayerNorm(width) if order == "pre" else nn.Identity()
    halt = nn.Linear(width, 1) if config.halting else None
    stack = UniversalStack(
        layer,
        config.depth,
        norm,
        config.graph,
        halt=halt,
        threshold=config.halting_threshold,
        ponder_cost=config.ponder_cost,
    )
    backbone = init_xavier(UniversalBackbone(stack))
    if halt is not None:
        nn.init.ones_(halt.bias)  # With this bias, training starts with few steps per token.
    # Embeddings enter with variance 1, as in the Transformer. Position and step codes have
    # variance 1/2 and are added before every step, so smaller embeddings would be lost in them.
    embedding = TextEmbedding(config.vocab_size, width, dropout=dropout, scale=width**0.5)
    head = LanguageModelHead(config.vocab_size, width)  # The head shares the embedding matrix.
    return TextModel(embedding, backbone, head)


class Halted(NamedTuple):
    """Weighted mean of the states of all steps, ``[..., N, width]``; number of steps ``[..., N]``;
    and remainder, 1 minus the halting probabilities before the last step.
    """

    states: Tensor
    steps: Tensor
    remainder: Tensor


class UniversalStack(TransformerStack):
    r"""Stack that applies one layer repeatedly, with encodings of position and step.

    .. math:: h^t = \mathrm{layer}(\tilde h^t), \qquad
              \tilde h^t_i = h^{t-1}_i + \mathrm{PE}(i) + \mathrm{PE}(t)

    With halting (adaptive computation time, Graves, 2016), token i stops at the first step
    :math:`N_i` at which the sum of :math:`p^t_i = σ(w \tilde h^t_i + b)` reaches the threshold, or
    at the last. The output is the mean of its states weighted by p, with the remainder
    :math:`R_i = 1 - \sum_{s < N_i} p^s_i` as the last weight. In training, the ponder cost
    :math:`τ\,\mathrm{mean}_i(N_i + R_i)` is added to the loss.
    """

    def __init__(
        self,
        layer: nn.Module,
        depth: int,
        norm: nn.Module,
        graph: Pattern,
        *,
        halt: nn.Module | None = None,
        threshold: float = 0.99,
        ponder_cost: float = 0.01,
    ) -> None:
        super().__init__([layer], norm, graph)
        self.depth, self.halt = depth, halt
        self.threshold, self.ponder_cost = threshold, ponder_cost

    def forward(
        self,
        x: Tensor,
        graph: Pattern | None = None,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        real: Tensor | None = None,
        **terms: Any,
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        states, steps, remainder = self.run(x, graph, positions=positions, cache=cache, **terms)
        if self.training and self.halt is not None and self.ponder_cost:
            real = torch.ones_like(steps, dtype=torch.bool) if real is None else real
            ponder = ((steps + remainder) * real).sum() / real.sum().clamp(min=1)
            add_penalty(self.ponder_cost * ponder)
        out: Tensor = self.norm(states)
        return out

    def run(
        self,
        x: Tensor,
        graph: Pattern | None = None,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        **terms: Any,
    ) -> Halted:
        """Return the states before the final norm, and the steps and remainder of each token."""
        graph = self.graph if graph is None else check_graph(graph)
        (layer,) = self.layers
        width = x.shape[-1]
        position = sinusoidal_positions(positions_or_count(x, positions), width).to(x)
        times = torch.arange(1, self.depth + 1, device=x.device)
        times = sinusoidal_positions(times, width).to(x)

        def apply_layer(step: int, h: Tensor) -> Tensor:
            step_cache = {} if cache is None else {"cache": cache.of_step(step)}
            state: Tensor = layer(h, graph, **terms, **step_cache)
            return state

        remainder = x.new_ones(x.shape[:-1])
        if self.halt is None:
            for step, time in enumerate(times):
                x = apply_layer(step, x + position + time)
            return Halted(x, self.depth * remainder, remainder)
        out, steps = torch.zeros_like(x), torch.zeros_like(remainder)
        running = torch.ones_like(remainder, dtype=torch.bool)
        for step, time in enumerate(times):
            h = x + position + time
            p = self.halt(h).squeeze(-1).sigmoid()
            x = torch.where(running[..., None], apply_layer(step, h), x)
            reached = 1 - remainder + p >= self.threshold
            halts = running & (reached if step + 1 < self.depth else torch.ones_like(reached))
            out = out + (torch.where(halts, remainder, p) * running)[..., None] * x
            steps, running = steps + running, running & ~halts
            remainder = remainder - p * running  # A token that stops keeps its remainder.
            # With a cache no step is skipped, because later tokens attend to the keys of all steps.
            if cache is None and not (x.is_meta or running.any()):
                break
        return Halted(out, steps, remainder)


class UniversalBackbone(Backbone):
    """Backbone that passes the padding mask to its stack, for the ponder cost."""

    def _run(
        self, x: Tensor, sequences: SequenceBatch, pattern: Pattern, cross: dict[str, Any]
    ) -> Tensor:
        mask = sequences.padding_mask
        real = None if mask is None else mask[..., -sequences.count :].bool()
        return super()._run(x, sequences, pattern, {**cross, "real": real})


class StepCounter(TransformerStack):
    """Stack that returns the number of steps of each token instead of its state."""

    def __init__(self, stack: UniversalStack) -> None:
        super().__init__([], nn.Identity(), stack.graph)
        self.stack = stack

    def forward(self, x: Tensor, graph: Pattern | None = None, **terms: Any) -> Tensor:
        """Return the numbers of steps ``[..., N, 1]`` of features ``[..., N, width]``."""
        terms.pop("real", None)
        return self.stack.run(x, graph, **terms).steps[..., None]


def num_steps(model: TextModel, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """Return the number of steps of each token of a Universal Transformer, ``[B, T]``.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> from edgewise.models.universal import num_steps
        >>> num_steps(models.universal(100, depth=3), torch.tensor([[5, 7]]))
        tensor([[3., 3.]])
    """
    stack = getattr(getattr(model, "backbone", None), "stack", None)
    if not isinstance(stack, UniversalStack):
        raise ArgumentError(
            "model",
            expected="a model built by edgewise.models.universal",
            got=type(model).__name__,
            remedy="pass the text model itself; in a run loaded with edgewise.load it is "
            "run.model.trunk",
        )
    sequences = SequenceBatch(input_ids, attention_mask)
    x = model.embedding(input_ids, sequences.positions)
    steps: Tensor = Backbone(StepCounter(stack))(x, sequences)[..., 0]
    return steps if attention_mask is None else steps * attention_mask.to(steps)
