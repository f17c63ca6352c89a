r"""Attribution of one prediction, called the answer, to parts of the input and to graph edges.

The parts of the input, such as words or atoms, are called members. The calls of
:func:`edgewise.attend` and :func:`edgewise.aggregate` in one forward pass are recorded, and the
gradient of the answer's score with respect to their outputs is computed. From both, the methods
compute a contribution of each edge in each layer:

* ``"left_out"``: the product of the gradient and the exact change of the layer's output if the edge
  is left out (:mod:`edgewise.explain.edges_left_out`), negated.
* ``"gradient"``: for attention, gradient × gain, a factor 1 on the score of an edge; for sums,
  gradient × weight of the edge.
* ``"relevance"``: AttnLRP (:mod:`edgewise.explain.relevance`): gradient × message for edges and
  gradient × input for members, in one backward pass with a modified gradient.
* ``"integrated_gradients"``: gradient × message and gradient × input, integrated along a path on
  which all messages, or all inputs, are multiplied by a number from 0 to 1 (Sundararajan et al.,
  2017). If the case names edges, the contributions of all edges, including self-loops, sum to the
  score minus that without messages; otherwise those of all members sum to the score minus that
  of inputs of 0.
* ``"attention"``: mean attention weights over targets, heads and layers, which rank edges as
  PyTorch Geometric's ``AttentionExplainer(reduce="mean")``.
* ``"rollout"``: attention weights multiplied over layers (Abnar and Zuidema, 2020).

The method ``"removed"`` is exact: one forward pass without each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property, partial
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.attention.hooks import Interceptor, intercepting, without_interception
from edgewise.explain.calls import Step, Tape
from edgewise.explain.relevance import Inputs, Relevance, ScaledMessages
from edgewise.explain.removal import (
    ReceptiveField,
    Removal,
    pair_keys,
    pairs_of_keys,
    receptive_field,
)

Method = Literal[
    "auto",
    "left_out",
    "gradient",
    "relevance",
    "integrated_gradients",
    "attention",
    "rollout",
    "removed",
]
POINTS = 8
"""Number of points of Gauss-Legendre quadrature for ``"integrated_gradients"``."""
MOST_REMOVED, MOST_DELETED = 64, 128
"""Maximum number of parts for which ``"auto"`` chooses ``"removed"``, by default and for cases with
``score_without``."""
MOST_NODES = 2_000_000
"""Maximum number of parts times nodes for which ``"auto"`` chooses ``"removed"`` in a large
graph."""
NODES_AT_ONCE = 2**15
"""Maximum number of nodes in the copies of an input that one forward pass evaluates."""
MOST_COPIED = 8 * NODES_AT_ONCE
"""Maximum number of nodes in all copies of an input for which ``"auto"`` chooses ``"removed"``."""


class Claim(NamedTuple):
    """Words for an answer that is a suggestion, such as a link or an item for a user.

    Attributes:
        text: what the reasons are evidence for, such as "a link between Ann and Bob".
        score: name of the number shown: the sigmoid of the log-odds, or the score itself.
        note: what this number means.

    Example:
        >>> from edgewise import explain
        >>> note = "the score is the probability of a link if 1 in 5 pairs is linked"
        >>> explain.Claim("a link between Ann and Bob", "score", note).score
        'score'
    """

    text: str
    score: str
    note: str


@dataclass(frozen=True, eq=False)
class Case:
    """A prediction to explain (the answer), and the parts of the input (members) that explain it.

    Attributes:
        score: function that returns the scores of C answers, ``[C]``; they must not share members.
        member: for each node, the index of its member, ``[N]``; -1 for none, such as ``[CLS]``.
        labels: name of each member.
        answer: description of the answer.
        own: index of the node that the answer is about, if any, which explanations do not list.
        by_edge: whether explanations name edges, such as bonds, instead of members.
        is_odds: whether the score is the log-odds of the answer, not a number in its unit.
        whole_graph: whether the graph has many members on which the answer does not depend.
        class_token: whether the model puts a class token before the other nodes.
        best: method that ``"auto"`` chooses; ``None``: by the number of parts.
        score_copies: function that returns the score of the answer in each of n copies of the
            input, ``[n]``, which is one graph without edges between copies; ``"removed"`` then
            removes a different part from each copy. ``None``: one part per forward pass.
        score_without: function of a mask ``[M]`` of members and of pairs of members ``[2, P]``
            (each may be ``None``) that returns the scores for the input without these members and
            the edges between these pairs. ``None``: no node attends to them.
        replacement: what replaces a removed part in ``score_without``, for descriptions.
        exact_pairs: pairs of members ``[2, R]`` without which ``"left_out"`` computes the score
            again, because the score also depends on their edges outside of the model's layers.
        edge_names: name of the edges between two members, smaller index first, such as the
            relation in a typed graph; empty without names.
        claim: words for pages, by default those of a class and its probability.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> layer, x = layers.MultiHeadAttention(8, heads=2), torch.randn(3, 8)
        >>> case = explain.Case(
        ...     score=lambda: layer(x, graphs.complete())[:1, 0],
        ...     member=torch.arange(3),
        ...     labels=["a", "b", "c"],
        ... )
        >>> explain.contributions(case).members.shape
        torch.Size([3])
    """

    score: Callable[..., Tensor]
    member: Tensor
    labels: Sequence[str]
    answer: str = ""
    own: Tensor | None = None
    by_edge: bool = False
    is_odds: bool = True
    whole_graph: bool = False
    class_token: bool = False
    best: Method | None = None
    score_copies: Callable[[int], Tensor] | None = None
    score_without: Callable[[Tensor | None, Tensor | None], Tensor] | None = None
    replacement: str = ""
    exact_pairs: Tensor | None = None
    edge_names: Mapping[tuple[int, int], str] = dataclass_field(default_factory=dict)
    claim: Claim | None = None

    @cached_property
    def field(self) -> ReceptiveField | None:
        """Edges of a large graph on which the answer depends; ``None`` to use the whole graph."""
        return receptive_field(self)

    def members(self, num_tokens: int) -> Tensor | None:
        """Return the member of each token of an attention call, or None for other tokens."""
        if num_tokens == len(self.member):
            return self.member
        if self.class_token and num_tokens == len(self.member) + 1:
            return torch.cat([self.member.new_tensor([-1]), self.member])
        return None


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions to the score of an answer: estimated decrease of the score without each part.

    Attributes:
        members: contribution of each member, ``[M]``; 0 if only the edges at one node were removed.
        pairs: pairs of members that are connected by an edge, ``[2, P]``, smaller index first.
        edges: contribution of the edges between each pair, ``[P]``, over both directions and all
            layers.
        method: name of the method that computed the contributions.
        directions: contribution of the edges from the smaller to the larger index, and back,
            ``[2, P]``; ``None`` if both were removed together.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> layer, x = layers.MultiHeadAttention(8, heads=2), torch.randn(3, 8)
        >>> case = explain.Case(lambda: layer(x, graphs.complete())[:1, 0], torch.arange(3), "abc")
        >>> scores = explain.contributions(case, "gradient")
        >>> scores.pairs.shape, scores.edges.shape
        (torch.Size([2, 3]), torch.Size([3]))
    """

    members: Tensor
    pairs: Tensor
    edges: Tensor
    method: str
    directions: Tensor | None = None

    @property
    def strengths(self) -> Tensor:
        """Absolute contribution of each pair, ``[P]``, to rank pairs by: directions of opposite
        signs do not cancel.
        """
        return self.edges.abs() if self.directions is None else self.directions.abs().sum(0)


