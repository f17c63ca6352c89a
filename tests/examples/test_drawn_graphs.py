"""NeighborsMatch and DictionaryLookup: what is asked has its answer there, and once."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data

from edgewise._utils.errors import ArgumentError


def test_the_answer_is_the_value_of_the_leaf_with_the_roots_key() -> None:
    found = data.neighbors_match(depth=3, tested=20)
    splits = found.load()
    assert splits.model_arguments == {"in_width": 16, "out_width": 8}
    batch = splits.test.make(torch.arange(20))
    (x, graph), nodes = batch.inputs, 15
    assert x.shape == (20 * nodes, 16)
    for tree, answer in enumerate(batch.target.tolist()):
        key, value = x[tree * nodes : (tree + 1) * nodes].view(nodes, 2, 8).unbind(1)
        assert not key[1:7].any()
        assert not value[:7].any()
        assert sorted(value[7:].argmax(1).tolist()) == list(range(8))
        (leaf,) = (key[7:] == key[0]).all(1).nonzero()[:, 0].tolist()
        assert value[7 + leaf].argmax() == answer
    reads = graph.in_degree().view(20, nodes)
    assert (reads[:, :7] == 2).all()
    assert not reads[:, 7:].any()
    # Three steps up from every leaf is the root of its own tree.
    at = graph.dense().double().matrix_power(3)
    assert torch.equal(at.nonzero()[:, 0].unique(), torch.arange(0, 300, nodes))
    assert (at.view(20, nodes, -1)[:, 0].sum(1) == 8).all()


def test_shallow_trees_have_some_of_the_values_of_deep_ones() -> None:
    found = data.neighbors_match(depth=2, symbols=8, tested=200)
    splits = found.load()
    assert splits.model_arguments == data.neighbors_match(depth=3).load().model_arguments
    batch = splits.test.make(torch.arange(200))
    key, value = batch.inputs[0].view(200, 7, 2, 8).unbind(2)
    held = value[:, 3:].argmax(-1)
    assert torch.equal(held.flatten().unique(), torch.arange(8))
    assert all(len(set(row)) == 4 for row in held.tolist())
    asked = key[:, 0].argmax(-1)
    assert torch.equal(asked.unique(), torch.arange(4))
    assert torch.equal(batch.target, held.gather(1, asked[:, None])[:, 0])
    values, leaf = found.asked([7, 0, 5, 2, 3])
    assert found.as_batch(values[None], leaf[None]).target.tolist() == [2]


@pytest.mark.parametrize("given", [[7, 0, 5, 5, 0], [8, 0, 5, 2, 0], [7, 0, 5, 0], [7, 0, 5, 2, 4]])
def test_values_that_no_shallow_tree_has_are_refused(given: list[int]) -> None:
    with pytest.raises(ArgumentError, match="4 leaves, numbers from 0 to 7"):
        data.neighbors_match(depth=2, symbols=8).asked(given)


def test_fewer_symbols_than_leaves_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"data\.symbols.*at least 8"):
        data.neighbors_match(depth=3, symbols=7)


def test_trees_of_training_are_new_in_every_epoch_and_all_splits_differ() -> None:
    splits = data.neighbors_match(depth=2, count=100, tested=100, batch_size=100).load()
    loader = splits.train.loader(100, seed=0)
    drawn = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        drawn.append(next(iter(loader)).inputs[0])
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
    val, test = (part.make(torch.arange(100)).inputs[0] for part in (splits.val, splits.test))
    assert not torch.equal(val, test)


def test_every_question_of_a_dictionary_has_its_answer_among_what_it_reads() -> None:
    splits = data.dictionary_lookup(size=4, tested=6).load()
    assert splits.model_arguments == {"in_width": 9, "out_width": 4}
    batch = splits.test.make(torch.arange(6))
    (x, graph), asked = batch.inputs, batch.select
    assert asked is not None
    assert len(asked) == len(batch.target) == 24
    reads = graph.dense()
    for question, answer in zip(asked.tolist(), batch.target.tolist(), strict=True):
        sources = reads[question].nonzero()[:, 0]
        assert len(sources) == 4
        same = sources[(x[sources, :4] == x[question, :4]).all(1)]
        assert x[same, 4:].argmax(1).tolist() == [answer]
        assert x[question, 4:].argmax() == 4
    answers = torch.ones(len(x), dtype=torch.bool)
    answers[asked] = False
    assert not reads[answers].any()
