"""Batches of so many tokens, in an order of (seed, epoch) alone."""

from __future__ import annotations

import itertools

import pytest
import torch

from edgewise.app.kinds.translation.buckets import BucketLoader
from edgewise.app.train import Batch

LENGTHS = torch.randint(1, 12, (60, 2), generator=torch.Generator().manual_seed(3))
MOST = 50


def loader(seed=0):
    return BucketLoader(lambda index: Batch((index,), index), LENGTHS, MOST, seed)


def epoch(loader, number):
    loader.set_epoch(number)
    return [batch.target.tolist() for batch in loader]


def tokens(batch):
    return int(LENGTHS[batch].sum())


@pytest.mark.parametrize("seed", [0, None])
def test_every_example_once_in_full_batches_of_one_length(seed):
    batches = epoch(loader(seed), 0)
    assert sorted(i for batch in batches for i in batch) == list(range(60))
    assert len(loader(seed)) == len(batches)
    assert max(map(tokens, batches)) <= MOST
    spans = sorted((int(x.max()), int(x.min())) for x in (LENGTHS[b].amax(1) for b in batches))
    assert all(shorter[0] <= longer[1] for shorter, longer in itertools.pairwise(spans))
    assert sum(tokens(batch) for batch in batches) / (MOST * len(batches)) > 0.8


def test_order_is_of_seed_and_epoch_and_their_number_of_neither():
    first = epoch(loader(1), 5)
    torch.rand(100)
    assert epoch(loader(1), 5) == first
    for other in (epoch(loader(1), 6), epoch(loader(2), 5)):
        assert other != first
        assert len(other) == len(first)


def test_continues_in_the_middle_of_an_epoch():
    whole, broken = epoch(loader(), 2), loader()
    broken.set_epoch(2)
    iterator = iter(broken)
    next(iterator), next(iterator)
    resumed = loader()
    resumed.load_state_dict(broken.state_dict())
    assert epoch(resumed, 2) == whole[2:]


def test_one_example_too_long_is_a_batch():
    alone = BucketLoader(lambda index: Batch((index,), index), torch.tensor([3, 99, 4]), 10, None)
    assert epoch(alone, 0) == [[1], [2, 0]]


@pytest.mark.parametrize("seed", [0, None])
def test_two_processes_share_batches_twice_as_large(seed):
    parts = [loader(seed), loader(seed)]
    for rank, part in enumerate(parts):
        part.share(rank, 2)
    together = [sorted(a + b) for a, b in zip(*(epoch(part, 1) for part in parts), strict=True)]
    whole = BucketLoader(lambda index: Batch((index,), index), LENGTHS, 2 * MOST, seed)
    assert together == [sorted(batch) for batch in epoch(whole, 1)]


def test_batches_are_cut_anew_for_other_shares():
    part, whole = loader(None), BucketLoader(lambda i: Batch((i,), i), LENGTHS, 2 * MOST, None)
    assert len(part) > len(whole)
    part.share(0, 2)
    assert len(part) == len(whole)
