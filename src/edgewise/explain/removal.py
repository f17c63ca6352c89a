"""Forward passes without some members (parts of the input) or edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, starts
from edgewise.attention.hooks import ACTIVE, Interceptor, intercepting
from edgewise.explain.calls import Step, Tape, call_with, graph_with
from edgewise.graphs import Edges, Graph

if TYPE_CHECKING:
    from edgewise.explain.attribution import Case

TOLERANCE = 1e-4
"""Maximum relative and absolute difference of the two scores in :func:`receptive_field`."""


def pair_keys(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Return a number for each unordered pair of members (parts of the input).

    Args:
        first: index of one member of each pair.
        second: index of the other member of each pair.
        count: number of all members.
    """
    return torch.minimum(first, second) * count + torch.maximum(first, second)


class Removal(Interceptor):
    """Interceptor that removes edges from all attention and aggregation calls.

    It removes all edges from some members (parts of the input) and the edges between some pairs.

    Args:
        case: the answer.
        members: boolean mask ``[M]``, true for removed members, or ``None``.
        pairs: removed edges as pairs of member indices, ``[2, P]``, or ``None``.
    """

    def __init__(self, case: Case, members: Tensor | None, pairs: Tensor | None) -> None:
        self.case, self.gone = case, members
        self.keys = None if pairs is None else pair_keys(pairs[0], pairs[1], len(case.labels))

    def kept(self, graph: Graph) -> Tensor | None:
        """Return the indices of the edges that remain, or ``None`` for all edges."""
        member = self.case.members(graph.num_sources)
        if member is None:
            return None
        source = member[graph.source]
        gone = torch.zeros_like(source, dtype=torch.bool)
        if self.gone is not None:
            gone = self.gone[source] & (source >= 0)
        if self.keys is not None and graph.num_targets == graph.num_sources:
            target = member[graph.target]
            keys = pair_keys(source, target, len(self.case.labels))
            gone |= torch.isin(keys, self.keys) & (source >= 0) & (target >= 0)
        return None if not bool(gone.any()) else (~gone).nonzero()[:, 0]

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        kept = self.kept(graph)
        return compute(*(call, graph) if kept is None else call_with(call, graph, kept))

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        kept = self.kept(graph)
        return compute(*(call, graph) if kept is None else call_with(call, graph, kept))

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        kept = self.kept(graph)
        if kept is None:
            return compute(value, weight, graph, reduce)
        fewer = None if weight is None else weight.index_select(-2, kept)
        return compute(value, fewer, graph_with(graph, kept), reduce)


def remaining(graph: Graph) -> Graph:
    """Return a graph without the edges that the active :class:`Removal` removes.

    Scores that depend on the graph outside of attention and aggregation, such as a count of common
    neighbours, use this graph.
    """
    for active in ACTIVE.get():
        if isinstance(active, Removal):
            kept = active.kept(graph)
            graph = graph if kept is None else graph_with(graph, kept)
    return graph


