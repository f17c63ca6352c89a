"""What a cache keeps: nodes after nodes, whatever the modes in which they come."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise.layers import Cache
from tests.errors import refused

LAYER = nn.Identity()


def nodes(length: int) -> Tensor:
    return torch.randn(2, length, 3, 4)


def extended(cache: Cache, parts: list[Tensor]) -> Tensor:
    """The keys after the last part; values are their negatives."""
    for part in parts:
        key, value = cache.extended(LAYER, (part, -part))
        assert torch.equal(value, -key)
    return key


def test_what_was_given_before_stays_as_it_was() -> None:
    cache, parts = Cache(), [nodes(n) for n in (5, 1, 1, 9, 1, 1, 30)]
    given = []
    with torch.no_grad():
        for i in range(len(parts)):
            given.append(extended(cache, parts[i : i + 1]))
    for i, key in enumerate(given):
        assert torch.equal(key, torch.cat(parts[: i + 1], dim=1))


def test_most_steps_write_into_the_room_that_is_there() -> None:
    cache, keys = Cache(), []
    with torch.no_grad():
        for _ in range(100):
            keys.append(extended(cache, [nodes(1)]))
    assert len({key.untyped_storage().data_ptr() for key in keys}) < 10


def test_chosen_members_go_on_apart() -> None:
    cache, parts = Cache(), [nodes(3), nodes(1)]
    before = extended(cache, parts)
    cache.select(torch.tensor([1, 1]))
    new = nodes(1)
    after = extended(cache, [new])
    assert torch.equal(after, torch.cat([before[[1, 1]], new], dim=1))
    assert torch.equal(before, torch.cat(parts, dim=1))


def test_gradients_reach_every_step() -> None:
    parts = [nodes(n).requires_grad_() for n in (2, 1, 1, 1)]
    cache, total = Cache(), torch.zeros(())
    for part in parts:
        total = total + extended(cache, [part]).square().sum()
    total.backward()
    for steps, part in zip((4, 3, 2, 1), parts, strict=True):
        assert part.grad is not None
        torch.testing.assert_close(part.grad, 2 * steps * part.detach())


def test_what_inference_mode_has_kept_is_read_outside_of_it() -> None:
    cache, parts = Cache(), [nodes(2), nodes(1), nodes(1)]
    with torch.inference_mode():
        extended(cache, parts[:2])
    assert torch.equal(extended(cache, parts[2:]), torch.cat(parts, dim=1))


def test_gradients_of_queries_outlive_later_steps() -> None:
    query, parts = torch.randn(4, requires_grad=True), [nodes(n) for n in (2, 1, 1)]
    cache, total = Cache(), torch.zeros(())
    for part in parts:
        total = total + (extended(cache, [part]) * query).sum()
    total.backward()
    assert query.grad is not None
    expected = sum(n * part.sum((0, 1, 2)) for n, part in zip((3, 2, 1), parts, strict=True))
    torch.testing.assert_close(query.grad, expected)


@torch.no_grad()
def test_what_does_not_fit_is_refused_and_nothing_is_written() -> None:
    cache, parts = Cache(), [nodes(3), nodes(1), nodes(1)]
    extended(cache, parts[:2])
    with refused("cache", expected=f"{[len(parts[0])]}", got="[1]", remedy="new Cache()"):
        extended(cache, [nodes(1)[:1]])
    for wrong in (nodes(1)[:, :, :1], nodes(1)[..., :1]):
        with pytest.raises(RuntimeError, match="must match"):
            extended(cache, [wrong])
    assert torch.equal(extended(cache, parts[2:]), torch.cat(parts, dim=1))


@torch.no_grad()
def test_types_are_joined_as_elsewhere() -> None:
    cache, parts = Cache(), [nodes(2).bfloat16(), nodes(1).bfloat16(), nodes(1)]
    assert torch.equal(extended(cache, parts), torch.cat(parts, dim=1))


def test_what_is_restored_is_where_the_model_is() -> None:
    layer = torch.nn.Linear(2, 2)
    model, cache = torch.nn.Sequential(layer), Cache()
    cache.keep_state(layer, (torch.ones(3, 2),))
    state = cache.state_dict(model)
    restored = Cache()
    restored.load_state_dict(model.to("meta"), state)
    kept = restored.state(layer)
    assert kept is not None
    assert kept[0].is_meta
