"""Attention and aggregation from the formula, in float64, with every gradient worked out by hand.

Nothing of the package is imported and no autograd is used, and each result comes with the error
that arithmetic in the type under test may leave on it (see ``arithmetic.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import erf, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from tests.engines.arithmetic import EXACT, Array, Bounded, Rounding, sum_by

Index = NDArray[np.int64]
ROUNDS = 4.0
"""Units of its argument's size that an activation or an exponential of a library may lose."""


@dataclass(frozen=True)
class Table:
    """``term[e] = table[index[e]]``."""

    index: Index
    table: Array


@dataclass(frozen=True)
class Projection:
    """``vector[e, h] = weight[h] @ features[e]``."""

    features: Array
    weight: Array


@dataclass(frozen=True)
class Score:
    """``dot`` (with a scale), ``none``, ``own`` (a callable), or the activation of an additive."""

    name: str
    scale: float = 1.0
    slope: float = 0.2
    weight: Array | None = None


@dataclass(frozen=True)
class Call:
    """What is computed; leading dimensions are any that broadcast to ``batch``."""

    source: Index
    target: Index
    num_targets: int
    num_sources: int
    heads: int
    batch: tuple[int, ...]
    score: Score
    query: Array | None = None
    key: Array | None = None
    value: Array | None = None
    bias: Array | Table | None = None
    gain: Array | Table | None = None
    edge_key: Array | Projection | None = None
    edge_value: Array | Projection | None = None
    alpha: Array | None = None
    """``[H]``, of α-entmax in the place of softmax; ``None`` for that."""
    kept: Array | None = None
    """``[*batch, E, H]``: 0 for a weight that is dropped, 1 / (1 - p) for one that stays."""
    has_lse_alone: bool = False
    """Whether weights are made from a log-sum-exp, one number, as a merge makes them."""
    stored: dict[str, Rounding] = field(default_factory=dict)
    """What terms lose when they are brought into a shorter type first."""

    def term(self, name: str, rounding: Rounding) -> Bounded:
        """The whole tensor that a term stands for."""
        lost, term = self.stored.get(name, EXACT), getattr(self, name)
        if isinstance(term, Table):
            return Bounded.of(term.table[term.index], rounding).rounded(lost)
        if isinstance(term, Projection):
            features = Bounded.of(term.features[:, None, None, :], rounding).rounded(lost)
            return (features * Bounded.of(term.weight, rounding).rounded(lost)).sum(-1)
        return Bounded.of(term, rounding).rounded(lost)

    def score_weight(self, rounding: Rounding) -> Bounded:
        """The weight of an additive score, 1 without."""
        given = Bounded.of(1.0 if self.score.weight is None else self.score.weight, rounding)
        return given.rounded(self.stored.get("score.weight", EXACT))


