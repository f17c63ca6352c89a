"""What must hold of a case: every engine gives what the oracle gives, or refuses and says so."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import edgewise as ew
from edgewise._utils.errors import ArgumentError
from edgewise.engines import ENGINES
from edgewise.engines.native import operator
from tests.engines import oracle
from tests.engines.arithmetic import Array, Bounded, Rounding
from tests.engines.case import Case, Leaf, laid_out
from tests.graphs.views import check_graph
from tests.seeds import seed

ROUNDINGS = {
    torch.float64: Rounding(2.0**-52, 1e-300),
    torch.float32: Rounding(2.0**-23, 1e-37),
    torch.bfloat16: Rounding(2.0**-7, 1e-37),
    torch.float16: Rounding(2.0**-10, 2.0**-24),
}
SAFETY = 3.0
"""By how much the bounds may be exceeded: they are of first order and know one order of sums, and
the kernels' exponential is off by a unit or two of its own."""
LARGEST_HALF = 6e4
"""Beyond this a float16 may be infinite."""
COUNTING = ("reference", "rows", "tiles")
"""Engines that drop weights by counting; the others draw from PyTorch's generator."""
REPEATABLE = ("rows", "tiles")
"""Engines that promise the same bits for any number of threads."""

Flags = NDArray[np.bool_]


@dataclass
class Result:
    """What a call gave: tensors by name, and the gradients of the leaves that were wanted."""

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


@dataclass
class Report:
    """What was wrong with a case, what ran, and what came closest to its bound."""

    failures: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    closest: tuple[float, str] = (0.0, "")


def check_case(case: Case, engines: Sequence[str] = (*ENGINES, "auto", "merge")) -> Report:
    """All that must hold of this case, on these engines."""
    report = Report()
    checks = {"attend": _check_attend, "aggregate": _check_aggregate}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        if case.over.matrix is not None:
            with _Watch(report, "pattern"):
                check_graph(case.over.graph, case.over.matrix)
            report.ran.append("pattern")
        if not report.failures:
            checks.get(case.operation, _check_steps)(case, report, engines)
    return report


def _check_attend(case: Case, report: Report, engines: Sequence[str]) -> None:
    clean = {name: leaf.tensor for name, leaf in case.leaves.items()}
    first = _in_inference_mode(case, clean, report) if case.context == "inference" else None
    refusals = _refusals(case, clean, report)
    if refusals is None:
        return
    grads = _cotangents(case)
    poisoned: dict[str, Result] = {}
    given = grads if case.lse else {"out": grads["out"]}
    known: dict[tuple[object, ...], _Wanted] = {}
    for engine in [name for name in engines if name != "merge" and not refusals.get(name)]:
        if case.dropout and engine == "auto" and not refusals["dense"]:
            continue  # it may choose the engine that draws another mask
        with _Watch(report, engine):
            result = _run_attend(case, engine, clean, grads)
            report.ran.append(engine)
            inner = _inner(case, engine)
            stored = _stored(case, inner, engine)
            mask = "counted" if engine in COUNTING or engine == "auto" else engine
            alike = (inner, *sorted(stored.items()), mask if case.dropout else "")
            if alike not in known:
                kept = None
                if case.dropout:
                    kept = _counted_mask(case) if mask == "counted" else _drawn_mask(case, engine)
                known[alike] = _Wanted(case, _attention(case, engine, kept), given)
            wanted = known[alike]
            _judge_attention(engine, result, wanted, report)
            if case.threads:
                _check_repeats(engine, result, lambda e: _run_attend(case, e, clean, grads), report)
            if case.context == "autocast":
                with torch.autocast("cpu", torch.bfloat16):
                    outputs = _outputs(case, engine, _differentiable(case, clean))
                _check_same(f"{engine} under autocast", result.outputs, outputs, report)
            if engine == "auto" and first is not None:
                _check_same("inference mode", result.outputs, first, report)
            if case.poison is not None:
                _check_poison(engine, wanted, poisoned, report)
    if "merge" in engines and not (case.dropout or case.alpha) and len(case.over.graph.parts) > 1:
        with _Watch(report, "merge"):
            _check_merge(case, clean, grads, report)
    if case.meta:
        with _Watch(report, "meta"):
            _check_meta(case, clean, grads, report)


