"""Universal Transformer: one layer again and again, told at each step where and when it is.

Formula: h = h + position + step; a = norm(h + attention(h)); h = norm(a + FFN(a)); the same layer
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections
Encoding: sinusoidal, of the position and of the step, added before every step
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connection, then a feed-forward network with its own; each token may stop early
Paper: Dehghani et al., Universal Transformers, 2018
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.encodings.positions import positions_or_count
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern, check_graph, complete
from edgewise.layers import (
    Cache,
    LanguageModelHead,
    Reader,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    TransformerStack,
    init_normal,
)


@checked()
def universal(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    halting: bool = False,
    threshold: float = 0.99,
    act: str = "relu",
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a Universal Transformer language model.

    ``model.logits(states)`` gives the logits of the tokens. One layer is applied ``depth`` times.
    On a causal graph the model can generate; with ``cache=`` each step keeps its own keys and
    values, and no step is skipped.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of steps, or their maximum with ``halting``.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        halting: let each token stop early (adaptive computation time).
        threshold: cumulative halting probability at which a token stops.
        act: activation function of the feed-forward networks, by name.
        dropout: dropout probability.
        graph: attention graph: which tokens each token attends to.
    """
    if threshold > 1:
        raise ArgumentError(
            "threshold",
            expected="a probability above 0",
            got=repr(threshold),
            remedy="choose 0.99, say",
        )
    layer = TransformerLayer(width, heads, feed_forward, act=act, dropout=dropout)
    halt = nn.Linear(width, 1) if halting else None
    stack = UniversalStack(layer, depth, graph, halt, threshold)
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    head = LanguageModelHead(vocabulary, width)  # by the embedding's matrix
    model = init_normal(TextModel(embedding, Reader(stack), head))
    if halt is not None:
        nn.init.ones_(halt.bias)  # few steps at first
    return model


class UniversalStack(TransformerStack):
    r"""One layer, several times, with coordinates of place and time.

    .. math:: h^t = \mathrm{layer}(\tilde h^t), \qquad
              \tilde h^t_i = h^{t-1}_i + \mathrm{PE}(i) + \mathrm{PE}(t)

    With halting (adaptive computation time, Graves, 2016), :math:`p^t_i = σ(w \tilde h^t_i + b)`;
    token i stops at the first t where :math:`\sum_{s \le t} p^s_i` reaches the threshold, or at the
    last. Its state then stays as it is for those that read it, and what comes out is the mean of
    its states, weighted by p; the last has what is left to 1.

    Args:
        layer: called ``layer(x, graph, **terms)``.
        depth: the most steps.
        graph: who reads whom, where a call gives no other.
        halt: from features to a number, or none.
        threshold: see above.
    """

    def __init__(
        self,
        layer: nn.Module,
        depth: int,
        graph: Pattern,
        halt: nn.Module | None = None,
        threshold: float = 0.99,
    ) -> None:
        super().__init__([layer], nn.Identity(), graph)
        self.depth, self.halt, self.threshold = depth, halt, threshold

    def forward(
        self,
        x: Tensor,
        graph: Pattern | None = None,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        **terms: Any,
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: who reads whom, in place of the stack's own.
            positions: ``[..., N]``, else 0, 1, ...
            cache: holds keys and values of every step, and receives those of x.
            terms: of the layer.
        """
        graph = self.graph if graph is None else check_graph(graph)
        (layer,) = self.layers
        width = x.shape[-1]
        place = sinusoidal_positions(positions_or_count(x, positions), width).to(x)
        times = sinusoidal_positions(torch.arange(1, self.depth + 1, device=x.device), width).to(x)

        def at(step: int, given: Tensor) -> Tensor:
            own = {} if cache is None else {"cache": cache.of_step(step)}
            state: Tensor = layer(given, graph, **terms, **own)
            return state

        if self.halt is None:
            for step, time in enumerate(times):
                x = at(step, x + place + time)
            return x
        out, left = torch.zeros_like(x), x.new_ones(x.shape[:-1])
        going = torch.ones_like(left, dtype=torch.bool)
        for step, time in enumerate(times):
            given = x + place + time
            stop = self.halt(given).squeeze(-1).sigmoid()
            x = torch.where(going[..., None], at(step, given), x)
            enough = 1 - left + stop >= self.threshold
            last = going & (enough if step + 1 < self.depth else torch.ones_like(enough))
            share = torch.where(last, left, stop) * going
            out = out + share[..., None] * x
            left, going = left - share, going & ~last
            if cache is None and not (x.is_meta or going.any()):
                break  # a later token may read keys of all steps
        return out