@dataclass
class Attention:
    """Scores, weights, log-sum-exp and output, and what the gradients need besides."""

    call: Call
    rounding: Rounding
    scores: Bounded
    live: NDArray[np.bool_]
    weights: Bounded
    lse: Bounded
    read: NDArray[np.bool_]
    """``[*batch, N_dst, H]``: whether anything is read, so that ``lse`` is finite."""
    out: Bounded | None
    raw: Bounded
    slopes: Bounded
    """How fast each weight grows with its score, the threshold held: softmax's are its weights."""
    turns: Bounded | None = None
    """Derivative of each weight of α-entmax by α, with score and threshold held."""
    parts: dict[str, Bounded] = field(default_factory=dict)

    def gradients(
        self,
        rounding: Rounding,
        *,
        out: Array | None = None,
        lse: Array | Bounded | None = None,
        weights: Array | None = None,
        scores: Array | Bounded | None = None,
    ) -> dict[str, Bounded]:
        """The gradient of each argument, given that of some results."""
        call, found = self.call, dict[str, Bounded]()
        if scores is not None:
            self._from_scores(_bounded(scores, rounding), found, rounding)
            return found
        weight = self.weights.within(rounding)
        share = Bounded.of(np.zeros(weight.value.shape), rounding)
        if weights is not None:
            share = share + Bounded.of(weights, rounding)
        if out is not None:
            assert call.value is not None
            grad = Bounded.of(out, rounding).at(-3, call.target)
            given = Bounded.of(1.0 if call.kept is None else call.kept, rounding)
            value = self.parts["value"].within(rounding)
            carried = (weight * given)[..., None] * grad
            found["value"] = _nodes(carried, call.source, call.num_sources, call.value)
            _vector("edge_value", call.edge_value, carried, found)
            share = share + given * (grad * value).sum(-1)
        slope = self.slopes.within(rounding)
        if self.turns is not None:
            found["alpha"] = self._alpha_gradient(share, rounding)
        mean = _by_node(slope * share, call.target, call.num_targets)
        if call.alpha is not None:  # whose slopes do not sum to 1
            whole = _by_node(slope, call.target, call.num_targets)
            mean = mean.ratio(replace(whole, value=np.where(self.read, whole.value, 1.0)))
        change = share - mean.at(-2, call.target)
        if lse is not None:
            change = change + _bounded(lse, rounding).at(-2, call.target)
        self._from_scores((slope * change).only(self.live), found, rounding)
        return found

    def _alpha_gradient(self, share: Bounded, rounding: Rounding) -> Bounded:
        """The gradient of α, one number a head; the threshold moves so that weights sum to 1."""
        assert self.turns is not None
        call = self.call
        turn, slope = self.turns.within(rounding), self.slopes.within(rounding)
        whole = _by_node(slope, call.target, call.num_targets)
        whole = replace(whole, value=np.where(self.read, whole.value, 1.0))
        moved = _by_node(turn, call.target, call.num_targets).ratio(whole)
        change = (turn - slope * moved.at(-2, call.target)).only(self.live)
        each = share * change
        return each.sum(tuple(range(each.value.ndim - 1)))

    def gradients_by_lse(self, rounding: Rounding, *, weights: Bounded) -> dict[str, Bounded]:
        """The gradient of each argument where weights are made as ``exp(score - lse)``.

        What goes through the score and what goes through the sum meet only in the argument, so
        what cancels there has been rounded twice.
        """
        direct = self.weights.within(rounding) * weights
        zero = Bounded.of(0.0, rounding)
        through = zero - _by_node(direct, self.call.target, self.call.num_targets)
        by_score = self.gradients(rounding, scores=direct.only(self.live))
        by_sum = self.gradients(rounding, lse=through)
        return {name: by_score[name] + by_sum[name] for name in by_score}

    def _from_scores(self, ds: Bounded, found: dict[str, Bounded], rounding: Rounding) -> None:
        call = self.call
        _term("bias", call.bias, ds, found)
        if call.gain is not None:
            _term("gain", call.gain, ds * self.raw.within(rounding), found)
            ds = ds * call.term("gain", rounding)
        if call.score.name == "none":
            return
        assert call.query is not None
        assert call.key is not None
        query, key = (self.parts[name].within(rounding) for name in ("query", "key"))
        both = ds[..., None]
        if call.score.name == "dot":
            both = both * Bounded.of(call.score.scale, rounding)
            to_query, to_key = both * key, both * query
        elif call.score.name == "own":
            turn = (query - key).through(lambda x: 1 / np.cosh(x) ** 2, 1.0, ROUNDS)
            to_query, to_key = both * (key + turn), both * (query - turn)
        else:
            energy, slope = _activation(query + key, call.score)
            to_query = to_key = both * slope * call.score_weight(rounding)
            if call.score.weight is not None:
                terms = both * energy
                found["score.weight"] = terms.to_shape((1, *call.score.weight.shape))[0]
        found["query"] = _nodes(to_query, call.target, call.num_targets, call.query)
        found["key"] = _nodes(to_key, call.source, call.num_sources, call.key)
        _vector("edge_key", call.edge_key, to_key, found)