def _refusals(case: Case, leaves: dict[str, Tensor], report: Report) -> dict[str, bool] | None:
    """Which engines refuse, or nothing if the call itself is refused: then by all of them."""
    try:
        plan = ew.explain_plan(*_nodes(leaves), case.over.given, **case.options(leaves))
    except ArgumentError as error:
        if not _may_be_refused(case):
            report.failures.append(f"plan: refused, {error}")
        for engine in [*ENGINES, "auto"]:
            try:
                _run_attend(case, engine, leaves, {})
            except ArgumentError:
                continue
            except Exception as other:  # whatever it is, it is a finding
                report.failures.append(f"{engine}: {type(other).__name__} where others refuse")
            else:
                report.failures.append(f"{engine}: runs what the plan refuses ({error})")
        report.ran.append("refused")
        return None
    return {choice.engine: bool(choice.reasons) for choice in plan.choices}


def _may_be_refused(case: Case) -> bool:
    """Only terms of a longer type than the nodes' may be refused; all else must work."""
    longest = torch.finfo(case.dtype).eps
    return any(
        torch.finfo(leaf.tensor.dtype).eps < min(longest, torch.finfo(torch.float32).eps)
        for leaf in case.leaves.values()
    )


def _run_attend(
    case: Case, engine: str, leaves: dict[str, Tensor], grads: dict[str, Tensor]
) -> Result:
    """Output, log-sum-exp where it is asked for, and gradients."""
    given = _differentiable(case, leaves)
    outputs = _outputs(case, engine, given)
    return Result(outputs, _gradients(case, outputs, grads, given))


def _outputs(case: Case, engine: str, given: dict[str, Tensor]) -> dict[str, Tensor]:
    options = case.options(given)
    seed(case.number)
    nodes = tuple(_nodes(given))
    if case.lse:
        pair = ew.attend_with_lse(*nodes, case.over.given, engine=engine, **options)
        return dict(zip(("out", "lse"), pair, strict=True))
    if case.heads_first:
        query, key, value = (x.transpose(-2, -3) for x in nodes)
        out = ew.attend(query, key, value, case.over.given, engine=engine, layout="HND", **options)
        return {"out": out.transpose(-2, -3)}
    return {"out": ew.attend(*nodes, case.over.given, engine=engine, **options)}


def _in_inference_mode(
    case: Case, leaves: dict[str, Tensor], report: Report
) -> dict[str, Tensor] | None:
    """What a first call under inference mode gives; later calls must not find its tensors."""
    try:
        with torch.inference_mode():
            return _outputs(case, "auto", leaves)
    except ArgumentError:  # which the other engines must refuse, too
        return None
    except Exception as error:  # whatever it is, it is a finding
        report.failures.append(f"inference mode: {type(error).__name__}: {error}")
        return None


def _check_same(
    what: str, wanted: dict[str, Tensor], got: dict[str, Tensor], report: Report
) -> None:
    """The same type and the same bits."""
    for name, x in wanted.items():
        other = got[name].detach()
        if x.dtype != other.dtype or not _same_bits(x.detach(), other):
            away = (x.detach().double() - other.double()).abs().nan_to_num().max()
            report.failures.append(f"{what}: {name} is {other.dtype} and off by {float(away):.2g}")


def _attention(case: Case, engine: str, kept: Array | None) -> oracle.Attention:
    inner = _inner(case, engine)
    alone = engine == "merge"
    call = replace(case.call(kept), stored=_stored(case, inner, engine), has_lse_alone=alone)
    return oracle.attend(call, inner)


def _stored(case: Case, inner: Rounding, engine: str) -> dict[str, Rounding]:
    """Terms of a longer type than an engine computes in, or keeps edge vectors in, are rounded."""
    stored = {}
    for name, leaf in case.leaves.items():
        vector = engine == "rows" and name in ("edge_key", "edge_value")
        kept = ROUNDINGS[case.dtype] if vector else inner
        if ROUNDINGS[leaf.tensor.dtype].unit < kept.unit:
            stored[name.split(".")[0] if name != "score.weight" else name] = kept
    return stored


def _inner(case: Case, engine: str) -> Rounding:
    """In what an engine computes: 16-bit numbers in float32, but for dense matrix products."""
    wide = engine in COUNTING and case.dtype in (torch.bfloat16, torch.float16)
    return ROUNDINGS[torch.float32 if wide else case.dtype]


