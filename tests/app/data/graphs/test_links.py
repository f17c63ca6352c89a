"""Splits of edges: nothing leaks, negatives are no edges, and draws can be repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgewise.app.kinds.links import EdgeList, EgoFacebook
from edgewise.app.train.edge_splits import (
    EdgeSplit,
    check_edge_split,
    distinct,
    draw_non_edges,
    pair_keys,
    split_edges,
    undirected,
)
from tests.errors import refused
from tests.places import needs

NODES = 30


def some_pairs() -> torch.Tensor:
    return undirected(torch.randint(NODES, (2, 150)))


def keys(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in pairs.t().tolist()}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in some_pairs().t().tolist()))
    return EdgeList(path=str(path), val=0.1, test=0.2, batch_size=40)


def test_undirected_keeps_each_pair_once_and_no_loop():
    pairs = torch.tensor([[3, 1, 2, 2, 0], [1, 3, 2, 0, 2]])
    assert undirected(pairs).tolist() == [[0, 1], [2, 3]]
    assert distinct(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0)


def test_a_split_has_every_edge_once():
    pairs = some_pairs()
    split = split_edges(pairs, val=0.1, test=0.2, seed=3)
    parts = [keys(part) for part in (split.train, split.val, split.test)]
    assert sum(map(len, parts)) == pairs.shape[1]
    assert set.union(*parts) == keys(pairs)
    assert len(parts[1]) == round(0.1 * pairs.shape[1])
    again = split_edges(pairs, val=0.1, test=0.2, seed=3)
    assert torch.equal(split.test, again.test)
    assert not torch.equal(split.test, split_edges(pairs, val=0.1, test=0.2, seed=4).test)


def test_a_reversed_edge_in_two_parts_is_refused():
    split = EdgeSplit(*(torch.tensor(p).view(2, 1) for p in ([1, 2], [3, 4], [2, 1])))
    with refused("train, test", expected="without a common edge", got="first 1-2", remedy="split"):
        check_edge_split(split)


def test_an_empty_part_is_refused():
    with refused(
        "val", expected="at least one edge", got="none", remedy="change data.val and data.test"
    ):
        split_edges(torch.tensor([[0, 1], [1, 2]]), val=0.1, test=0.5, seed=0)
    with refused("data.val, data.test", expected="above 0", got="0.0 and 0.1", remedy="choose"):
        split_edges(some_pairs(), val=0.0, test=0.1, seed=0)


def test_what_training_is_asked_about_it_does_not_read(data):
    splits = data.load()
    loader = splits.loaders(0)["train"]
    held_out = [splits.val.make(torch.tensor([0])), splits.test.make(torch.tensor([0]))]
    hidden = set.union(*(keys(b.inputs[0][:, b.target == 1]) for b in held_out))
    asked = set()
    for batch in loader:
        pairs, graph = batch.inputs
        read, links = keys(graph.edge_index), keys(pairs[:, batch.target == 1])
        assert not read & links
        assert not (read | links) & hidden
        assert len(read | links) == splits.train.count
        assert torch.equal(
            graph.edge_index[:, : graph.num_edges // 2].flip(0),
            graph.edge_index[:, graph.num_edges // 2 :],
        )
        asked |= links
    assert len(asked) == splits.train.count, "an epoch asks about every edge"


def test_validation_and_test_read_the_training_edges_only(data):
    splits = data.load()
    val, test = (part.make(torch.tensor([0])) for part in (splits.val, splits.test))
    assert keys(val.inputs[1].edge_index) == keys(test.inputs[1].edge_index)
    assert val.inputs[1].num_edges == 2 * splits.train.count
    for batch in (val, test):
        assert not keys(batch.inputs[1].edge_index) & keys(batch.inputs[0])


def test_training_has_several_negatives_and_validation_and_test_have_one(data):
    splits = replace(data, negatives=3).load()
    parts = {part: next(iter(loader)).target for part, loader in splits.loaders(0).items()}
    negatives = {part: int((target == 0).sum()) for part, target in parts.items()}
    links = {part: int(target.sum()) for part, target in parts.items()}
    assert negatives == {"train": 3 * 8, "val": links["val"], "test": links["test"]}


@pytest.mark.parametrize(("batch_size", "links"), [(5, 5), (40, 8)])
def test_a_batch_has_at_most_a_tenth_of_the_training_edges(data, batch_size, links):
    splits = replace(data, batch_size=batch_size).load()
    assert splits.train.count // 10 == 8
    first = next(iter(splits.loaders(0)["train"]))
    assert int(first.target.sum()) == links


def test_draws_are_decided_by_seed_and_epoch(data):
    def drawn(seed: int, epoch: int) -> torch.Tensor:
        loader = data.load().loaders(seed)["train"]
        loader.set_epoch(epoch)
        return torch.cat([batch.inputs[0] for batch in loader], dim=1)

    assert torch.equal(drawn(1, 2), drawn(1, 2))
    assert not torch.equal(drawn(1, 2), drawn(1, 3))
    assert not torch.equal(drawn(1, 2), drawn(2, 2))


def test_a_continued_epoch_draws_what_an_unbroken_one_would(data):
    splits = data.load()
    whole = [batch.inputs[0] for batch in splits.loaders(0)["train"]]
    loader = splits.loaders(0)["train"]
    loader.load_state_dict({"served": 1})
    assert all(map(torch.equal, whole[1:], [batch.inputs[0] for batch in loader]))


def test_non_edges_are_even_and_never_edges():
    pairs = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    known = pair_keys(pairs, 5).sort().values
    drawn = draw_non_edges(6000, known, range(5), range(5), torch.Generator().manual_seed(0))
    found, counts = pair_keys(drawn, 5).unique(return_counts=True)
    free = {(a, b) for a in range(5) for b in range(a + 1, 5)} - keys(pairs)
    assert {divmod(int(k), 5) for k in found} == free
    assert counts.min() > 850, "6 pairs, about 1000 times each"


def test_non_edges_between_two_kinds_of_node():
    known = pair_keys(torch.tensor([[0, 1], [2, 3]]), 5)
    drawn = draw_non_edges(50, known, range(2), range(2, 5), torch.Generator().manual_seed(0))
    assert drawn[0].max() < 2 <= drawn[1].min()
    assert keys(drawn) == {(0, 3), (0, 4), (1, 2), (1, 4)}


def test_no_room_for_non_edges():
    known = pair_keys(torch.tensor([[0], [1]]), 2)
    with refused("negatives", expected="3 pairs", got="0 in 50 trials", remedy="fewer"):
        draw_non_edges(3, known, range(2), range(2), torch.Generator().manual_seed(0))


def test_bad_fields():
    with refused("data.negatives", expected="at least 1", got="0", remedy="larger"):
        EdgeList(path="x", negatives=0)
    with refused("data.path", expected="a file", got="none", remedy="name"):
        EdgeList().load()


def test_ids_of_any_kind_are_kept(tmp_path):
    """Those near 9e8 took 230 GB, and those above 3.04e9 became other nodes by an overflow."""
    ids = [3_100_000_000 + 7 * i for i in range(9)]
    path = tmp_path / "edges.csv"
    path.write_text("\n".join(f"{ids[a]},{ids[b]}" for a in range(9) for b in range(a // 2)))
    splits = EdgeList(path=str(path), val=0.1, test=0.2).load()
    assert splits.model_arguments == {"num_nodes": 9}
    assert list(splits.node_ids) == [str(i) for i in ids]
    pairs, graph = splits.test.make(torch.arange(1)).inputs
    assert graph.num_targets == 9
    assert pairs.max() < 9


@needs("ego_facebook")
def test_facebook_as_counted():
    splits = EgoFacebook().load()
    assert splits.model_arguments == {"num_nodes": 4039}
    held_out = round(88234 * 0.05) + round(88234 * 0.1)
    assert splits.train.count == 88234 - held_out