def attend(call: Call, rounding: Rounding) -> Attention:
    """The formula, step by step."""
    shape = (*call.batch, len(call.source), call.heads)
    parts: dict[str, Bounded] = {}
    raw = Bounded.of(np.zeros(shape), rounding)
    if call.score.name != "none":
        parts["query"] = Bounded.of(call.query, rounding).at(-3, call.target)
        key = Bounded.of(_for_each_query(call.key, call.heads), rounding).at(-3, call.source)
        parts["key"] = key if call.edge_key is None else key.beside(call.term("edge_key", rounding))
        raw = raw + _score(parts["query"], parts["key"], call)
    scores = raw
    if call.gain is not None:
        scores = scores * call.term("gain", rounding)
    live, absorbed = np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    if call.bias is not None:
        bias = call.term("bias", rounding)
        finite = np.isfinite(bias.value)
        live &= finite
        scores, absorbed = _with_bias(scores, bias.only(finite))
    most = np.full((*call.batch, call.num_targets, call.heads), -np.inf)
    np.maximum.at(most, (..., call.target, slice(None)), np.where(live, scores.value, -np.inf))
    most[most == -np.inf] = 0.0
    peak = Bounded.of(most, rounding)
    power = (scores - peak.at(-2, call.target)).exp().only(live)
    total = _by_node(power, call.target, call.num_targets)
    read = total.value > 0
    total = replace(total, value=np.where(read, total.value, 1.0))
    weights = power.ratio(total.at(-2, call.target)).only(live)
    # Kernels keep the log-sum-exp alone and make weights from it again: what it loses, they lose.
    # Where it would lose the sum itself, an engine must keep the maximum apart.
    lost = weights.value * rounding.unit * np.abs(most[..., call.target, :])
    lost = np.where(absorbed & (not call.has_lse_alone), 0.0, lost)
    weights = replace(weights, error=np.minimum(weights.error + lost, 1.0))
    lse = total.log() + peak
    slopes, turns = weights, None
    if call.alpha is not None:
        weights, slopes, turns = _entmax(call, scores, live, peak)
    out = None
    if call.value is not None:
        value = Bounded.of(_for_each_query(call.value, call.heads), rounding)
        value = value.at(-3, call.source)
        if call.edge_value is not None:
            value = value.beside(call.term("edge_value", rounding))
        parts["value"] = value
        given = weights if call.kept is None else weights * Bounded.of(call.kept, rounding)
        out = (given[..., None] * value).summed_by(call.target, call.num_targets)
    return Attention(
        call, rounding, scores, live, weights, lse, read, out, raw, slopes, turns, parts
    )


LEAST_DIGITS = 2.0**-14
"""What a log-sum-exp may lose before an engine must keep the maximum apart."""


def _with_bias(scores: Bounded, bias: Bounded) -> tuple[Bounded, NDArray[np.bool_]]:
    """Score + bias, and where the bias is so large that the sum is the bias, exactly.

    The sum is rounded to float32 at least, however short the type under test.
    """
    total = scores + bias
    kind = np.float64 if scores.rounding.unit < 2.0**-40 else np.float32
    unit = np.spacing(np.abs(bias.value).astype(kind)).astype(np.float64)
    # Below this size, weights may be made from the log-sum-exp alone, which loses some digits.
    large = np.abs(bias.value) > LEAST_DIGITS / np.finfo(kind).eps
    absorbed = large & (np.abs(scores.value) + scores.error < unit / 4)
    absorbed = np.broadcast_to(absorbed & (bias.error == 0) & (bias.value != 0), total.value.shape)
    value, error = np.where(absorbed, bias.value, total.value), np.where(absorbed, 0, total.error)
    return Bounded(value, error, scores.rounding), absorbed


