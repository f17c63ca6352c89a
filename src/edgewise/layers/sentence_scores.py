"""Scores of sentences that know of each other."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.encodings import Sinusoidal, packed_positions
from edgewise.graphs import batch, complete
from edgewise.graphs.batch import Sizes
from edgewise.layers.block import TransformerLayer
from edgewise.layers.pooling import Pool
from edgewise.layers.text import TextModel
from edgewise.layers.tokens import Tokens


class SentenceScores(nn.Module):
    """A number for each sentence of several articles (BERTSUM: Liu and Lapata, 2019).

    The words of a sentence read each other; then the sentences of an article do, each as the state
    of its first token.

    Args:
        trunk: a text model; its head for tokens is taken away, as nothing would train it.
        depth: layers between sentences.
        heads: of these.
        dropout: in these.
    """

    def __init__(self, trunk: TextModel, *, depth: int, heads: int, dropout: float) -> None:
        super().__init__()
        trunk.head = None
        width = trunk.embedding.tokens.embedding_dim
        self.trunk, self.pool, self.positions = trunk, Pool("class"), Sinusoidal(width)
        options = {"order": "pre", "act": "gelu", "dropout": dropout}
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 2 * width, **options)  # type: ignore[arg-type]
            for _ in range(depth)
        )
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, tokens: Tokens, counts: Sizes) -> Tensor:
        """``[S]`` for S texts, of which each article has so many."""
        x = self.pool(tokens.states(self.trunk), tokens.lengths())
        x = self.positions(x, packed_positions(counts).to(x.device))
        graph = batch(complete(), counts)
        for layer in self.layers:
            x = layer(x, graph)
        scores: Tensor = self.output(x)
        return scores[..., 0]