def contributions(case: Case, method: Method = "auto") -> Contributions:
    """Attribute the score of an answer to the members of the input and to edges.

    The methods are ``"left_out"``, ``"gradient"``, ``"relevance"``, ``"integrated_gradients"``,
    ``"attention"``, ``"rollout"`` and ``"removed"``; see :mod:`edgewise.explain.attribution`.
    ``"auto"`` chooses ``"relevance"`` for a node of a model that only sums, without weights. For
    other models it chooses ``"removed"`` for at most 64 parts, for at most 128 that are deleted
    from the input itself, and for more if a pass evaluates many copies of a graph or a large graph
    has few nodes that change; otherwise ``"left_out"`` for edges and ``"relevance"`` for members
    and for the edges around a node of a model of weighted sums (``docs/howto/explain.md``).

    Raises:
        ArgumentError: the method is unknown, or the model does not attend over the members.
    """
    check_choice("method", method, get_args(Method))
    return _by_method(case, *_recorded(case), method)


def all_contributions(case: Case) -> Iterator[Contributions]:
    """Yield the contributions by the default method, and by each other method but ``"removed"``,
    which would need a pass for each part; most methods use the same recorded pass.
    """
    steps, pairs = _recorded(case)
    default = _by_method(case, steps, pairs, "auto")
    yield default
    for method in get_args(Method):
        if method not in ("auto", "removed", default.method):
            yield _by_method(case, steps, pairs, method)