def _entmax(
    call: Call, scores: Bounded, live: NDArray[np.bool_], peak: Bounded
) -> tuple[Bounded, Bounded, Bounded]:
    """Weights of α-entmax, their slopes and their derivatives by α, by bisection of the threshold.

    Of y = s - c the weight is (1 + εy)^(1/ε) and its slope its power 2 - α, with ε = α - 1: both
    grow with y, so that what y may be off by bounds what they are. That is what the scores may be
    off by, and the threshold, which is a mean of the scores and off by as much as the sum is,
    over its slope; and what is lost of y where 1 is added to it, which is a unit of 1 / ε.
    """
    assert call.alpha is not None
    target, rows, rounding = call.target, call.num_targets, scores.rounding
    count = np.bincount(target, minlength=rows)[:, None]
    gap = np.where(live, scores.value - peak.value[..., target, :], -np.inf)
    power = call.alpha - 1
    softmax = power == 0
    safe = np.where(softmax, 1.0, power)

    def made(y: Array, exponent: Array) -> Array:
        """(1 + εy)^exponent where that is above 0."""
        left = 1 + safe * y
        return np.where(left > 0, np.maximum(left, 0) ** exponent, 0.0)

    def weights(y: Array) -> Array:
        return np.where(softmax, np.exp(y), made(y, 1 / safe))

    def slopes(y: Array) -> Array:
        return np.where(softmax, np.exp(y), made(y, (1 - safe) / safe))

    def summed(x: Array) -> Array:
        return sum_by(target, rows, x[..., None])[..., 0]

    many = np.maximum(count, 1).astype(float)
    low = np.zeros(peak.value.shape)
    high = low + np.where(softmax, np.log(many), (1 - many**-safe) / safe)
    for _ in range(80):
        middle = (low + high) / 2
        above = summed(weights(gap - middle[..., target, :])) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    y = gap - high[..., target, :]
    slope = slopes(y)
    whole = np.maximum(summed(slope), 1e-300)
    unsure = np.where(live, scores.error, 0.0) + ROUNDS * rounding.unit * (1 / safe + np.abs(y))
    unsure = np.where(live, unsure, 0.0)
    # A score that is off by much may enter the support, where its slope is 0 now.
    most = np.maximum(slope * unsure, weights(y + unsure) - weights(y))
    moved = summed(most) + (np.sqrt(count) + ROUNDS) * rounding.unit
    unsure = unsure + np.where(whole > 1e-300, moved / whole, 0.0)[..., target, :]

    def at_most_one(error: Array) -> Array:
        """Weights, slopes and turns are numbers from -1 to 1, also where a huge score overflows."""
        return np.where(error <= 1, error, 1.0)

    def bounded(function: Callable[[Array], Array]) -> Bounded:
        value = function(y)
        error = np.maximum(function(y + unsure) - value, value - function(y - unsure))
        error = at_most_one(error + ROUNDS * rounding.unit * value + rounding.tiny)
        return Bounded(value, error, rounding).only(live)

    def turns(y: Array) -> Array:
        """w · ∂L/∂ε = w ((t - 1) / t - log t) / ε² where w = t^(1/ε); -w y² / 2 for ε = 0."""
        t = np.where(1 + safe * y > 0, 1 + safe * y, 1.0)
        found: Array = np.where(1 + safe * y > 0, weights(y), 0.0) * (1 - 1 / t - np.log(t))
        return np.where(softmax, -np.exp(y) * y * y / 2, found / safe**2)

    value = turns(y)
    near = [
        np.abs(turns(y + sign * part * unsure) - value) for sign in (-1, 1) for part in (0.5, 1)
    ]
    digits = ROUNDS * rounding.unit * (1 + np.abs(y)) ** 2 * (weights(y) + slopes(y)) / safe**2
    error = at_most_one(2 * np.max(near, axis=0) + digits + rounding.tiny)
    turned = Bounded(value, error, rounding)
    return bounded(weights), bounded(slopes), turned.only(live)


def in_ieee(call: Call) -> tuple[Array, Array]:
    """Output and log-sum-exp of softmax by the bare formula, NaN and infinities included.

    An edge whose score is -inf has weight 0, which times NaN is NaN. For α-entmax the output is
    NaN at the same places.
    """
    shape = (*call.batch, len(call.source), call.heads)
    scores = np.zeros(shape)
    if call.score.name != "none":
        assert call.query is not None
        key = _for_each_query(call.key, call.heads)[..., call.source, :, :]
        if call.edge_key is not None:
            key = key + call.term("edge_key", EXACT).value
        query = Bounded.of(call.query[..., call.target, :, :], EXACT)
        scores = scores + _score(query, Bounded.of(key, EXACT), call).value
    if call.gain is not None and call.score.name != "none":
        scores = scores * call.term("gain", EXACT).value
    if call.bias is not None:
        scores = scores + call.term("bias", EXACT).value
    most = np.full((*call.batch, call.num_targets, call.heads), -np.inf)
    np.maximum.at(most, (..., call.target, slice(None)), scores)
    most[most == -np.inf] = 0.0
    power = np.exp(scores - most[..., call.target, :])
    total = sum_by(call.target, call.num_targets, power[..., None])[..., 0]
    lse = np.log(total) + most
    weights = power / np.where(total == 0, 1.0, total)[..., call.target, :]
    value = _for_each_query(call.value, call.heads)[..., call.source, :, :]
    if call.edge_value is not None:
        value = value + call.term("edge_value", EXACT).value
    return sum_by(call.target, call.num_targets, weights[..., None] * value), lse


