"""Batches that are drawn: the same ones again, others for another process."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from edgewise.app.train import Batch
from edgewise.app.train.sampled import SampledLoader


def drawn(rank: int, world: int, epoch: int = 1, skip: int = 0) -> list[Tensor]:
    """A number for each example, drawn with it."""

    def draw(index: Tensor, random: Generator) -> Batch:
        return Batch((torch.rand(len(index), generator=random),), index)

    loader = SampledLoader(draw, 12, 3, seed=5)
    loader.share(rank, world)
    loader.set_epoch(epoch)
    loader.load_state_dict({"served": skip})
    return [batch.inputs[0] for batch in loader]


def test_the_same_again_and_others_in_another_epoch():
    torch.testing.assert_close(drawn(0, 1), drawn(0, 1))
    torch.testing.assert_close(drawn(0, 1, skip=2), drawn(0, 1)[2:])
    assert not torch.equal(torch.cat(drawn(0, 1)), torch.cat(drawn(0, 1, epoch=2)))


def test_processes_draw_for_themselves():
    first, second = drawn(0, 2), drawn(1, 2)
    assert not set(torch.cat(first).tolist()) & set(torch.cat(second).tolist())
    torch.testing.assert_close(first, drawn(0, 1)[:2])  # the first draws as it does alone
