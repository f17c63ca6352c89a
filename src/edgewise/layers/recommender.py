"""Recommender: scores of items for users, from an embedding of both over who chose what."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from edgewise.graphs import Pattern


class Recommender(nn.Module):
    """One learned embedding a user and an item, which a model refines along the graph.

    Args:
        num_users: the first nodes of the graph.
        num_items: the nodes after them.
        width: of an embedding.
        layers: what the model refines them with, if it learns more than the embeddings.
    """

    def __init__(
        self, num_users: int, num_items: int, width: int, layers: Iterable[nn.Module] = ()
    ) -> None:
        super().__init__()
        self.num_users, self.layers = num_users, nn.ModuleList(layers)
        self.embedding = nn.Embedding(num_users + num_items, width)
        nn.init.normal_(self.embedding.weight, std=0.1)

    @abstractmethod
    def embed(self, graph: Pattern) -> Tensor:
        """``[num_users + num_items, width]``; a score is the inner product of two of these."""

    def forward(
        self, users: Tensor, items: Tensor, graph: Pattern, *, positives: Tensor | None = None
    ) -> Tensor:
        """Scores ``[B, M]`` of items ``[M]`` for users ``[B]``.

        With ``positives`` ``[B, K]``, items that each user chose, filled up with -1,
        ``[B, K + M]``: the scores of these come first, -∞ where there is none.
        """
        z = self.embed(graph)
        user, item = z.index_select(0, users), z.index_select(0, items + self.num_users)
        scores = user @ item.t()
        if positives is None:
            return scores
        row, nth = (positives >= 0).nonzero(as_tuple=True)
        chosen = z.index_select(0, positives[row, nth] + self.num_users)
        first = scores.new_full(positives.shape, -torch.inf)
        own = (user.index_select(0, row) * chosen).sum(-1).to(scores.dtype)
        return torch.cat([first.index_put((row, nth), own), scores], dim=1)