def aggregate(
    call: Call, weight: Array | None, reduce: str, rounding: Rounding, messages: Array
) -> tuple[Bounded, Callable[[Array, Rounding], dict[str, Bounded]]]:
    """Output, and a function from its gradient to those of ``value`` and ``weight``.

    ``messages`` are weight · value in the type under test, where ties are decided.
    """
    assert call.value is not None
    degree = np.bincount(call.target, minlength=call.num_targets)[:, None, None]
    value = Bounded.of(np.broadcast_to(call.value, (*call.batch, *call.value.shape[-3:])), rounding)
    value = value.at(-3, call.source)
    factor = None if weight is None else Bounded.of(weight, rounding)[..., None]
    carried = value if factor is None else value * factor
    count = np.maximum(degree, 1)
    share = np.broadcast_to(np.ones(()), carried.value.shape)
    if reduce in ("sum", "mean"):
        out = carried.summed_by(call.target, call.num_targets)
        if reduce == "mean":
            out, share = out.over(count), share / count[call.target]
    else:
        sign = 1 if reduce == "max" else -1
        best = np.full((*call.batch, call.num_targets, *carried.value.shape[-2:]), -np.inf)
        rows = (..., call.target, slice(None), slice(None))
        np.maximum.at(best, rows, sign * messages)
        winner = messages == sign * best[rows]
        winners = sum_by(call.target, call.num_targets, winner.astype(float))
        share = winner / np.maximum(winners, 1)[rows]
        found = np.where(degree > 0, sign * best, 0.0)
        out = Bounded.of(found, rounding)._made(found, np.zeros_like(found))

    def gradients(grad: Array, rounding: Rounding) -> dict[str, Bounded]:
        back = Bounded.of(grad, rounding).at(-3, call.target) * Bounded.of(share, rounding)
        assert call.value is not None
        to_value = back if factor is None else back * factor.within(rounding)
        given = {"value": _nodes(to_value, call.source, call.num_sources, call.value)}
        if weight is not None:
            to_weight = (back * value.within(rounding)).sum(-1)
            given["weight"] = to_weight.to_shape(weight.shape)
        return given

    return out, gradients


def dropout(seed: int, probability: float, batch: tuple[int, ...], edges: int, heads: int) -> Array:
    """``[*batch, E, H]``: the mask that is counted from (seed, member, edge, head).

    Words of 32 bits are mixed by lowbias32: the edge with the low half of the seed, then the head
    offset by the golden ratio, then the member offset by the high half; a weight is kept where the
    word is no less than ⌊p · 2³²⌋.
    """
    members = int(np.prod(batch))
    low, high = np.uint32(seed & 0xFFFFFFFF), seed >> 32
    word = _mix(_mix(np.arange(edges, dtype=np.uint32)) ^ low)[None, :, None]
    head = (np.arange(heads, dtype=np.uint64) + 0x9E3779B9).astype(np.uint32)
    member = (np.arange(members, dtype=np.uint64) + np.uint64(high)).astype(np.uint32)
    word = _mix(word ^ _mix(head))
    word = _mix(word ^ _mix(member)[:, None, None])
    kept = (word >= int(probability * 2**32)) & (probability < 1)
    factor = 1 / (1 - probability) if probability < 1 else 0.0
    return (kept * factor).reshape(*batch, edges, heads)


