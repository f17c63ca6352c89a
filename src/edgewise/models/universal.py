"""Universal Transformer: one layer applied repeatedly, with position and step encodings.

Formula: h = h + position + step; a = h + attention(norm(h)); h = a + FFN(norm(a)); shared weights
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections
Encoding: sinusoidal, of position and step, added before every step
Normalisation: softmax over the neighbourhood; layer norm before each sublayer and at the end
Update: residuals around attention and the feed-forward network; optional halting per token
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
    Backbone,
    Cache,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    TransformerStack,
    init_xavier,
)
from edgewise.layers.transformer import Order


@checked()
def universal(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 512,
    halting: bool = False,
    threshold: float = 0.99,
    act: str = "relu",
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
    order: Order = "pre",
) -> TextModel:
    """Build a Universal Transformer language model.

    ``model.logits(states)`` gives the logits of the tokens. One layer is applied ``depth`` times.
    On a causal graph, the model can generate text; with ``cache=``, each step has separate cached
    keys and values, and no step is skipped.

    Norms come before the sublayers, as in the authors' implementation (tensor2tensor). The paper
    writes them after the sublayers. Such a model does not learn at the default settings: position
    and step codes are added before every step, and each norm scales the tokens down with them.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of steps; with ``halting``, the maximum number of steps.
        heads: number of attention heads per layer.
        ffn_dim: hidden size of the feed-forward networks.
        halting: whether each token may stop early (adaptive computation time).
        threshold: cumulative halting probability at which a token stops.
        act: name of the activation function of the feed-forward networks.
        dropout: dropout probability.
        graph: attention graph, which defines the tokens that each token attends to.
        order: position of the norms: "pre" before each sublayer and at the end, "post" after each
            sublayer.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.universal(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    if threshold > 1:
        raise ArgumentError(
            "threshold",
            expected="a probability above 0",
            got=repr(threshold),
            remedy="choose for example 0.99",
        )
    layer = TransformerLayer(width, heads, ffn_dim, act=act, order=order, dropout=dropout)
    norm = nn.LayerNorm(width) if order == "pre" else nn.Identity()
    halt = nn.Linear(width, 1) if halting else None
    stack = UniversalStack(layer, depth, norm, graph, halt=halt, threshold=threshold)
    backbone = init_xavier(Backbone(stack))
    if halt is not None:
        nn.init.ones_(halt.bias)  # With this bias, training starts with few steps per token.
    # Embeddings enter with variance 1, as in the Transformer. Position and step codes have
    # variance 1/2 and are added before every step, so smaller embeddings would be lost in them.
    embedding = TextEmbedding(vocab_size, width, dropout=dropout, scale=width**0.5)
    head = LanguageModelHead(vocab_size, width)  # The head shares the embedding matrix.
    return TextModel(embedding, backbone, head)


class UniversalStack(TransformerStack):
    r"""Stack that applies one layer repeatedly, with encodings of position and step.

    .. math:: h^t = \mathrm{layer}(\tilde h^t), \qquad
              \tilde h^t_i = h^{t-1}_i + \mathrm{PE}(i) + \mathrm{PE}(t)

    With halting (adaptive computation time, Graves, 2016), :math:`p^t_i = σ(w \tilde h^t_i + b)`;
    token i stops at the first t at which :math:`\sum_{s \le t} p^s_i` reaches the threshold, or at
    the last step. Other tokens then attend to the unchanged state of token i. The output is the
    mean of the token's states, weighted by p; the last weight is the remainder to 1.

    Args:
        layer: layer called as ``layer(x, graph, **terms)``.
        depth: number of steps, or their maximum with halting.
        norm: final norm; ``nn.Identity()`` if the layer ends with a norm.
        graph: default attention graph.
        halt: module that maps features to a halting logit, or None.
        threshold: cumulative halting probability at which a token stops.
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
    ) -> None:
        super().__init__([layer], norm, graph)
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
        """Return features ``[..., N, width]`` from x of the same shape.

        Args:
            x: features.
            graph: attention graph, instead of the default.
            positions: positions ``[..., N]``. Defaults to 0, 1, ...
            cache: cache of the keys and values of every step, to which the keys and values of x are
                added.
            terms: further arguments of the layer.
        """
        graph = self.graph if graph is None else check_graph(graph)
        (layer,) = self.layers
        width = x.shape[-1]
        position = sinusoidal_positions(positions_or_count(x, positions), width).to(x)
        steps = torch.arange(1, self.depth + 1, device=x.device)
        times = sinusoidal_positions(steps, width).to(x)

        def apply_layer(step: int, h: Tensor) -> Tensor:
            step_cache = {} if cache is None else {"cache": cache.of_step(step)}
            state: Tensor = layer(h, graph, **terms, **step_cache)
            return state

        if self.halt is None:
            for step, time in enumerate(times):
                x = apply_layer(step, x + position + time)
            return self._normalised(x)
        out, remainder = torch.zeros_like(x), x.new_ones(x.shape[:-1])
        running = torch.ones_like(remainder, dtype=torch.bool)
        for step, time in enumerate(times):
            h = x + position + time
            p = self.halt(h).squeeze(-1).sigmoid()
            x = torch.where(running[..., None], apply_layer(step, h), x)
            reached = 1 - remainder + p >= self.threshold
            halts = running & (reached if step + 1 < self.depth else torch.ones_like(reached))
            weight = torch.where(halts, remainder, p) * running
            out = out + weight[..., None] * x
            remainder, running = remainder - weight, running & ~halts
            # With a cache no step is skipped, because later tokens attend to the keys of all steps.
            if cache is None and not (x.is_meta or running.any()):
                break
        return self._normalised(out)

    def _normalised(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out