@dataclass
class _Wanted:
    """What the oracle says of a case, worked out once for all engines that round alike."""

    case: Case
    attention: oracle.Attention
    grads: dict[str, Tensor]
    """The gradient of each result."""

    @cached_property
    def out(self) -> Bounded:
        return _in_hull(self.attention)

    @cached_property
    def gradients(self) -> dict[str, Bounded]:
        exact = {name: _exact(grad) for name, grad in self.grads.items()}
        return _expected(self.case, lambda rounding: self.attention.gradients(rounding, **exact))


def _judge_attention(
    engine: str,
    result: Result,
    expected: _Wanted,
    report: Report,
    affected: dict[str, Flags] | None = None,
) -> None:
    """Results against the oracle's; where ``affected`` is set, anything goes."""
    case, wanted = expected.case, expected.attention
    rounding = ROUNDINGS[case.dtype]
    skip = affected or {}
    out = result.outputs["out"]
    if out.dtype != case.dtype:
        report.failures.append(f"{engine}: out is {out.dtype}")
    _judge(report, f"{engine}: out", out, expected.out, skip.get("out"))
    if "lse" in result.outputs:
        lse = result.outputs["lse"]
        off = skip.get("lse", np.zeros_like(wanted.read))
        if not np.array_equal((_exact(lse) != -np.inf) | off, wanted.read | off):
            report.failures.append(f"{engine}: lse is not -inf where nothing is read")
        else:
            _judge(report, f"{engine}: lse", lse, wanted.lse, ~wanted.read | off)
    if not case.wanted:
        return
    for name, gradient in result.gradients.items():
        leaf = case.leaves[name].tensor
        if (gradient.shape, gradient.dtype) != (leaf.shape, leaf.dtype):
            got = f"{gradient.dtype} {list(gradient.shape)}"
            report.failures.append(f"{engine}: gradient of {name} is {got}")
            continue
        zero = Bounded.of(np.zeros(leaf.shape), rounding)
        off = skip.get(name) if affected is None else skip.get(name, np.ones(leaf.shape, bool))
        right = expected.gradients.get(name, zero)
        _judge(report, f"{engine}: gradient of {name}", gradient, right, off)
    if affected is None and case.dropout == 0 and "value" in result.gradients:
        out_grad = Bounded.of(_exact(expected.grads["out"]), rounding)
        _judge_conservation(engine, result.gradients["value"], wanted, out_grad, report)


def _expected(
    case: Case, gradients: Callable[[Rounding], dict[str, Bounded]]
) -> dict[str, Bounded]:
    """The gradient of each leaf, added up in its own type where that is float32 beside float64."""
    expected = gradients(ROUNDINGS[case.dtype])
    if case.dtype == torch.float64:
        short = {name for name, x in case.leaves.items() if x.tensor.dtype == torch.float32}
        if short:
            coarse = gradients(ROUNDINGS[torch.float32])
            expected |= {name: x for name, x in coarse.items() if name in short}
    if "alpha" in expected and "alpha" in case.leaves:
        shape = case.leaves["alpha"].exact.shape
        expected["alpha"] = expected["alpha"].to_shape(shape)
    return expected


def _in_hull(wanted: oracle.Attention) -> Bounded:
    """Without dropout an output lies between the least and the largest value that is read."""
    out = wanted.out
    assert out is not None
    call = wanted.call
    if call.kept is not None or not len(call.source):
        return out
    value = np.broadcast_to(
        wanted.parts["value"].value, (*call.batch, len(call.source), *out.value.shape[-2:])
    )
    rows = (..., call.target, slice(None), slice(None))
    high = np.full(out.value.shape, -np.inf)
    low = np.full(out.value.shape, np.inf)
    live = wanted.live[..., None]
    np.maximum.at(high, rows, np.where(live, value, -np.inf))
    np.minimum.at(low, rows, np.where(live, value, np.inf))
    high, low = (np.where(np.isfinite(x), x, 0) for x in (high, low))
    inexact = np.zeros(out.value.shape)
    np.maximum.at(inexact, rows, np.broadcast_to(wanted.parts["value"].error, value.shape))
    size = np.maximum(np.abs(high), np.abs(low))
    degree = np.bincount(call.target, minlength=call.num_targets)[:, None, None]
    most = (
        high
        - low
        + 2 * inexact
        + (np.sqrt(degree) + 2) * (out.rounding.unit * size + out.rounding.tiny)
    )
    return replace(out, error=np.minimum(out.error, most))