def _mix(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    word = word ^ (word >> np.uint32(16))
    word = word * np.uint32(0x7FEB352D)
    word = word ^ (word >> np.uint32(15))
    word = word * np.uint32(0x846CA68B)
    return word ^ (word >> np.uint32(16))


def _score(query: Bounded, key: Bounded, call: Call) -> Bounded:
    score = call.score
    if score.name == "dot":
        return (query * key).sum(-1) * Bounded.of(score.scale, query.rounding)
    if score.name == "own":
        turned = (query - key).through(np.tanh, 1.0, ROUNDS)
        return (query * key).sum(-1) + turned.sum(-1)
    energy, _ = _activation(query + key, score)
    return (energy * call.score_weight(query.rounding)).sum(-1)


def _activation(x: Bounded, score: Score) -> tuple[Bounded, Bounded]:
    """The activation and its slope."""
    if score.name in ("leaky_relu", "relu", "identity"):
        below = {"leaky_relu": score.slope, "relu": 0.0, "identity": 1.0}[score.name]
        positive = x.value > 0
        slope = np.where(positive, 1.0, below)
        # Rounding may carry an argument across the kink, and at the kink either slope will do.
        unsure = np.where(np.abs(x.value) <= 4 * x.error, abs(1 - below), 0.0)
        steepest = max(1.0, abs(below))
        energy = x.through(lambda v: v * slope, steepest, 0.0)
        return energy, Bounded(slope, unsure, x.rounding)
    size = 1 + np.abs(x.value)
    function, derivative = {
        "tanh": (np.tanh, lambda v: 1 / np.cosh(v) ** 2),
        "gelu": (lambda v: v * _normal(v), lambda v: _normal(v) + v * _density(v)),
        "silu": (
            lambda v: v * _logistic(v),
            lambda v: _logistic(v) * (1 + v * (1 - _logistic(v))),
        ),
    }[score.name]
    return x.through(function, 1.2, ROUNDS * size), x.through(derivative, 1.0, ROUNDS * size)


_erf = np.vectorize(erf, otypes=[float])


def _normal(x: Array) -> Array:
    given: Array = (1 + _erf(x / sqrt(2))) / 2
    return given


def _density(x: Array) -> Array:
    given: Array = np.exp(-x * x / 2) / sqrt(2 * pi)
    return given


def _logistic(x: Array) -> Array:
    given: Array = (1 + np.tanh(x / 2)) / 2
    return given


def _term(name: str, term: Array | Table | None, grad: Bounded, found: dict[str, Bounded]) -> None:
    """The gradient of a bias or gain from that of every edge and head."""
    if isinstance(term, Table):
        table = _by_node(grad, term.index, len(term.table))
        found[f"{name}.table"] = table.to_shape(term.table.shape)
    elif term is not None:
        found[name] = grad.to_shape(term.shape)


def _vector(
    name: str, vector: Array | Projection | None, grad: Bounded, found: dict[str, Bounded]
) -> None:
    """The gradient of an edge vector from that of every edge, head and entry."""
    if isinstance(vector, Projection):
        rounding = grad.rounding
        shared = grad.to_shape((len(vector.features), *vector.weight.shape[:2]))[..., None]
        weight = Bounded.of(vector.weight, rounding)
        features = Bounded.of(vector.features, rounding)[:, None, None, :]
        found[f"{name}.features"] = (shared * weight).sum((1, 2))
        found[f"{name}.weight"] = (shared * features).sum(0)
    elif vector is not None:
        found[name] = grad.to_shape(vector.shape)


def _bounded(x: Array | Bounded, rounding: Rounding) -> Bounded:
    return x.within(rounding) if isinstance(x, Bounded) else Bounded.of(x, rounding)


def _nodes(grad: Bounded, node: Index, count: int, like: Array) -> Bounded:
    """The gradient of nodes from that of the edges at them."""
    return grad.summed_by(node, count).of_groups(like.shape[-2]).to_shape(like.shape)


def _for_each_query(x: Array | None, heads: int) -> Array:
    """``[..., N, H, D]`` from as many heads, or from fewer, each of which several queries read."""
    assert x is not None
    return x if x.shape[-2] == heads else np.repeat(x, heads // x.shape[-2], axis=-2)


def _by_node(x: Bounded, node: Index, count: int) -> Bounded:
    """``[..., E, H]`` summed to ``[..., N, H]``."""
    return x[..., None].summed_by(node, count)[..., 0]
