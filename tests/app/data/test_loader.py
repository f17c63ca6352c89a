"""The order of batches depends on seed and epoch alone, and can be taken up in the middle."""

from __future__ import annotations

import pytest
import torch

from edgewise.app.train import Batch, Loader


def loader(seed=0, count=10, size=3):
    return Loader(lambda index: Batch((index,), index), count, size, seed)


def epoch(loader, number):
    loader.set_epoch(number)
    return [batch.target.tolist() for batch in loader]


def test_every_example_once_in_batches():
    batches = epoch(loader(), 0)
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    assert len(loader()) == 4


def test_order_is_of_seed_and_epoch_and_of_nothing_else():
    first = epoch(loader(seed=1), 5)
    torch.rand(100)
    assert epoch(loader(seed=1), 5) == first
    assert epoch(loader(seed=1), 6) != first
    assert epoch(loader(seed=2), 5) != first
    before = torch.get_rng_state()
    epoch(loader(seed=1), 5)
    assert torch.equal(torch.get_rng_state(), before), "it draws from a generator of its own"


def test_without_a_seed_the_order_stays():
    assert epoch(loader(seed=None), 3) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_continues_in_the_middle_of_an_epoch():
    whole = epoch(loader(), 2)
    broken = loader()
    broken.set_epoch(2)
    iterator = iter(broken)
    next(iterator), next(iterator)
    resumed = loader()
    resumed.load_state_dict(broken.state_dict())
    assert epoch(resumed, 2) == whole[2:]
    assert epoch(resumed, 3) == epoch(loader(), 3), "the next epoch is whole again"


def test_an_epoch_that_is_left_early_does_not_shorten_the_next():
    left = loader()
    next(iter(left))
    assert len(epoch(left, 0)) == 4


def test_a_finished_epoch_leaves_nothing_over():
    finished = loader()
    epoch(finished, 0)
    assert finished.state_dict() == {"served": 0}


def test_counted_rows():
    outputs = torch.arange(8.0).reshape(4, 2)
    target = torch.tensor([1, 0])
    assert torch.equal(Batch((), target).select_outputs(outputs), outputs)
    chosen = Batch((), target, torch.tensor([3, 1])).select_outputs(outputs)
    assert chosen.tolist() == [[6, 7], [2, 3]]


@pytest.mark.parametrize("seed", [4, None])
def test_processes_share_each_batch_of_all(seed):
    parts = [loader(seed=seed, count=10, size=3) for _ in range(2)]
    for rank, part in enumerate(parts):
        part.share(rank, 2)
    whole = epoch(loader(seed=seed, count=10, size=6), 1)
    shares = [epoch(part, 1) for part in parts]
    assert [len(part) for part in parts] == [2, 2]
    assert [a + b for a, b in zip(*shares, strict=True)] == [
        batch[::2] + batch[1::2] for batch in whole
    ]


def test_a_process_without_an_example_takes_part_and_counts_nothing():
    part = loader(seed=None, count=7, size=3)
    part.share(1, 2)
    *_, last = part
    assert last.inputs[0].tolist() == [6]
    assert len(last.target) == 0
    assert last.select_outputs(torch.ones(1, 2)).shape == (0, 2)


def test_an_epoch_may_draw_a_part_of_many_examples():
    loader = Loader(lambda i: Batch((i,), i), count=100, size=3, seed=0, draw=10)
    seen = torch.cat([batch.target for batch in loader])
    assert len(loader) == 4
    assert len(seen) == len(set(seen.tolist())) == 10
    loader.set_epoch(1)
    assert seen.tolist() != torch.cat([batch.target for batch in loader]).tolist()
    whole = Loader(lambda i: Batch((i,), i), count=5, size=3, draw=2)
    assert sum(len(batch.target) for batch in whole) == 5, "validation leaves nothing out"


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_of_like_length_hold_every_example_once(seed):
    lengths = torch.randint(1, 50, (1000,), generator=torch.Generator().manual_seed(0))
    loader = Loader(lambda i: Batch((i,), i), count=1000, size=8, seed=seed, lengths=lengths)
    batches = [batch.target for batch in loader]
    assert sorted(torch.cat(batches).tolist()) == list(range(1000))
    spread = [int(lengths[index].max() - lengths[index].min()) for index in batches]
    assert sum(spread) / len(spread) < 5
    means = torch.stack([lengths[index].float().mean() for index in batches])
    if seed is not None:
        assert not bool((means.diff() >= -1).all()), "short and long batches take turns"
        again = [batch.target for batch in loader]
        assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))
