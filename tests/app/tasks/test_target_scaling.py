"""Target scaling: outputs in the targets' unit, saved with the weights."""

from __future__ import annotations

import torch
from torch import nn

from edgewise.app.train import TargetScaling


def test_outputs_have_the_unit_of_the_targets_and_it_is_saved() -> None:
    model = TargetScaling(nn.Linear(2, 1), mean=10.0, std=3.0)
    x = torch.randn(4, 2)
    torch.testing.assert_close(model(x), 10 + 3 * model.model(x).double())
    other = TargetScaling(nn.Linear(2, 1), mean=0.0, std=1.0)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))
    fraction = TargetScaling(model.model, mean=10.0, std=3.0, fraction=True)
    torch.testing.assert_close(fraction(x).logit(), model(x), rtol=1e-3, atol=1e-3)