def _judge_conservation(
    engine: str,
    gradient: Tensor,
    wanted: oracle.Attention,
    out_grad: Bounded,
    report: Report,
) -> None:
    """Weights sum to one, hence so do the gradients of the values that a target reads.

    That holds whatever the scores are, and so also where rounding leaves nothing of them.
    """
    rounding = out_grad.rounding
    grad = out_grad.only(wanted.read[..., None])
    shape = (*gradient.shape[:-3], 1, *gradient.shape[-2:])
    heads = gradient.shape[-2]
    whole = grad.sum(-3, keepdims=True).of_groups(heads).to_shape(shape)
    sizes = Bounded.of(np.abs(grad.value), rounding).sum(-3, keepdims=True).of_groups(heads)
    size = sizes.to_shape(shape).value
    logs = np.where(wanted.read, np.abs(wanted.lse.value), 0).max(initial=0)
    # Roundings of different numbers add up as a random walk does, those of equal ones in a line.
    pairs = wanted.call.source * wanted.call.num_targets + wanted.call.target
    alike = np.unique(pairs, return_counts=True)[1].max(initial=1)
    sources = np.sqrt(max(gradient.shape[-3], len(pairs))) + 1 + alike
    # PyTorch's kernel keeps one float32 log-sum-exp of moderate size; ours keep the maximum and the
    # sum apart; a merge has the log-sum-exp alone.
    most = {"dense": 1000.0, "merge": np.inf}.get(engine, 100.0)
    times = sources + min(logs, most)
    loose = times * rounding.unit * size + sources**2 * rounding.tiny
    total = _exact(gradient).sum(-3, keepdims=True)
    whole = replace(whole, error=whole.error + loose)
    _judge(report, f"{engine}: sum of the gradients of values", torch.from_numpy(total), whole)


def _counted_mask(case: Case) -> Array:
    """By the counting rule, from the seed that the call draws from PyTorch's generator."""
    seed(case.number)
    number = int(torch.randint(2**62, ()))
    edges = case.over.graph.num_edges
    return oracle.dropout(number, case.dropout, case.batch, edges, case.heads)


def _drawn_mask(case: Case, engine: str) -> Array:
    """Read off an engine by values that are unit vectors: they show every weight."""
    graph = case.over.graph
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    eye = torch.eye(graph.num_sources, dtype=case.dtype)[:, None]
    shape = (*leaves["value"].shape[:-1], graph.num_sources)
    leaves["value"] = eye.expand(shape)
    options = {k: v for k, v in case.options(leaves).items() if k != "edge_value"}
    run = ew.attend_with_lse if case.lse else ew.attend
    seed(case.number)
    given = run(*_nodes(leaves), case.over.given, engine=engine, **options)
    out = _exact(given[0] if isinstance(given, tuple) else given)
    shown = np.swapaxes(out, -1, -2)[..., graph.target.numpy(), graph.source.numpy(), :]
    scale = 1 / (1 - case.dropout) if case.dropout < 1 else 0.0
    return np.where(shown > 0, scale, 0.0)


def check_threads(case: Case, engine: str) -> Report:
    """The same bits for any number of threads."""
    report = Report()
    clean = {name: leaf.tensor for name, leaf in case.leaves.items()}
    grads = _cotangents(case)

    def run(engine: str) -> Result:
        return _run_attend(case, engine, clean, grads)

    _check_repeats(engine, run(engine), run, report)
    return report


def _check_repeats(
    engine: str, result: Result, run: Callable[[str], Result], report: Report
) -> None:
    """The same bits again, and with more threads where an engine promises that."""
    for threads in (1, 2, 3) if engine in REPEATABLE else (1,):
        torch.set_num_threads(threads)
        try:
            with patch.object(operator, "LEAST_WORK", 1):  # threads even for what is this small
                again = run(engine)
        finally:
            torch.set_num_threads(1)
        for kind in ("outputs", "gradients"):
            for name, first in getattr(result, kind).items():
                if not _same_bits(first, getattr(again, kind)[name]):
                    report.failures.append(f"{engine}: {name} differs with {threads} threads")


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and torch.equal(a.isnan(), b.isnan())


