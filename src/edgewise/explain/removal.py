"""Forward passes without some members (parts of the input) or edges, and images without patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise._utils.ragged import ranges, starts
from edgewise.attention.hooks import ACTIVE, Interceptor, intercepting, nodes_of
from edgewise.explain.calls import Step, Tape
from edgewise.graphs import Edges, Graph, TypedGraph
from edgewise.graphs.graph import select_edges
from edgewise.graphs.typed import REVERSED
from edgewise.models.swin import Merge

if TYPE_CHECKING:
    from edgewise.explain.attribution import Case

TOLERANCE = 1e-4
"""Maximum relative and absolute difference of the two scores in :func:`receptive_field`."""


def pair_keys(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Return a number for each unordered pair of members, of which there are ``count``."""
    return torch.minimum(first, second) * count + torch.maximum(first, second)


def pairs_of_keys(keys: Tensor, count: int) -> Tensor:
    """Return the pairs ``[2, P]`` of numbers from :func:`pair_keys`, the smaller index first."""
    return torch.stack([keys // count, keys % count])


class Removal(Interceptor):
    """Interceptor that removes edges from members (mask ``[M]``) and between pairs ``[2, P]``."""

    def __init__(self, case: Case, members: Tensor | None, pairs: Tensor | None) -> None:
        self.case, self.members = case, members
        self.keys = None if pairs is None else pair_keys(pairs[0], pairs[1], len(case.labels))

    def remaining_edges(self, graph: Graph) -> Tensor | None:
        """Return the indices of the edges that remain, or ``None`` for all edges."""
        nodes = nodes_of(graph)
        num_targets, num_sources = nodes.sizes
        member = self.case.members(num_sources)
        if member is None:
            return None
        source, target = nodes.edges(graph.edge_index)
        source = member[source]
        removed = torch.zeros_like(source, dtype=torch.bool)
        if self.members is not None:
            removed = self.members[source] & (source >= 0)
        if self.keys is not None and num_targets == num_sources:
            target = member[target]
            keys = pair_keys(source, target, len(self.case.labels))
            removed |= torch.isin(keys, self.keys) & (source >= 0) & (target >= 0)
        return None if not bool(removed.any()) else (~removed).nonzero()[:, 0]

    def changed(self, call: Any, graph: Any) -> tuple[Any, Any]:
        edges = self.remaining_edges(graph)
        if edges is None:
            return call, graph
        return call.on_edges(edges), select_edges(graph, edges)

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        edges = self.remaining_edges(graph)
        if edges is None:
            return compute(value, weight, graph, reduce)
        weight = None if weight is None else weight.index_select(-2, edges)
        return compute(value, weight, select_edges(graph, edges), reduce)


def remaining(graph: Graph) -> Graph:
    """Return a graph without the removed edges, for models and scores that read the graph itself,
    such as its degrees.
    """
    for active in ACTIVE.get():
        if isinstance(active, Removal):
            edges = active.remaining_edges(graph)
            if edges is not None and isinstance(graph, TypedGraph):
                graph = graph.select(edges)
            elif edges is not None:
                graph = select_edges(graph, edges)
    return graph


def relation_names(graph: TypedGraph) -> dict[tuple[int, int], str]:
    """Return the relations of the edges between two nodes, smaller index first."""
    names: dict[tuple[int, int], set[str]] = {}
    for (source, target), number in zip(
        graph.edge_index.T.tolist(), graph.edge_type.tolist(), strict=True
    ):
        name = graph.relations[number][1].removeprefix(REVERSED)
        names.setdefault((min(source, target), max(source, target)), set()).add(name)
    return {ends: ", ".join(sorted(relations)) for ends, relations in names.items()}


class _Incoming:
    """Edges of a graph, sorted by target."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph.source
        self._order = graph.target.argsort(stable=True)
        self._count = torch.bincount(graph.target, minlength=graph.num_targets)
        self._start = starts(self._count)

    def into(self, targets: Tensor) -> Tensor:
        """Return the indices of the edges whose target is one of ``targets``."""
        edges: Tensor = self._order[ranges(self._start[targets], self._count[targets])]
        return edges


def edges_around(graph: Graph, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of all edges that end in some nodes or in their common in-neighbours, and
    of those between nodes and common in-neighbours, without those back.
    """
    incoming = _Incoming(graph)
    into_nodes = incoming.into(nodes)
    neighbour, index, count = graph.source[into_nodes].unique(
        return_inverse=True, return_counts=True
    )
    around = incoming.into(torch.cat([nodes, neighbour[count > 1]]).unique())
    return around, into_nodes[count[index] > 1]


class ReceptiveField:
    """Edges of a large graph that affect a prediction, and all outputs: per call the ``edges`` into
    nodes that matter there, with their ``ends`` and the ``keys`` of these pairs, and the edges
    ``around``, into nodes that matter in some call.
    """

    def __init__(self, case: Case, steps: list[Step]) -> None:
        assert case.own is not None
        self.case, self.steps = case, steps
        self.edges, self.ends, self.keys = list[Tensor](), list[Tensor](), list[Tensor]()
        incoming = {id(step.graph): _Incoming(step.graph) for step in steps}
        nodes = case.own.unique()
        for step in reversed(steps):
            edges_of_graph = incoming[id(step.graph)]
            self.edges.insert(0, edges_of_graph.into(nodes))
            self.ends.insert(0, step.graph.edge_index[:, self.edges[0]])
            first, second = case.member[self.ends[0]]
            self.keys.insert(0, pair_keys(first, second, len(case.labels)))
            targets = nodes
            nodes = torch.cat([nodes, edges_of_graph.source[self.edges[0]]]).unique()
        # Some edges at the nodes of the answer enter the neighbours of these nodes.
        targets = nodes if len(steps) == 1 else targets
        self.around = [incoming[id(step.graph)].into(targets) for step in steps]

    def pairs(self) -> Tensor:
        """Return the pairs of members with an edge at the nodes that the answer is about."""
        assert self.case.own is not None
        explained, keys = self.case.member[self.case.own], []
        for step, around in zip(self.steps, self.around, strict=True):
            source, target = self.case.member[step.graph.edge_index[:, around]]
            joined = (source >= 0) & (target >= 0) & (source != target)
            joined &= torch.isin(source, explained) | torch.isin(target, explained)
            keys.append(pair_keys(source[joined], target[joined], len(self.case.labels)))
        return pairs_of_keys(torch.cat(keys).unique(), len(self.case.labels))

    def without(self, pairs: Tensor) -> Tensor:
        """Compute the scores ``[C]`` without pairs ``[2, P]``, from the outputs that change."""
        with torch.no_grad(), intercepting(_LocalRemoval(self, pairs)):
            return self.case.score()


def receptive_field(case: Case) -> ReceptiveField | None:
    """Return the receptive field of an answer in a large graph; None if nodes depend on each other
    outside of the recorded calls, as the score without half of the edges shows.
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
        expected = case.score()
    is_same = torch.allclose(field.without(pairs), expected, rtol=TOLERANCE, atol=TOLERANCE)
    return field if is_same else None


class _LocalRemoval(Removal):
    """Interceptor that computes only the outputs that change if some edges are removed."""

    def __init__(self, field: ReceptiveField, pairs: Tensor) -> None:
        super().__init__(field.case, None, pairs)
        self.field, self.step_index = field, 0
        self.changed_nodes = torch.zeros(len(field.case.member), dtype=torch.bool)

    def _next(self) -> tuple[Step, Tensor, Tensor]:
        """Return the next call, the targets to compute in it, and their remaining edges."""
        field, index = self.field, self.step_index
        self.step_index += 1
        source, target = field.ends[index]
        assert self.keys is not None
        removed = torch.isin(field.keys[index], self.keys)
        changed = torch.zeros_like(self.changed_nodes)
        changed[target[removed | self.changed_nodes[source] | self.changed_nodes[target]]] = True
        self.changed_nodes = self.changed_nodes | changed
        edges = field.edges[index][changed[target] & ~removed]
        return field.steps[index], changed.nonzero()[:, 0], edges

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        step, targets, edges = self._next()
        call = replace(call.on_edges(edges), query=call.query.index_select(-3, targets))
        return _merged(step, targets, compute(call, _subgraph(graph, targets, edges)))

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        step, targets, edges = self._next()
        weight = None if weight is None else weight.index_select(-2, edges)
        out = compute(value, weight, _subgraph(graph, targets, edges), reduce)
        return _merged(step, targets, out)


def _subgraph(graph: Graph, targets: Tensor, edges: Tensor) -> Graph:
    """Return the graph of all sources, sorted ``targets`` numbered from 0, and edges into them."""
    source, target = graph.edge_index[:, edges]
    index = torch.stack([source, torch.searchsorted(targets, target)])
    return Edges(index, len(targets), graph.num_sources)


def _merged(step: Step, targets: Tensor, out: Tensor) -> Tensor:
    return step.out.index_copy(-3, targets, out.to(step.out.dtype))


def merges_patches(model: nn.Module) -> bool:
    """Return whether later layers of an image model attend to merged patches."""
    return any(isinstance(module, Merge) for module in model.modules())


def without_patches(image: Tensor, patches: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return images ``[..., C, H, W]`` whose patches in the mask ``[N]`` have their mean colour."""
    mask = patches.view(grid)
    for axis, count in enumerate(grid):
        mask = mask.repeat_interleave(image.shape[axis - 2] // count, axis)
    return torch.where(mask, image.mean((-2, -1), keepdim=True), image)
