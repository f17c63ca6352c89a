"""Base class of recommenders that score items for users."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from edgewise._utils.ragged import runs_and_positions
from edgewise.graphs import Pattern
from edgewise.layers.projections import table_of


class Recommender(nn.Module):
    r"""Base class of recommenders with scores :math:`s_{ui} = z_u^\top z_i` of user u and item i.

    The learned embeddings z of users and items are refined over the graph of interactions.

    Args:
        num_users: number of users, the first nodes of the graph.
        num_items: number of items, the nodes after the users.
        width: embedding size.
        layers: layers that refine the embeddings.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> class Plain(layers.Recommender):
        ...     '''Matrix factorisation: the embeddings are not refined.'''
        ...
        ...     def embed(self, graph, nodes=None):
        ...         return self.table(nodes)
        >>> scores = Plain(num_users=4, num_items=5, width=8)(
        ...     torch.arange(2), torch.arange(5), graphs.complete().bind(9)
        ... )
        >>> scores.shape
        torch.Size([2, 5])
    """

    def __init__(
        self, num_users: int, num_items: int, width: int, layers: Iterable[nn.Module] = ()
    ) -> None:
        super().__init__()
        self.num_users, self.num_nodes = num_users, num_users + num_items
        self.layers = nn.ModuleList(layers)
        self.embedding = nn.Embedding(self.num_nodes, width)
        nn.init.normal_(self.embedding.weight, std=0.1)

    def table(self, nodes: Tensor | None = None) -> Tensor:
        """Return the embeddings ``[num_users + num_items, width]`` that :meth:`embed` refines, or
        those of some nodes.
        """
        return table_of(self.embedding, self.num_nodes, nodes)

    @abstractmethod
    def embed(self, graph: Pattern, nodes: Tensor | None = None) -> Tensor:
        """Return refined embeddings ``[num_users + num_items, width]``; if ``graph`` is a sample,
        those of its ``nodes``, which are numbers in the whole graph.
        """

    def products(self, z: Tensor, users: Tensor, items: Tensor) -> Tensor:
        """Return the inner products ``[B, M]`` of rows of z: B ``users`` times M ``items``."""
        user, item = z.index_select(0, users), z.index_select(0, items + self.num_users)
        return user @ item.t()

    def scores(self, z: Tensor, users: Tensor, items: Tensor, graph: Pattern) -> Tensor:  # noqa: ARG002 - for subclasses
        """Return scores ``[B, M]`` of items ``[M]`` for users ``[B]`` from refined embeddings z."""
        return self.products(z, users, items)

    def forward(
        self,
        users: Tensor,
        items: Tensor,
        graph: Pattern,
        *,
        positives: Tensor | None = None,
        nodes: Tensor | None = None,
    ) -> Tensor:
        """Return scores ``[B, M]`` of M items for B users, or ``[B, K + M]`` with ``positives``.

        Items are numbered after users in ``graph``, and from 0 in ``items``. ``positives``
        ``[B, K]``, padded with -1, are items that the user has chosen: their scores come first,
        with -∞ at padding, and are -∞ among those of ``items``, so that they do not count as
        negatives. With ``positives``, ``graph`` may be a sample of the edges around these users and
        items; ``nodes`` are then its nodes in the whole graph.
        """
        z = self.embed(graph, nodes)
        if positives is None:
            return self.scores(z, users, items, graph)
        row_of = _rows_of(nodes, self.num_nodes)
        user, item = z[row_of(users)], z[row_of(items + self.num_users)]
        scores = user @ item.t()
        row, nth = (positives >= 0).nonzero(as_tuple=True)
        chosen = z[row_of(positives[row, nth] + self.num_users)]
        first = scores.new_full(positives.shape, -torch.inf)
        positive_scores = (user.index_select(0, row) * chosen).sum(-1).to(scores.dtype)
        first = first.index_put((row, nth), positive_scores)
        row, column = _positives_among(positives, items)
        scores = scores.index_put((row, column), scores.new_tensor(-torch.inf))
        return torch.cat([first, scores], dim=1)


def _rows_of(nodes: Tensor | None, count: int) -> Callable[[Tensor], Tensor]:
    """Return the function from nodes to their positions in ``nodes``, or to themselves."""
    if nodes is None:
        return lambda node: node
    # Only the elements of these nodes are read.
    row = torch.empty(count, dtype=torch.long, device=nodes.device)
    row[nodes] = torch.arange(len(nodes), device=nodes.device)
    return row.__getitem__


def _positives_among(positives: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of ``positives`` and indices of ``items`` with the same item."""
    ordered, column = items.sort()
    row, nth = (positives >= 0).nonzero(as_tuple=True)
    item = positives[row, nth]
    begin = torch.searchsorted(ordered, item)
    run, position = runs_and_positions(torch.searchsorted(ordered, item, right=True) - begin)
    return row[run], column[begin[run] + position]