def _check_poison(
    engine: str, wanted: _Wanted, references: dict[str, Result], report: Report
) -> None:
    """NaN or an infinity does what it does in the formula, and reaches nothing else.

    Outputs are finite at the same places as the formula's. A gradient that is NaN on the reference
    is NaN on every engine. Infinities are not followed through activations and through sums that
    an engine may split, as these may subtract infinities from each other.
    """
    case = wanted.case
    assert case.poison is not None
    name, number, place = case.poison
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    bad = leaves[name].clone()
    bad[place] = number
    what = f"{engine} with {number} in {name}"
    result = _run_attend(case, engine, {**leaves, name: bad}, wanted.grads)
    out, lse = _by_formula(case, np.nan)
    reached = np.isnan(lse) | np.isnan(out).any(-1)
    _judge_attention(what, result, wanted, report, _affected(case, reached))
    sums = any(leaf == "edge_key" or "." in leaf for leaf in case.leaves)
    safe = case.score.name in ("dot", "none") and not sums
    if not (np.isnan(number) or safe):
        return
    out, lse = _by_formula(case, number)
    if case.dtype != torch.float16 or np.isnan(number):
        wrong = np.isfinite(_exact(result.outputs["out"])) != np.isfinite(out)
        _check_none(f"{what}: out is finite, or is not, unlike the formula's", wrong, report)
    if "lse" in result.outputs and np.isnan(number):
        wrong = np.isnan(_exact(result.outputs["lse"])) != np.isnan(lse)
        _check_none(f"{what}: lse is NaN, or is not, unlike the formula's", wrong, report)
    if not np.isnan(number) or case.score.name not in ("dot", "none"):
        return  # the slope of an activation at NaN is a number in some libraries
    if engine == "reference":
        references["reference"] = result
    elif "reference" in references:
        for leaf, gradient in references["reference"].gradients.items():
            lost = np.isnan(_exact(gradient)) & ~np.isnan(_exact(result.gradients[leaf]))
            _check_none(f"{what}: gradient of {leaf} is a number", lost, report)


def _by_formula(case: Case, number: float) -> tuple[Array, Array]:
    """Output and log-sum-exp of a case in float64 where its poison is this number."""
    assert case.poison is not None
    name, _, place = case.poison
    exact = case.leaves[name].exact.copy()
    exact[place] = number
    return oracle.in_ieee(case.call(changed={name: exact}))


def _check_none(what: str, wrong: Flags, report: Report) -> None:
    if wrong.any():
        first = [int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape)]
        report.failures.append(f"{what} at {first} ({wrong.sum()} of {wrong.size} wrong)")


def _affected(case: Case, reached: Flags) -> dict[str, Flags]:
    """Where each result may depend on what the reached targets compute."""
    graph = case.over.graph
    edge = reached[..., graph.target.numpy(), :]
    source = np.zeros((*case.batch, graph.num_sources, case.heads), dtype=bool)
    np.logical_or.at(source, (..., graph.source.numpy(), slice(None)), edge)
    found = {"out": reached[..., None], "lse": reached}
    by_node = {"query": reached, "key": source, "value": source}
    for name, flags in [*by_node.items(), ("bias", edge), ("gain", edge)]:
        if name in case.leaves:
            shape = case.leaves[name].exact.shape
            nodes = name in by_node
            mine = flags
            if nodes:  # a head of keys is affected where one of its queries is
                group = flags.shape[-1] // shape[-2]
                mine = flags.reshape(*flags.shape[:-1], shape[-2], group).any(-1)
            own = _any_to(mine, shape[:-1] if nodes else shape)
            found[name] = np.broadcast_to(own[..., None] if nodes else own, shape)
    return found


def _any_to(flags: Flags, shape: tuple[int, ...]) -> Flags:
    """Whether any of those that are broadcast from this shape is set."""
    flags = flags.any(tuple(range(flags.ndim - len(shape))))
    axes = tuple(i for i, size in enumerate(shape) if size == 1)
    return flags.any(axes, keepdims=True) if axes else flags