def _recorded(case: Case) -> tuple[Steps, Tensor]:
    """Return the recorded calls of a case, and the pairs of members that an edge joins."""
    steps, _ = _record(case)
    if not steps:
        raise ArgumentError(
            "run",
            expected="a model that attends over the nodes of its input",
            got="a model without attention or aggregation over the nodes of the input",
            remedy="choose a run of a graph or attention model",
        )
    return steps, _pairs(case, [step for step, _ in steps])


def _by_method(case: Case, steps: Steps, pairs: Tensor, method: Method) -> Contributions:
    if method == "auto":
        method = case.best or _default(case, steps, pairs)
    if method == "removed":
        return _removed(case, pairs)
    if method == "relevance":
        return _relevance(case, pairs)
    if method == "integrated_gradients":
        return _integrated_gradients(case, pairs)
    if method == "rollout":
        with torch.no_grad(), without_interception():
            return _rollout(case, [step for step, _ in steps], pairs)
    totals = _of_edges(case, steps, pairs, method)
    if method == "left_out" and case.exact_pairs is not None:
        assert totals.directions is not None
        keys, exact = (
            pair_keys(first, second, len(case.labels))
            for first, second in (pairs, case.exact_pairs)
        )
        position = torch.searchsorted(keys, exact)
        totals.edges[position] = _decreases(case, case.exact_pairs)
        totals.directions[:, position] = totals.edges[position] / 2
    return totals


def _default(case: Case, steps: Steps, pairs: Tensor) -> Method:
    """Return the method that is best by measurement (docs/howto/explain.md), and fast."""
    of_node = case.by_edge and case.own is not None and not case.whole_graph
    only_sums = of_node and all(step.call is None and step.reduce == "sum" for step, _ in steps)
    if only_sums and all(step.weight is None for step, _ in steps):
        return "relevance"
    removals = len(named_pairs(case, pairs)) if case.by_edge else int(listed(case).sum())
    nodes, most_nodes = removals * len(case.member), 0
    if case.field is not None:
        most_nodes = MOST_NODES
    elif case.score_copies is not None:
        most_nodes = MOST_COPIED
    most = MOST_REMOVED if case.score_without is None else MOST_DELETED
    if removals <= most or nodes <= most_nodes:
        return "removed"
    return "left_out" if case.by_edge and not only_sums else "relevance"


def without(case: Case, members: Tensor | None = None, pairs: Tensor | None = None) -> Tensor:
    """Compute the scores ``[C]`` without some members (mask ``[M]``) or edges (pairs ``[2, P]``).

    Without ``score_without``, no node attends to the removed members, in any layer or in pooling.
    Edges are removed in both directions.
    """
    if members is None and pairs is not None and case.field is not None:
        return case.field.without(pairs)
    if case.score_without is not None:
        with torch.no_grad():
            return case.score_without(members, pairs)
    with torch.no_grad(), intercepting(Removal(case, members, pairs)):
        return case.score()


def listed(case: Case) -> Tensor:
    """Return a boolean mask ``[M]``: the members (input parts) that an explanation may list."""
    allowed = torch.zeros(len(case.labels), dtype=torch.bool)
    allowed[case.member[case.member >= 0]] = True
    if case.own is not None:
        own = case.member[case.own]
        allowed[own[own >= 0]] = False
    return allowed


def named_pairs(case: Case, pairs: Tensor) -> Tensor:
    """Return the pairs ``[2, P]`` to name: in a large graph, those at the node."""
    if not case.whole_graph or case.own is None:
        return torch.arange(pairs.shape[1])
    indices: Tensor = torch.isin(pairs, case.member[case.own]).any(0).nonzero()[:, 0]
    return indices


Gradients = tuple[Tensor | None, Tensor | None]
"""Gradients of the score with respect to the output and the log-sum-exp of a call."""
Steps = Sequence[tuple[Step, Gradients]]


