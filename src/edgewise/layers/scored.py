"""Text models as training calls them: inputs in, scores of tokens out."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.layers.encoder_decoder import PairModel
from edgewise.layers.reader import Memory


class PairScores(nn.Module):
    """Scores of each next token of packed targets, from a :class:`PairModel`.

    Args:
        model: reads the source and the target.
    """

    def __init__(self, model: PairModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Tensor, sizes: Tensor, target: Tensor, target_sizes: Tensor
    ) -> Tensor:
        """``[M, vocabulary]`` from packed ids ``[N]`` and ``[M]`` with ``[B]`` sizes each."""
        packed = {"sizes": sizes, "decoder_sizes": target_sizes}
        return self.model.logits(self.model(source, None, target, **packed))

    def memory(self, source: Tensor, sizes: Tensor, *_: Tensor) -> Memory:
        """The sources as :func:`edgewise.decoding.generate` wants them: padded side by side."""
        parts = source.split(sizes.tolist())
        ids = nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
        mask = nn.utils.rnn.pad_sequence([part.new_ones(len(part)) for part in parts], True)
        return self.model.encode(ids, mask)
