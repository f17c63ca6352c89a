"""The fuzz of the engines, briefly; ``make fuzz`` goes on for as long as one likes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.engines import oracle
from tests.engines.arithmetic import EXACT, Bounded
from tests.engines.checks import ROUNDINGS
from tests.fuzz.engines import run_cases

SEED = 2026
CHUNK = 50


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("first", range(0, 500, CHUNK))
def test_random_graphs(first: int) -> None:
    summary = run_cases(SEED, range(first, first + CHUNK))
    assert summary.cases == CHUNK
    assert not summary.failures, "\n".join(summary.failures)


def test_the_bound_holds_and_is_not_loose() -> None:
    """Sums and products in float32, judged against float64: within the bound, and near it."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((1000, 8)).astype(np.float32) for _ in range(2))
    rounding = ROUNDINGS[torch.float32]
    dot = (Bounded.of(x, rounding) * Bounded.of(y, rounding)).sum(-1).exp()
    away = np.abs(np.exp((x * y).sum(-1)) - dot.value)
    assert (away <= dot.error).all()
    assert (away / dot.error).max() > 0.1


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("score", ["dot", "own", "tanh", "gelu", "silu", "leaky_relu"])
@pytest.mark.parametrize("indirect", [False, True])
def test_the_gradients_of_the_oracle_are_differences_of_its_output(
    score: str, indirect: bool
) -> None:
    """Of every argument, from every result; terms in full, or as tables and projections."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 4, (2, 12))
    classes = rng.integers(0, 3, 12)
    leaves = {name: rng.standard_normal((4, 2, 3)) for name in ("query", "key", "value")}
    if score not in ("dot", "own"):
        leaves["score.weight"] = rng.standard_normal((2, 3))
    for name in ("bias", "gain"):
        leaves |= {f"{name}.table" if indirect else name: rng.standard_normal((12, 1))}
    for name in ("edge_key", "edge_value"):
        if indirect:
            leaves[f"{name}.features"] = rng.standard_normal((12, 4))
            leaves[f"{name}.weight"] = rng.standard_normal((2, 3, 4))
        else:
            leaves[name] = rng.standard_normal((12, 2, 3))
    results = ("out", "lse", "weights", "scores")
    shapes = ((4, 2, 3), (4, 2), (12, 2), (12, 2))
    grads = {k: rng.standard_normal(shape) for k, shape in zip(results, shapes, strict=True)}

    def run(given: dict[str, np.ndarray]) -> tuple[dict[str, float], oracle.Attention]:
        arguments: dict[str, Any] = {k: x for k, x in given.items() if "." not in k}
        if indirect:
            for name in ("bias", "gain"):
                arguments[name] = oracle.Table(classes, given[f"{name}.table"])
            for name in ("edge_key", "edge_value"):
                pair = given[f"{name}.features"], given[f"{name}.weight"]
                arguments[name] = oracle.Projection(*pair)
        kind = oracle.Score(score, 0.5, weight=given.get("score.weight"))
        made = oracle.attend(oracle.Call(source, target, 4, 4, 2, (), kind, **arguments), EXACT)
        found = {"out": made.out.value, "lse": np.where(made.read, made.lse.value, 0)}
        found |= {"weights": made.weights.value, "scores": made.scores.value}
        return {name: float((grads[name] * x).sum()) for name, x in found.items()}, made

    _, made = run(leaves)
    grads["lse"] = grads["lse"] * made.read
    for result in results:
        found = made.gradients(EXACT, **{result: grads[result]})
        for leaf, x in leaves.items():
            step = 1e-6 * rng.standard_normal(x.shape)
            high, low = (run({**leaves, leaf: x + sign * step})[0][result] for sign in (1, -1))
            gradient = found[leaf].value if leaf in found else np.zeros(x.shape)
            given = (gradient * step).sum()
            np.testing.assert_allclose((high - low) / 2, given, rtol=1e-4, atol=1e-13)


def test_the_gradient_of_alpha_in_the_oracle_is_a_difference_of_its_output() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 4, (2, 12))
    nodes = {name: rng.standard_normal((4, 3, 3)) for name in ("query", "key", "value")}
    grad = rng.standard_normal((4, 3, 3))

    def run(alpha: np.ndarray) -> oracle.Attention:
        score = oracle.Score("dot", 0.5)
        return oracle.attend(
            oracle.Call(source, target, 4, 4, 3, (), score, alpha=alpha, **nodes), EXACT
        )

    alpha = np.array([1.2, 1.5, 1.9])
    found = run(alpha).gradients(EXACT, out=grad)["alpha"].value
    for head in range(3):
        step = 1e-6 * (np.arange(3) == head)
        high, low = (run(alpha + sign * step).out.value for sign in (1, -1))
        np.testing.assert_allclose((grad * (high - low)).sum() / 2e-6, found[head], rtol=1e-5)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_the_gradients_of_an_aggregation_are_differences_of_its_output(reduce: str) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 4, (2, 12))
    leaves = {"value": rng.standard_normal((4, 2, 3)), "weight": rng.standard_normal((12, 1))}
    grad = rng.standard_normal((4, 2, 3))

    def run(value: np.ndarray, weight: np.ndarray) -> tuple[float, Any]:
        call = oracle.Call(source, target, 4, 4, 2, (), oracle.Score("none"), value=value)
        messages = value[source] * weight[..., None]
        out, gradients = oracle.aggregate(call, weight, reduce, EXACT, messages)
        return float((grad * out.value).sum()), gradients

    found = run(**leaves)[1](grad, EXACT)
    for leaf, x in leaves.items():
        step = 1e-6 * rng.standard_normal(x.shape)
        high, low = (run(**{**leaves, leaf: x + sign * step})[0] for sign in (1, -1))
        np.testing.assert_allclose((high - low) / 2, (found[leaf].value * step).sum(), rtol=1e-4)
