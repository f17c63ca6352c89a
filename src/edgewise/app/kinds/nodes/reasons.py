"""Reasons for the class or number of a node: the edges and features around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from edgewise._utils.digits import rounded
from edgewise._utils.ragged import ranges
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.kinds.nodes.predict import OnNodes
from edgewise.app.predict.cases import log_odds
from edgewise.app.train.neighbours import rows_of
from edgewise.attention.hooks import intercepting
from edgewise.explain.attribution import Case, Contributions, Method, contributions
from edgewise.explain.calls import Tape
from edgewise.explain.removal import relation_names, remaining
from edgewise.graphs import Graph, TypedGraph, edges

AT_ONCE = 256
"""Maximum number of nodes of a graph that are explained in one pass."""
_NODE_CASES: WeakKeyDictionary[OnNodes, NodeCases] = WeakKeyDictionary()


def node_class(predictor: OnNodes, value: Any, _: int) -> Iterator[Case]:
    """Yield the edges around a node as reasons for its class or number."""
    yield node_cases(predictor).case([predictor.nodes.number(value)])


def node_cases(predictor: OnNodes) -> NodeCases:
    """Return the :class:`NodeCases` of a predictor, which are created only once."""
    if predictor not in _NODE_CASES:
        _NODE_CASES[predictor] = NodeCases(predictor)
    return _NODE_CASES[predictor]


class NodeCases:
    """Cases for nodes of the training graph, each with the neighbourhood that affects its answer.
    Neighbourhoods are packed for one pass. If answers differ from those on the whole graph, as with
    attention to all nodes, each case has the whole graph.

    Example:
        >>> import edgewise
        >>> from edgewise.app.kinds.nodes import NodeCases
        >>> run = edgewise.load("runs/gat-cora")  # doctest: +SKIP
        >>> cases = NodeCases(run.predictor)  # doctest: +SKIP
    """

    def __init__(self, predictor: OnNodes) -> None:
        self.predictor, self.model = predictor, predictor.model
        training = saved_graph(predictor.preprocessing.values)
        self.x, self.graph, self.ids = training.x, training.graph, training.ids
        self.classes = predictor.classes()
        self.is_odds = bool(self.classes)
        self.best = predictor.logits(predictor.all_outputs).argmax(-1)
        self._order = self.graph.target.argsort(stable=True)
        self._sources = self.graph.source[self._order]
        self._degree = torch.bincount(self.graph.target, minlength=len(self.ids))
        self._start = self._degree.cumsum(0) - self._degree
        self.hops = self._find_hops()

    def _find_hops(self) -> int | None:
        """Return the radius of neighbourhoods that give the answers of the whole graph, or
        ``None``.
        """
        tape = Tape()
        with torch.no_grad(), intercepting(tape):
            self.model(self.x, self.graph)
        size = (len(self.ids), len(self.ids))
        calls = sum(step.nodes.sizes == size for step in tape.steps)
        sample = torch.arange(0, len(self.ids), max(1, len(self.ids) // 16)).tolist()
        for hops in (calls, calls + 1):
            if hops > 4:
                return None
            with torch.no_grad():
                local_scores = self.case(sample, hops).score()
            full_scores = self._scores(self.predictor.all_outputs[sample], sample)
            if self.is_odds:
                local_scores, full_scores = local_scores.sigmoid(), full_scores.sigmoid()
            # The difference of numbers is relative to their spread, which has their unit.
            spread = 1.0 if self.is_odds else float(self.predictor.all_outputs.std())
            if float((local_scores - full_scores).abs().max()) <= 1e-4 * spread:
                return hops
        return None

    def _scores(self, outputs: Tensor, nodes: Sequence[int]) -> Tensor:
        """Return the log-odds of the predicted class, or the number, of each node."""
        if not self.is_odds:
            return outputs[:, 0]
        return log_odds(self.predictor.logits(outputs), self.best[list(nodes)])

    def answer(self, node: int) -> str:
        """Return the predicted class or number of a node as text."""
        if self.is_odds:
            return self.classes[int(self.best[node])]
        return rounded(float(self.predictor.all_outputs[node, 0]))

    def neighbourhood(self, node: int, hops: int) -> tuple[Tensor, int]:
        """Return the nodes from which a node is reached in ``hops`` steps, nearest first, and the
        number of those in fewer steps.
        """
        reached = torch.tensor([node])
        new, inner = reached, 0
        for _ in range(hops):
            inner = len(reached)
            count = self._degree[new]
            read = self._sources[ranges(self._start[new], count)].unique()
            new = read[~torch.isin(read, reached)]
            reached = torch.cat([reached, new])
        return reached, inner

    def case(self, nodes: Sequence[int], hops: int | None = None) -> Case:
        """Return one case for the predictions of several nodes, by default on enough hops."""
        hops = self.hops if hops is None else hops
        answer = ", ".join(map(self.answer, nodes))
        if hops is None:
            graph, member = self.graph, torch.arange(len(self.ids))
            answer_nodes, x, labels = torch.tensor(list(nodes)), self.x, list(self.ids)
        else:
            blocks = [self.neighbourhood(node, hops) for node in nodes]
            packed_nodes = torch.cat([block for block, _ in blocks])
            sizes = torch.tensor([len(block) for block, _ in blocks])
            answer_nodes = sizes.cumsum(0) - sizes
            graph = self.induced(blocks, answer_nodes)
            member = torch.arange(len(packed_nodes))
            x, labels = (
                rows_of(self.x, packed_nodes),
                [self.ids[node] for node in packed_nodes.tolist()],
            )

        def score() -> Tensor:
            # Edges of a neighbourhood are deleted, because a model may read its degrees.
            rest = graph if hops is None else remaining(graph)
            return self._scores(self.model(x, rest)[answer_nodes], nodes)

        def copies(count: int) -> Tensor:
            return self.case([*nodes] * count, hops).score()

        return Case(
            score,
            member,
            labels,
            answer,
            answer_nodes,
            by_edge=True,
            is_odds=self.is_odds,
            whole_graph=hops is None,
            score_copies=copies if hops is not None and len(nodes) == 1 else None,
            edge_names=relation_names(graph) if isinstance(graph, TypedGraph) else {},
        )

    def contributions(
        self, nodes: Sequence[int], method: Method = "auto"
    ) -> Iterator[tuple[Case, Contributions]]:
        """Yield the case of each node and its contributions, with many nodes in one pass."""
        if self.hops is None:
            method = "left_out" if method == "auto" else method
            for node in nodes:
                case = self.case([node])
                yield case, contributions(case, method)
            return
        for first in range(0, len(nodes), AT_ONCE):
            chunk = list(nodes[first : first + AT_ONCE])
            packed_case = self.case(chunk)
            packed = contributions(packed_case, method)
            # All nodes are explained by the same method.
            method = cast("Method", packed.method)
            assert packed_case.own is not None
            starts = [*packed_case.own.tolist(), len(packed_case.labels)]
            # Pairs are sorted by the first member, and therefore by block.
            ends = torch.searchsorted(packed.pairs[0].contiguous(), torch.tensor(starts)).tolist()
            for position, node in enumerate(chunk):
                start, stop = starts[position : position + 2]
                edge_range = slice(ends[position], ends[position + 1])
                yield (
                    Case(
                        lambda node=node: self.case([node]).score(),
                        torch.arange(stop - start),
                        packed_case.labels[start:stop],
                        self.answer(node),
                        torch.tensor([0]),
                        by_edge=True,
                        is_odds=self.is_odds,
                    ),
                    Contributions(
                        packed.members[start:stop],
                        packed.pairs[:, edge_range] - start,
                        packed.edges[edge_range],
                        packed.method,
                        None if packed.directions is None else packed.directions[:, edge_range],
                    ),
                )

    def induced(self, blocks: Sequence[tuple[Tensor, int]], offset: Tensor) -> Graph:
        """Return the graph of several neighbourhoods, packed, without the edges into the outermost
        nodes; ``offset`` is the new number of the first node of each.
        """
        new_index = torch.full((len(self.ids),), -1)
        blocks_of_edges, edge_ids = [], []
        for (block, inner), start in zip(blocks, offset.tolist(), strict=True):
            new_index[block] = torch.arange(len(block))
            count = self._degree[block]
            positions = ranges(self._start[block], count)
            source = new_index[self._sources[positions]]
            target = torch.arange(len(block)).repeat_interleave(count)
            # Edges into the outermost nodes are omitted, because the answer does not depend on
            # them.
            inside = (source >= 0) & (target < inner)
            blocks_of_edges.append(torch.stack([source[inside], target[inside]]) + start)
            edge_ids.append(self._order[positions[inside]])
            new_index[block] = -1
        index, nodes = torch.cat(blocks_of_edges, dim=1), torch.cat([block for block, _ in blocks])
        if not isinstance(self.graph, TypedGraph):
            return edges(index, len(nodes))
        return self.graph.renumbered(index, torch.cat(edge_ids), nodes)