def _check_merge(
    case: Case, leaves: dict[str, Tensor], grads: dict[str, Tensor], report: Report
) -> None:
    """Attention over the parts of a graph, each on an engine of its own, merged, is the whole's."""
    given = _differentiable(case, leaves)
    nodes, options = tuple(_nodes(given)), case.options(given)
    first, parts = 0, []
    for number, part in enumerate(case.over.graph.parts):
        edges = slice(first, first + part.num_edges)
        share = {name: _of_edges(name, term, edges) for name, term in options.items()}
        choices = ew.explain_plan(*nodes, part, **share).choices
        can = sorted(choice.engine for choice in choices if not choice.reasons)
        engine = can[number % len(can)]
        parts.append(ew.attend_with_lse(*nodes, part, **share, engine=engine))
        first = edges.stop
    outputs = dict(zip(("out", "lse"), ew.merge_attention(parts), strict=True))
    result = Result(outputs, _gradients(case, outputs, grads, given))
    wanted = _attention(case, "merge", None)
    assert wanted.out is not None
    once_more = replace(wanted, out=wanted.out.rounded(ROUNDINGS[case.dtype]))
    _judge_attention("merge", result, _Wanted(case, once_more, grads), report)
    report.ran.append("merge")


def _of_edges(name: str, given: Any, edges: slice) -> Any:
    """The share of these edges of a term or vector; anything else as it is."""
    if isinstance(given, (ew.TableBias, ew.Projected)):
        return given.edges(edges)
    if name in ("bias", "gain"):
        return given[..., edges, :]
    return given[..., edges, :, :] if name in ("edge_key", "edge_value") else given


def _check_meta(
    case: Case, leaves: dict[str, Tensor], grads: dict[str, Tensor], report: Report
) -> None:
    """Tensors without numbers give the shapes and types, and leave nothing behind in the graph."""
    empty = {name: leaf.to("meta") for name, leaf in leaves.items()}
    places = case.places and (case.places[0].to("meta"), case.places[1].to("meta"))
    indices = {name: x.to("meta") for name, x in case.indices.items()}
    moved = replace(case, indices=indices, places=places)
    result = _run_attend(moved, "auto", empty, {name: x.to("meta") for name, x in grads.items()})
    again = _run_attend(case, "auto", leaves, grads)
    for kind in ("outputs", "gradients"):
        for name, real in getattr(again, kind).items():
            given = getattr(result, kind)[name]
            same = (given.shape, given.dtype) == (real.shape, real.dtype)
            if not same or given.device.type != "meta":
                got = f"{given.dtype} {list(given.shape)} on {given.device}"
                report.failures.append(f"meta: {name} is {got}, not {list(real.shape)}")
    report.ran.append("meta")


def _check_aggregate(case: Case, report: Report, engines: Sequence[str]) -> None:
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    rounding = ROUNDINGS[case.dtype]
    grads = {"out": _cotangents(case)["out"]}
    weight = case.leaves["weight"].exact if "weight" in case.leaves else None
    messages = _messages(case)
    refused = []
    first = None
    if case.context == "inference":
        with _Watch(report, "inference mode"), torch.inference_mode():
            first = _run_aggregate(case, "auto", leaves, {}).outputs
    for engine in [name for name in engines if name != "merge"]:
        with _Watch(report, engine):
            try:
                result = _run_aggregate(case, engine, leaves, grads)
            except ArgumentError as error:
                if error.argument == "engine" and engine in ("dense", "tiles", "rows"):
                    continue
                if not _may_be_refused(case):
                    raise
                refused.append(engine)
                continue
            report.ran.append(engine)
            inner = _inner(case, engine)
            out, back = oracle.aggregate(case.call(), weight, case.reduce, inner, messages)
            if result.outputs["out"].dtype != case.dtype:
                report.failures.append(f"{engine}: out is {result.outputs['out'].dtype}")
            _judge(report, f"{engine}: out", result.outputs["out"], out)
            expected = back(_exact(grads["out"]), rounding) if case.wanted else {}
            for name, gradient in result.gradients.items():
                _judge(report, f"{engine}: gradient of {name}", gradient, expected[name])
            if case.threads:
                _check_repeats(
                    engine, result, lambda e: _run_aggregate(case, e, leaves, grads), report
                )
            if case.context == "autocast":
                with torch.autocast("cpu", torch.bfloat16):
                    again = _run_aggregate(case, engine, leaves, {})
                _check_same(f"{engine} under autocast", result.outputs, again.outputs, report)
            if engine == "auto" and first is not None:
                _check_same("inference mode", result.outputs, first, report)
            if case.poison is not None:
                _check_poisoned_sum(case, engine, leaves, out, report)
    if refused and set(refused) & set(report.ran):
        report.failures.append(f"{refused} refuse what {report.ran} compute")


