"""Every model has the loss and the gradients on a GPU that it has on the CPU, on real data."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from edgewise import models
from tests.models.test_learns import Problem, case_of, problem_of
from tests.places import needs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TOLERANCE = 1e-2
"""Largest allowed difference, relative to the largest gradient of the model.

Rounding to float32 changes gradients by some 1e-6. But a hidden unit whose value is that close to 0
may be switched on by ReLU on one device only, which changed a gradient by 2e-3 on an H200.
"""


def cases() -> list[object]:
    folders = {name: case_of(name).folder for name in models.MODELS}
    marks = {name: [needs(folder)] if folder else [] for name, folder in folders.items()}
    return [pytest.param(name, marks=marks[name]) for name in models.MODELS]


def loss_and_gradients(problem: Problem, device: str) -> dict[str, torch.Tensor]:
    """Return the loss of the first batch and the gradients, on the CPU, by name."""
    model = problem.model.to(device)
    model.zero_grad()
    loss = problem.run(problem.val[0].to(torch.device(device)))
    loss.backward()
    found = {"loss": loss.detach()}
    found |= {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    # Copies, because moving a model also moves its gradients.
    return {name: x.to("cpu", copy=True) for name, x in found.items()}


@pytest.mark.parametrize("name", cases())
def test_agrees_with_the_cpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    problem = problem_of(name, tmp_path)
    problem.model.eval()  # Without dropout.
    # cuDNN has no backward pass of recurrent networks in this mode.
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    expected, got = (loss_and_gradients(problem, device) for device in ("cpu", "cuda"))
    assert got.keys() == expected.keys()
    largest = max(float(x.abs().max()) for x in islice(expected.values(), 1, None))
    errors = {n: float((got[n] - x).abs().max()) / largest for n, x in expected.items()}
    errors["loss"] *= largest / float(expected["loss"].abs())
    worst = max(errors, key=lambda n: errors[n])
    assert errors[worst] <= TOLERANCE, f"{worst}: {errors[worst]:.2g}"
