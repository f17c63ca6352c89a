"""Recommendation on scores that can be ranked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise.app.kinds.items import Recommendation
from tests.errors import refused

# Known items do not count: 9 and 8 are not recommended. Ranks of the wanted: 1 and 3; and none.
SCORES = torch.tensor([[9.0, 5.0, 4.0, 3.0, 2.0], [1.0, 8.0, 4.0, 3.0, 2.0]])
TARGET = torch.tensor([[-1, 1, 0, 1, 0], [1, -1, 0, 0, 0]], dtype=torch.int8)


def measured(*batches, k=3):
    pytest.importorskip("torchmetrics")
    metrics = Recommendation(k=k).metrics()
    for metric in metrics.values():
        for outputs, target in batches:
            metric.update(outputs, target)
    return {name: float(metric.compute()) for name, metric in metrics.items()}


def test_recall_and_ndcg():
    found = measured((SCORES, TARGET))
    assert found["recall@3"] == pytest.approx((2 / 2 + 0 / 1) / 2)
    assert found["ndcg@3"] == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)) / 2)
    assert measured((SCORES, TARGET), k=1)["recall@1"] == pytest.approx(0.5 / 2)
    assert measured((SCORES, TARGET), k=1)["ndcg@1"] == pytest.approx(1 / 2), "one place, filled"
    assert measured((SCORES, TARGET), k=20)["recall@20"] == 1, "fewer items than places"


def test_users_without_a_wanted_item_do_not_count():
    nothing = torch.zeros(1, 5, dtype=torch.int8)
    assert measured((SCORES, TARGET), (SCORES[:1], nothing)) == measured((SCORES, TARGET))
    places, none = torch.tensor([[1, -1], [3, 1]]), torch.full((1, 2), -1)
    assert measured((SCORES, places), (SCORES[:1], none)) == measured((SCORES, places))


def test_batches_add_up():
    parts = [(SCORES[:1], TARGET[:1]), (SCORES[1:], TARGET[1:])]
    assert measured(*parts) == pytest.approx(measured((SCORES, TARGET)))


def test_the_first_of_the_places():
    outputs = torch.tensor([[2.0, 3.0, 1.0], [5.0, 1.0, 1.0]])
    first = torch.tensor([[0], [0]])
    found = measured((outputs, first), k=2)
    assert found["recall@2"] == 1
    assert found["ndcg@2"] == pytest.approx((1 / math.log2(3) + 1) / 2)
    assert measured((outputs, first), k=1)["recall@1"] == 0.5
    assert measured((outputs, torch.tensor([[0, 1], [0, 1]])), k=1)["recall@1"] == 1, (
        "the user's other item is no rival"
    )
    filled = torch.tensor([[1, -1], [1, -1]])
    assert measured((outputs, filled), k=1)["recall@1"] == 0.5


def test_loss_in_training_is_of_each_own_item_among_those_that_are_not():
    one, three, six = (0.1 * math.log(x) for x in (1, 3, 6))
    outputs = torch.tensor([[three, six, one, one], [six, -math.inf, three, one]])
    outputs.requires_grad_()
    loss = Recommendation(temperature=0.1).loss(outputs, torch.tensor([[0, 1], [0, -1]]))
    shares = (3 / (3 + 2), 6 / (6 + 2), 6 / (6 + 4))
    assert loss.item() == pytest.approx(-sum(map(math.log, shares)) / 3, abs=1e-6)
    loss.backward()
    assert outputs.grad.isfinite().all()
    assert outputs.grad[1, 1] == 0


def test_loss_of_places_anywhere_by_the_formula():
    """What fills a row up is no place, and a user without an item does not count."""
    for places in ([[2, -1], [1, 3], [-1, -1]], [[2], [1], [-1]]):
        outputs = torch.randn(3, 5, dtype=torch.double, requires_grad=True)
        target, scaled = torch.tensor(places), outputs / 0.5
        each = []
        for row, own in zip(scaled, [[p for p in row if p >= 0] for row in places], strict=True):
            others = [column for column in range(5) if column not in own]
            each += [row[[place, *others]].logsumexp(0) - row[place] for place in own]
        expected = torch.stack(each).mean()
        loss = Recommendation(temperature=0.5).loss(outputs, target)
        found, wanted = (torch.autograd.grad(one, outputs)[0] for one in (loss, expected))
        # Some ten roundings of numbers below 16, whose last bit is 2e-15.
        torch.testing.assert_close(loss, expected, rtol=0, atol=2e-14)
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-14)


def test_losses_of_batches_add_up_by_their_counts():
    task = Recommendation(temperature=1.0)
    for target in (TARGET, torch.tensor([[1, 3, 4], [2, -1, -1]])):
        whole, first, second = (
            (task.loss(SCORES[part], target[part]), task.count(SCORES[part], target[part]))
            for part in (slice(None), slice(1), slice(1, 2))
        )
        mean = (first[0] * first[1] + second[0] * second[1]) / (first[1] + second[1])
        torch.testing.assert_close(mean, whole[0])
        assert first[1] + second[1] == whole[1]


def test_loss_over_all_items_leaves_out_ignored_and_other_positive_items():
    loss = Recommendation(temperature=1.0).loss(SCORES, TARGET)
    rows = ((5, 4, 2), (3, 4, 2), (1, 4, 3, 2))  # the positive item first
    expected = sum(math.log(sum(map(math.exp, row))) - row[0] for row in rows) / 3
    assert float(loss) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("field", "value"), [("temperature", 0.0), ("k", 0)])
def test_bad_field(field, value):
    with refused(f"task.{field}", expected="above 0", got=str(value), remedy="choose"):
        Recommendation(**{field: value})
