"""Models of pairs as training calls them: two texts in, scores of the second one's tokens out."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.layers.encoder_decoder import PairModel
from edgewise.layers.reader import Memory
from edgewise.layers.tokens import Tokens


class PairScores(nn.Module):
    """Scores of each next token of the target, from a :class:`PairModel`.

    Args:
        model: reads the source and the target.
    """

    def __init__(self, model: PairModel) -> None:
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
