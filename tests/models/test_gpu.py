"""Every model has the loss and the gradients on a GPU that it has on the CPU, on real data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgewise import models
from tests.models.test_learns import Problem, case_of, problem_of
from tests.places import needs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TOLERANCE = 3e-2
"""Largest allowed difference, relative to the largest gradient of the parameter.

Rounding to float32 changes gradients by about 1e-6 of the largest gradient of the model. However,
a value near 0 can be positive on one device and negative on the other, and ReLU then lets its
gradient pass on one device only. This explains a difference of 2e-3 in ``dynamic_conv`` on an H200.
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
    largest = max(float(x.abs().max()) for n, x in expected.items() if n != "loss")
    errors = {}
    for n, x in expected.items():
        # Gradients of a parameter can be 0 but for rounding, so there is a least scale.
        scale = float(x.abs()) if n == "loss" else max(float(x.abs().max()), 0.1 * largest)
        errors[n] = float((got[n] - x).abs().max()) / scale
    wrong = {n: error for n, error in errors.items() if not error <= TOLERANCE}
    assert not wrong, wrong