def _record(
    case: Case, rules: Sequence[Interceptor] = (), inputs: Inputs | None = None
) -> tuple[list[tuple[Step, Gradients]], Tensor]:
    """Run the model once forward and backward.

    Return the attention and aggregation calls over members that affect the score, with the
    gradients of the score, and gradient × input of each member if ``inputs`` are given.
    """
    tape = Tape()
    with torch.enable_grad(), intercepting(*rules, tape), inputs or nullcontext():
        score = case.score().sum()
    steps = tape.steps
    if case.field is not None:
        steps = [step.on_edges(e) for step, e in zip(steps, case.field.around, strict=True)]
    steps = [
        step
        for step in steps
        if step.out.requires_grad and case.members(step.nodes.sizes[1]) is not None
    ]
    lses = [step.lse for step in steps if step.lse is not None and step.lse.requires_grad]
    leaves = [] if inputs is None else inputs.leaves
    tensors = [*(step.out for step in steps), *lses, *(leaf for _, leaf in leaves)]
    gradients = torch.autograd.grad(score, tensors, allow_unused=True) if tensors else ()
    remaining = iter(gradients)
    of_outputs, of_lses = (list(islice(remaining, len(x))) for x in (steps, lses))
    of_leaves = list(remaining)
    of_lse = {id(lse): gradient for lse, gradient in zip(lses, of_lses, strict=True)}
    members = torch.zeros(len(case.labels))
    counts = case.member >= 0
    for (x, _), gradient in zip(leaves, of_leaves, strict=True):
        if gradient is not None:
            rows = (x * gradient).to(members).sum(-1).reshape(-1, len(counts)).sum(0)
            members.index_add_(0, case.member[counts], rows[counts])
    pairs = zip(steps, of_outputs, strict=True)
    return [(step, (gradient, of_lse.get(id(step.lse)))) for step, gradient in pairs], members


def _of_edges(case: Case, steps: Steps, pairs: Tensor, method: str) -> Contributions:
    """Sum the contributions of edges to those of members and pairs."""
    totals, rows = _zeros(case, pairs, method), dict[int, int]()
    with torch.no_grad(), without_interception():
        for step, gradients in steps:
            edge_values = step.contributions(method, gradients)
            _add(case, step, _sum_over_heads(edge_values), totals)
            heads = edge_values.numel() // max(1, edge_values.shape[-2]) * step.nodes.heads
            rows[step.layer] = step.nodes.sizes[0] * heads
    if method == "attention":
        assert totals.directions is not None
        totals.members.div_(sum(rows.values()))
        totals.directions.div_(sum(rows.values()))
    return _joined(totals)


def _relevance(case: Case, pairs: Tensor) -> Contributions:
    """Compute the relevance of members and messages by AttnLRP."""
    rules = Relevance(case)
    steps, members = _record(case, [rules], rules)
    return replace(_of_edges(case, steps, pairs, "relevance"), members=members)


def _integrated_gradients(case: Case, pairs: Tensor) -> Contributions:
    """Integrate the gradients of messages, or of inputs if the case does not name edges."""
    totals = _zeros(case, pairs, "integrated_gradients")
    assert totals.directions is not None
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    for scale, weight in zip((points + 1) / 2, weights / 2, strict=True):
        if case.by_edge:
            steps, _ = _record(case, [ScaledMessages(case, scale)])
            messages = _of_edges(case, steps, pairs, "messages")
            assert messages.directions is not None
            totals.directions.add_(messages.directions, alpha=weight)
            members = messages.members
        else:
            _, members = _record(case, inputs=Inputs(case, scale))
        totals.members.add_(members, alpha=weight)
    return _joined(totals)


def _zeros(case: Case, pairs: Tensor, method: str) -> Contributions:
    members, directions = torch.zeros(len(case.labels)), torch.zeros(2, pairs.shape[1])
    return Contributions(members, pairs, directions[0], method, directions)


def _joined(totals: Contributions) -> Contributions:
    """Return contributions with the edges summed over both directions."""
    assert totals.directions is not None
    return replace(totals, edges=totals.directions.sum(0))


def _pairs(case: Case, steps: Sequence[Step]) -> Tensor:
    """Return the distinct pairs of members that an edge joins, ``[2, P]``, in ascending order."""
    count, keys = len(case.labels), []
    for step in {id(step.graph): step for step in steps}.values():
        if step.nodes.sizes[0] == step.nodes.sizes[1]:
            member = case.members(step.nodes.sizes[1])
            assert member is not None
            source, target = (member[tokens] for tokens in step.edges)
            joined = (source >= 0) & (target >= 0) & (source != target)
            keys.append(pair_keys(source[joined], target[joined], count).unique())
    unique = torch.cat(keys).unique() if keys else torch.zeros(0, dtype=torch.long)
    return pairs_of_keys(unique, count)


def _add(case: Case, step: Step, edge_values: Tensor, totals: Contributions) -> None:
    """Add the contribution of each edge to those of its source and of the pair of its ends."""
    members, directions = totals.members, totals.directions
    assert directions is not None
    keys = pair_keys(totals.pairs[0], totals.pairs[1], len(case.labels))
    (num_targets, num_sources), (source, target) = step.nodes.sizes, step.edges
    member = case.members(num_sources)
    assert member is not None
    source = member[source]
    if num_targets != num_sources:
        counts = source >= 0
        members.index_add_(0, source[counts], edge_values[counts])
        return
    target = member[target]
    counts = (source >= 0) & (source != target)
    members.index_add_(0, source[counts], edge_values[counts])
    counts &= target >= 0
    source, target = source[counts], target[counts]
    position = torch.searchsorted(keys, pair_keys(source, target, len(case.labels)))
    directions.index_put_(((source > target).long(), position), edge_values[counts], True)


