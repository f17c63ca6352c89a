"""Texts that are drawn: what stands where, what is asked, and which are new in every epoch."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data

from tests.errors import refused


def test_the_second_half_says_the_first_again() -> None:
    splits = data.duplication(length=12, symbols=4, count=8, tested=8, batch_size=8).load()
    assert splits.model_arguments == {"vocab_size": 5, "longest": 12}
    for loader in splits.loaders(0).values():
        (batch,) = loader
        tokens, places = batch.inputs
        assert tokens.ids.shape == (8, 12)
        assert not tokens.ids[:, [0, 6]].any()
        assert torch.equal(tokens.ids[:, :6], tokens.ids[:, 6:])
        assert tokens.ids[:, 1:6].min() > 0
        following = tokens.ids.flatten()[places + 1]  # each is told by the tokens before it
        assert torch.equal(following, batch.target)
        assert len(places) == 8 * 5


def test_a_key_is_there_once_and_far_from_the_question() -> None:
    recall = data.recall(length=20, distance=15, keys=3, symbols=2, count=64, batch_size=64)
    splits = recall.load()
    assert splits.model_arguments == {"vocab_size": 6, "longest": 20}
    (batch,) = splits.loaders(0)["train"]
    tokens, places = batch.inputs
    assert (tokens.ids[:, -1] == 3).all()
    assert torch.equal(places, torch.arange(64) * 20 + 19)
    row, place = (tokens.ids < 3).nonzero(as_tuple=True)
    assert torch.equal(row, torch.arange(64)), "one key in each text"
    assert place.max() <= 19 - 15
    assert len(set(place.tolist())) > 1
    assert torch.equal(tokens.ids[row, place], batch.target)
    assert len(set(batch.target.tolist())) == 3


@pytest.mark.parametrize("make", [data.duplication, data.recall])
def test_training_texts_are_new_in_every_epoch_and_test_texts_are_not(make: type) -> None:
    loaders = make(count=8, tested=8, batch_size=8).load().loaders(0)
    drawn = {}
    for name in ("train", "val", "test"):
        epochs = []
        for epoch in (0, 1, 0):
            loaders[name].set_epoch(epoch)
            epochs.append(next(iter(loaders[name])).inputs[0].ids)
        drawn[name] = epochs
    assert torch.equal(drawn["train"][0], drawn["train"][2])
    assert not torch.equal(drawn["train"][0], drawn["train"][1])
    assert torch.equal(drawn["test"][0], drawn["test"][1])
    assert not torch.equal(drawn["test"][0], drawn["val"][0])


def test_lengths_and_distances_that_cannot_be() -> None:
    with refused("data.length", expected="even", got="9", remedy="128"):
        data.duplication(length=9)
    with refused("data.distance", expected="from 1 to 511", got="512", remedy="shorter"):
        data.recall(distance=512)
    with refused("data.keys", expected="at least 1", got="0", remedy="larger"):
        data.recall(keys=0)
    with refused("data.symbols", expected="at least 1", got="0", remedy="larger"):
        data.duplication(symbols=0)