def _check_poisoned_sum(
    case: Case, engine: str, leaves: dict[str, Tensor], clean: Bounded, report: Report
) -> None:
    """NaN or an infinity reaches the targets that read it, whatever its weight, and no other."""
    assert case.poison is not None
    name, number, place = case.poison
    bad = leaves[name].clone()
    bad[place] = number
    out = _run_aggregate(case, engine, {**leaves, name: bad}, {}).outputs["out"]
    exact = case.leaves[name].exact.copy()
    exact[place] = number
    changed = replace(case, leaves={**case.leaves, name: Leaf(bad, exact)})
    target, rows = case.over.graph.target.numpy(), case.over.graph.num_targets
    reached = oracle.sum_by(target, rows, (~np.isfinite(_messages(changed))).astype(float)) > 0
    what = f"{engine} with {number} in {name}"
    _judge(report, f"{what}: out", out, clean, reached)
    if np.isnan(number) or case.reduce in ("sum", "mean"):
        wrong = np.isfinite(_exact(out)) & reached
        _check_none(f"{what}: out is finite, unlike the formula's", wrong, report)


def _messages(case: Case) -> Array:
    """weight · value of each edge as the type has it, in which ties are decided."""
    double = case.dtype == torch.float64
    value = case.leaves["value"].exact.astype(np.float64 if double else np.float32)
    value = np.broadcast_to(value, (*case.batch, *value.shape[-3:]))
    message = np.take(value, case.over.graph.source.numpy(), axis=-3)
    if "weight" in case.leaves:
        message = message * case.leaves["weight"].exact.astype(message.dtype)[..., None]
    return message.astype(np.float64)


def _run_aggregate(
    case: Case, engine: str, leaves: dict[str, Tensor], grads: dict[str, Tensor]
) -> Result:
    given = _differentiable(case, leaves)
    out = ew.aggregate(
        given["value"],
        case.over.graph,
        weight=given.get("weight"),
        reduce=case.reduce,  # type: ignore[arg-type]
        engine=engine,
    )
    return Result({"out": out}, _gradients(case, {"out": out}, grads, given))


def _check_steps(case: Case, report: Report, _engines: Sequence[str]) -> None:
    """Scores and weights of the edges, in the caller's order, by the engine that is chosen."""
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    graph = case.over.graph
    shape = (*case.batch, graph.num_edges, case.heads)
    chosen = case.chosen
    grad = _randoms(case, (*shape[:-2], len(chosen), shape[-1]) if chosen is not None else shape)
    with _Watch(report, case.operation):
        given = _differentiable(case, leaves)
        options = case.options(given)
        if case.operation == "softmax":
            result = ew.edge_softmax(given["bias"], graph)
        else:
            step = ew.edge_scores if case.operation == "scores" else ew.attention_weights
            more = {} if chosen is None else {"edges": torch.from_numpy(chosen)}
            result = step(given["query"], given["key"], case.over.given, **options, **more)
        report.ran.append(case.operation)
        wanted = _attention(case, "steps", None)
        bounded = wanted.scores if case.operation == "scores" else wanted.weights
        grad = grad.to(result.dtype)
        dropped = None
        if case.operation == "scores":
            dropped = ~wanted.live
            if not np.array_equal(_exact(result) == -np.inf, dropped):
                report.failures.append("scores: not -inf where an edge is dropped")
            grad = grad * torch.from_numpy(wanted.live)
        exact = _exact(grad)

        def gradients_in(rounding: Rounding) -> dict[str, Bounded]:
            if chosen is not None:
                weights = _scattered(Bounded.of(exact, rounding), chosen, shape)
                return wanted.gradients_by_lse(rounding, weights=weights)
            if case.operation == "scores":
                return wanted.gradients(rounding, scores=exact)
            return wanted.gradients(rounding, weights=exact)

        if chosen is not None:
            bounded = bounded.at(-2, chosen)
        _judge(report, f"{case.operation}: out", result, bounded, dropped)
        gradients = _gradients(case, {"out": result}, {"out": grad}, given)
        expected = _expected(case, gradients_in)
        for name, gradient in gradients.items():
            zero = Bounded.of(np.zeros(gradient.shape), ROUNDINGS[case.dtype])
            off = None
            if name == "bias" and case.operation == "scores":
                off = ~np.isfinite(case.leaves["bias"].exact)
            what = f"{case.operation}: gradient of {name}"
            _judge(report, what, gradient, expected.get(name, zero), off)