def _sum_over_heads(edge_values: Tensor) -> Tensor:
    """Sum edge values ``[..., E, H]`` over batch dimensions and heads, to ``[E]``."""
    edge_values = edge_values.to(torch.get_default_dtype())
    return edge_values.sum(-1).reshape(-1, edge_values.shape[-2]).sum(0)


def _rollout(case: Case, steps: Sequence[Step], pairs: Tensor) -> Contributions:
    """Compute attention rollout back from the answer, with a weight of 1/2 for residuals."""
    totals = _zeros(case, pairs, "rollout")
    weights = {step: _sum_over_heads(step.weights_in_layer()) for step in steps}
    tokens = steps[0].nodes.sizes[1]
    reach = torch.zeros(tokens)
    for step, weight in weights.items():
        if step.nodes.sizes[0] != tokens:
            reach.index_add_(0, step.edges[0], weight)
    if case.own is not None:
        reach[case.own] += 1.0
    if not bool(reach.any()):
        reach += 1.0
    reach /= reach.sum()
    layers = groupby(
        (step for step in steps if step.nodes.sizes == (tokens, tokens)), lambda s: s.layer
    )
    for calls in reversed([list(calls) for _, calls in layers]):
        total, passed = torch.zeros(2, tokens)
        for step in calls:
            total.index_add_(0, step.edges[1], weights[step])
        for step in calls:
            source, target = step.edges
            flow = reach[target] * weights[step] / total.clamp(min=1e-30)[target] / 2
            _add(case, step, flow, totals)
            passed.index_add_(0, source, flow)
        reach = reach / 2 + passed
    member = case.members(tokens)
    assert member is not None
    members = torch.zeros(len(case.labels))
    members.index_add_(0, member[member >= 0], reach[member >= 0])
    return replace(_joined(totals), members=members)


def _removed(case: Case, pairs: Tensor) -> Contributions:
    """Compute the decrease of the score without each member or edge."""
    decreases = replace(_zeros(case, pairs, "removed"), directions=None)
    if case.by_edge:
        named = named_pairs(case, pairs)
        decreases.edges[named] = _decreases(case, pairs[:, named])
        if case.whole_graph and case.own is not None:
            return decreases
    members = listed(case).nonzero()[:, 0]
    decreases.members[members] = _decreases(case, members)
    return decreases


def _decreases(case: Case, parts: Tensor) -> Tensor:
    """Return the decrease of the score without each member ``[R]`` or pair ``[2, R]``, ``[R]``."""
    if not parts.shape[-1]:  # such as the bonds of methane
        return torch.zeros(0)
    at_once = 1 if case.score_copies is None else max(1, NODES_AT_ONCE // len(case.member))
    scores = []
    for chunk in parts.split(at_once, -1):
        count, size = chunk.shape[-1], len(case.labels)
        packed, indices = _copies(case, count), chunk + size * torch.arange(count)
        if parts.dim() == 2:
            out = without(packed, pairs=indices)
        else:
            removed = torch.zeros(len(packed.labels), dtype=torch.bool)
            removed[indices] = True
            out = without(packed, removed)
        scores.append(out.reshape(count, -1).sum(1))
    with torch.no_grad():
        decreases = case.score().sum() - torch.cat(scores)
    return decreases.to(torch.get_default_dtype())


def _copies(case: Case, count: int) -> Case:
    """Return a case of several copies of the input, with a score for each."""
    if case.score_copies is None or count == 1:
        return case
    copy = torch.arange(count)[:, None]
    member = torch.where(case.member < 0, -1, case.member + copy * len(case.labels))
    return replace(
        case,
        score=partial(case.score_copies, count),
        member=member.flatten(),
        labels=[*case.labels] * count,
        own=None if case.own is None else (case.own + copy * len(case.member)).flatten(),
    )


@contextmanager
def outputs_of(model: torch.nn.Module) -> Iterator[list[tuple[tuple[Any, ...], Tensor]]]:
    """Collect the positional arguments and the output of each call of a model in the block."""
    calls: list[tuple[tuple[Any, ...], Tensor]] = []
    hook = model.register_forward_hook(
        # A copy, because predictors may change the output in place.
        lambda _, inputs, out: calls.append((inputs, out.clone()))
    )
    try:
        yield calls
    finally:
        hook.remove()
