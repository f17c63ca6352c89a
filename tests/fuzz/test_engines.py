"""The fuzz of the engines, briefly; ``make fuzz`` goes on for as long as one likes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.fuzz import oracle
from tests.fuzz.arithmetic import EXACT, Bounded
from tests.fuzz.checks import ROUNDINGS
from tests.fuzz.engines import run_cases

SEED = 2026
CHUNK = 50


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


def test_the_gradients_of_the_oracle_are_differences_of_its_output() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 4, (2, 12))
    given = {
        "query": rng.standard_normal((4, 2, 3)),
        "key": rng.standard_normal((4, 2, 3)),
        "value": rng.standard_normal((4, 2, 5)),
        "bias": rng.standard_normal((12, 1)),
        "gain": rng.standard_normal((12, 2)),
        "edge_key": rng.standard_normal((12, 2, 3)),
        "edge_value": rng.standard_normal((12, 2, 5)),
    }
    grad = rng.standard_normal((4, 2, 5))
    for name in ("dot", "own", "tanh", "gelu", "silu", "leaky_relu"):
        weight = None if name in ("dot", "own") else rng.standard_normal((2, 3))

        def total(tensors: dict[str, np.ndarray]) -> tuple[float, oracle.Attention]:
            score = oracle.Score(name, 0.5, weight=weight)  # noqa: B023
            call = oracle.Call(source, target, 4, 4, 2, (), score, **tensors)  # type: ignore[arg-type]
            made = oracle.attend(call, EXACT)
            assert made.out is not None
            lse = np.where(made.read, made.lse.value, 0).sum()
            return float((grad * made.out.value).sum() + lse), made

        _, made = total(given)
        found = made.gradients(EXACT, out=grad, lse=made.read.astype(float))
        for leaf, x in given.items():
            step = 1e-6 * rng.standard_normal(x.shape)
            high, low = (total({**given, leaf: x + sign * step})[0] for sign in (1, -1))
            np.testing.assert_allclose(
                (high - low) / 2, (found[leaf].value * step).sum(), rtol=1e-5
            )