class _Incoming:
    """Edges of a graph, sorted by target."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph.source
        self._order = graph.target.argsort(stable=True)
        self._count = torch.bincount(graph.target, minlength=graph.num_targets)
        self._start = starts(self._count)

    def into(self, targets: Tensor) -> Tensor:
        """Return the indices of the edges whose target is one of ``targets``."""
        found: Tensor = self._order[ranges(self._start[targets], self._count[targets])]
        return found


def edges_around(graph: Graph, nodes: Tensor) -> Tensor:
    """Return the indices of all edges that end in some nodes or in their in-neighbours.

    Args:
        graph: the graph.
        nodes: indices of the nodes.
    """
    incoming = _Incoming(graph)
    return incoming.into(torch.cat([nodes, graph.source[incoming.into(nodes)]]).unique())


class ReceptiveField:
    """Edges of a large graph that a prediction depends on, with the outputs of the whole graph.

    Removing an edge changes the outputs of only a few nodes. :meth:`without` recomputes those that
    the score depends on and takes all other outputs from the recorded forward pass.

    Args:
        case: the prediction to explain.
        steps: attention and aggregation calls recorded in a forward pass on the whole graph; the
            nodes of each call are those of ``case``.

    Attributes:
        edges: for each call, edges into the nodes whose output in this call affects the score.
        around: for each call, edges into the nodes whose output in some call affects the score.
    """

    def __init__(self, case: Case, steps: list[Step]) -> None:
        assert case.own is not None
        self.case, self.steps = case, steps
        incoming = {id(step.graph): _Incoming(step.graph) for step in steps}
        rows, self.edges = case.own.unique(), list[Tensor]()
        for step in reversed(steps):
            of_graph = incoming[id(step.graph)]
            self.edges.insert(0, of_graph.into(rows))
            read = torch.cat([rows, of_graph.source[self.edges[0]]]).unique()
            first, rows = rows, read
        # Some edges at the nodes of the answer enter the neighbours of these nodes.
        first = rows if len(steps) == 1 else first
        self.around = [incoming[id(step.graph)].into(first) for step in steps]

    def pairs(self) -> Tensor:
        """Return the edges at the nodes that the answer is about.

        Returns:
            Distinct pairs of member indices, ``[2, P]``, the smaller index first.
        """
        assert self.case.own is not None
        own, keys = self.case.member[self.case.own], []
        for step, around in zip(self.steps, self.around, strict=True):
            source, target = self.case.member[step.graph.edge_index[:, around]]
            joined = (source >= 0) & (target >= 0) & (source != target)
            joined &= torch.isin(source, own) | torch.isin(target, own)
            keys.append(pair_keys(source[joined], target[joined], len(self.case.labels)))
        every, count = torch.cat(keys).unique(), len(self.case.labels)
        return torch.stack([every // count, every % count])

    def without(self, pairs: Tensor) -> Tensor:
        """Compute the scores ``[C]`` of the C answers without some edges.

        Args:
            pairs: removed edges as pairs of member indices, ``[2, P]``.
        """
        with torch.no_grad(), intercepting(_LocalRemoval(self, pairs)):
            return self.case.score()


def receptive_field(case: Case) -> ReceptiveField | None:
    """Return the receptive field of an answer about some nodes of a large graph.

    The result is ``None`` for other answers, and for models whose nodes depend on each other
    outside of the recorded calls. This is tested by removing every second edge at the nodes of the
    answer, which must give the same score as the removal in the whole graph.
    """
    if not case.whole_graph or case.own is None:
        return None
    tape, count = Tape(), len(case.member)
    with torch.no_grad(), intercepting(tape):
        case.score()
    sizes = {(step.graph.num_targets, step.graph.num_sources) for step in tape.steps}
    if sizes != {(count, count)} or any(step.lse is not None for step in tape.steps):
        return None
    field = ReceptiveField(case, tape.steps)
    pairs = field.pairs()[:, ::2]
    with torch.no_grad(), intercepting(Removal(case, None, pairs)):
        whole = case.score()
    same = torch.allclose(field.without(pairs), whole, rtol=TOLERANCE, atol=TOLERANCE)
    return field if same else None


class _LocalRemoval(Removal):
    """Interceptor that computes only the outputs that change if some edges are removed.

    Args:
        field: recorded calls and edges that the score depends on.
        pairs: removed edges as pairs of member indices, ``[2, P]``.
    """

    def __init__(self, field: ReceptiveField, pairs: Tensor) -> None:
        super().__init__(field.case, None, pairs)
        self.field, self.place = field, 0
        self.changed = torch.zeros(len(field.case.member), dtype=torch.bool)

    def _next(self) -> tuple[Step, Tensor, Tensor]:
        """Advance to the next call, and select what to compute in it.

        Returns:
            The record of the call, the indices of the targets to compute, and the indices of their
            remaining edges.
        """
        step, edges = self.field.steps[self.place], self.field.edges[self.place]
        self.place += 1
        source, target = step.graph.edge_index[:, edges]
        member = self.case.member
        assert self.keys is not None
        gone = torch.isin(
            pair_keys(member[source], member[target], len(self.case.labels)), self.keys
        )
        again = torch.zeros_like(self.changed)
        again[target[gone | self.changed[source]]] = True
        again[target] |= self.changed[target]
        self.changed = self.changed | again
        return step, again.nonzero()[:, 0], edges[again[target] & ~gone]

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        step, rows, edges = self._next()
        fewer, _ = call_with(call, graph, edges)
        fewer = replace(fewer, query=call.query.index_select(-3, rows))
        return _merged(step, rows, compute(fewer, _rows_of(graph, rows, edges)))

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        step, rows, edges = self._next()
        fewer = None if weight is None else weight.index_select(-2, edges)
        return _merged(step, rows, compute(value, fewer, _rows_of(graph, rows, edges), reduce))


def _rows_of(graph: Graph, rows: Tensor, edges: Tensor) -> Graph:
    """Return the subgraph with some targets and some of the edges into them.

    Args:
        graph: the graph.
        rows: sorted indices of the targets to keep, which are renumbered from 0. All sources are
            kept with their numbers.
        edges: indices of the edges to keep, all of which end in these targets.
    """
    source, target = graph.edge_index[:, edges]
    index = torch.stack([source, torch.searchsorted(rows, target)])
    return Edges(index, len(rows), graph.num_sources)


def _merged(step: Step, rows: Tensor, out: Tensor) -> Tensor:
    return step.out.index_copy(-3, rows, out.to(step.out.dtype))