def _scattered(grad: Bounded, edges: NDArray[np.int64], shape: tuple[int, ...]) -> Bounded:
    """The gradient of all edges from that of some, which may name an edge several times."""
    value, size, times = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for to, x in ((value, grad.value), (size, np.abs(grad.value)), (times, 1.0)):
        np.add.at(to, (..., edges, slice(None)), x)
    # They need not be added before they are multiplied: each product then rounds on its own.
    error = np.where(times > 1, grad.rounding.unit * size, 0.0)
    return Bounded(value, error, grad.rounding)


def _judge(
    report: Report, what: str, got: Tensor, wanted: Bounded, skip: Flags | None = None
) -> None:
    """Within the bound everywhere, but for what is skipped."""
    exact = _exact(got)
    if exact.shape != wanted.value.shape:
        report.failures.append(
            f"{what} has shape {list(exact.shape)}, not {list(wanted.value.shape)}"
        )
        return
    bound = SAFETY * wanted.rounded(ROUNDINGS[got.dtype]).error
    ignored = np.zeros(exact.shape, bool) if skip is None else np.broadcast_to(skip, exact.shape)
    if got.dtype == torch.float16:
        ignored = ignored | (np.abs(wanted.value) + bound > LARGEST_HALF)
    with np.errstate(invalid="ignore"):
        away = np.abs(exact - wanted.value)
    wrong = ~ignored & ~(away <= bound)
    if wrong.any():
        worst = np.unravel_index(
            np.argmax(np.where(wrong, np.nan_to_num(away, nan=np.inf), -1)), away.shape
        )
        report.failures.append(
            f"{what} {[int(i) for i in worst]} is {exact[worst]:.9g}, "
            f"not {wanted.value[worst]:.9g} (within {bound[worst]:.2g}; "
            f"{wrong.sum()} of {wrong.size} wrong)"
        )
    right = ~ignored & ~wrong & (bound > 0)
    if right.any():
        used = float((away[right] / bound[right]).max())
        report.closest = max(report.closest, (used, what))


def _cotangents(case: Case) -> dict[str, Tensor]:
    """Random gradients of the results, some of them not contiguous."""
    graph = case.over.graph
    shape = (*case.batch, graph.num_targets, case.heads)
    width = case.leaves["value"].tensor.shape[-1]
    out = _randoms(case, (*shape, width)).to(case.dtype)
    how = ("plain", "plain", "heads first", "strided", "negative", "reversed", "one")
    kind = how[case.number % len(how)]
    out = out.new_ones(()).expand(out.shape) if kind == "one" else laid_out(out, kind)
    return {"out": out, "lse": _randoms(case, shape)}


def _randoms(case: Case, shape: tuple[int, ...]) -> Tensor:
    rng = np.random.default_rng([case.seed, case.number, 1])
    return torch.from_numpy(rng.standard_normal(shape))


def _differentiable(case: Case, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: leaf.detach().requires_grad_(name in case.wanted) for name, leaf in leaves.items()
    }


def _gradients(
    case: Case,
    outputs: dict[str, Tensor],
    grads: dict[str, Tensor],
    given: dict[str, Tensor],
) -> dict[str, Tensor]:
    """Of the leaves that are wanted; zeros where nothing depends on them."""
    wanted = [given[name] for name in case.wanted]
    used = [name for name, x in outputs.items() if x.requires_grad and name in grads]
    if not used:
        return {name: torch.zeros_like(given[name]) for name in case.wanted}
    found = torch.autograd.grad(
        [outputs[name] for name in used],
        wanted,
        [grads[name].to(outputs[name]) for name in used],
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(case.wanted, found, strict=True))


def _nodes(leaves: dict[str, Tensor]) -> Iterator[Tensor]:
    return (leaves[name] for name in ("query", "key", "value"))


def _exact(x: Tensor) -> Array:
    exact: Array = x.detach().resolve_neg().cpu().double().numpy()
    return exact


class _Watch:
    """Whatever is raised is a failure of this engine."""

    def __init__(self, report: Report, engine: str) -> None:
        self.report, self.engine = report, engine

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        text = " ".join(str(error).split())[:300] or traceback.extract_tb(trace)[-1].line
        self.report.failures.append(f"{self.engine}: {type(error).__name__}: {text}")
        return True
