"""NT-Xent by hand, and the accuracy of the nearest view."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise import models
from edgewise.app.kinds.language import Contrastive
from edgewise.layers import Tokens
from tests.errors import refused

PARTNER = torch.tensor([2, 3, 0, 1])


def test_loss_by_hand():
    # Cosines: 1 with the partner, 0 with the two others; lengths do not count.
    views = torch.tensor([[1.0, 0.0], [0.0, 5.0], [2.0, 0.0], [0.0, 0.5]])
    for temperature in (0.2, 1.0):
        own = math.exp(1 / temperature)
        loss = Contrastive(temperature=temperature).loss(views, PARTNER)
        assert float(loss) == pytest.approx(-math.log(own / (own + 2)), abs=1e-6)


def test_accuracy_is_of_the_nearest_other_view():
    pytest.importorskip("torchmetrics")
    metric = Contrastive().metrics()["accuracy"]
    views = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.9, 0.2]])
    metric.update(views, PARTNER)  # right for views 1 and 3
    assert float(metric.compute()) == pytest.approx(0.5)


def test_the_model_pools_the_states_of_each_text():
    trunk = models.bert(10, width=8, depth=0, heads=2, ffn_dim=8, types=0, positions="none")
    model = Contrastive().complete(trunk, {"longest_text": 4}).eval()
    tokens = Tokens(torch.tensor([1, 2, 2, 1, 3]), torch.tensor([2, 2, 1]))
    found = model(tokens)
    assert found.shape == (3, 8)
    torch.testing.assert_close(found[0], found[1])  # without layers and positions, a bag
    assert all(name.startswith("trunk.") for name in model.state_dict())


def test_a_temperature_of_zero_is_refused():
    with refused("task.temperature", expected="above 0", got="0", remedy="0.2"):
        Contrastive(temperature=0.0)
