"""Recommendation data: what is known does not count, and nothing that is wanted is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from edgewise.app.kinds.items import Gowalla, InteractionFiles
from edgewise.app.kinds.items.data import read_split
from tests.errors import refused
from tests.places import needs

USERS, ITEMS = 12, 9


@pytest.fixture
def data(tmp_path):
    """Every user has some items, at random; the last item is only ever tested."""
    wanted = torch.rand(USERS, ITEMS - 1)
    for name, part in (("train.txt", wanted < 0.5), ("test.txt", wanted > 0.8)):
        lines = [
            " ".join(map(str, [u, *row.nonzero().flatten().tolist()])) for u, row in enumerate(part)
        ]
        if name == "test.txt":
            lines[0] += f" {ITEMS - 1}"
        (tmp_path / name).write_text("\n".join(lines))
    paths = {"path": str(tmp_path / "train.txt"), "test_path": str(tmp_path / "test.txt")}
    return InteractionFiles(**paths, val=0.2, batch_size=16, negatives=5, val_users=0)


def chosen(graph) -> set[tuple[int, int]]:
    half = graph.num_edges // 2
    assert torch.equal(graph.edge_index[:, :half].flip(0), graph.edge_index[:, half:])
    return {(u, i - USERS) for u, i in graph.edge_index[:, :half].t().tolist()}


def test_sizes(data):
    assert data.load().model_arguments == {"num_users": USERS, "num_items": ITEMS}


def test_each_interaction_is_in_one_part(data):
    splits, read = data.load(), data.read()
    val = splits.val.make(torch.arange(splits.val.count))
    test = splits.test.make(torch.arange(splits.test.count))
    known = chosen(val.inputs[2])
    assert len(known) == splits.train.count
    of_val = {(int(val.inputs[0][row]), item) for row, item in (val.target == 1).nonzero().tolist()}
    assert known | of_val == set(map(tuple, read.train.t().tolist()))
    assert not known & of_val
    every, held_out = (Counter(user for user, _ in pairs) for pairs in (known | of_val, of_val))
    assert held_out == {user: max(1, round(0.2 * count)) for user, count in every.items()}
    of_test = {
        (int(test.inputs[0][row]), item) for row, item in (test.target == 1).nonzero().tolist()
    }
    assert of_test == set(map(tuple, read.test.t().tolist()))


def test_what_is_known_does_not_count(data):
    splits, read = data.load(), data.read()
    val = splits.val.make(torch.tensor([1, 0]))
    for row, user in enumerate(val.inputs[0].tolist()):
        known = {item for u, item in chosen(val.inputs[2]) if u == user}
        assert set((val.target[row] == -1).nonzero().flatten().tolist()) == known
    test = splits.test.make(torch.arange(splits.test.count))
    for row, user in enumerate(test.inputs[0].tolist()):  # what was validated on is known by now
        known = set(read.train[1, read.train[0] == user].tolist())
        assert set((test.target[row] == -1).nonzero().flatten().tolist()) == known


def test_training_asks_for_every_interaction_and_draws_anew(data):
    splits = data.load()
    loader = splits.loaders(0)["train"]
    asked, drawn = Counter(), []
    for batch in loader:
        (users, others, graph), own = batch.inputs, batch.keywords["positives"]
        assert batch.target.tolist() == [[0]] * len(users)
        asked.update(zip(users.tolist(), own[:, 0].tolist(), strict=True))
        drawn.append(others)
        assert others.shape == (5,)
    assert set(asked) == chosen(graph)
    assert set(asked.values()) == {1}
    assert not torch.equal(drawn[0], drawn[1])
    again = [batch.inputs[1] for batch in splits.loaders(0)["train"]]
    assert all(map(torch.equal, drawn, again))


def test_by_user_each_comes_once_with_all_items(data):
    from dataclasses import replace

    train = Path(data.path)
    rows = train.read_text().splitlines()
    train.write_text("\n".join([rows[0], *rows[2:]]))  # one user is only ever tested
    splits = replace(data, by_user=True, batch_size=5).load()
    wanted, asked = [], Counter()
    for batch in splits.loaders(0)["train"]:
        users, others, graph = batch.inputs
        own = batch.keywords["positives"]
        assert others.shape == (5,)
        assert len(users) <= 5
        asked.update(users.tolist())
        for user, items, places in zip(users.tolist(), own, batch.target, strict=True):
            count = int((items >= 0).sum())
            wanted += [(user, item) for item in items[:count].tolist()]
            assert places.tolist() == [*range(count), *[-1] * (len(items) - count)]
            assert set(items[count:].tolist()) <= {-1}
    assert sorted(wanted) == sorted(chosen(graph))
    assert asked == dict.fromkeys({user for user, _ in wanted}, 1)
    assert splits.train.count == len(asked)
    loader = splits.loaders(0)["train"]
    loader.share(USERS - 1, USERS)
    (nothing,) = loader
    assert len(nothing.target) == 0, "of a process that has no user of this batch"


def test_without_negatives_training_ranks_all_items_for_each_user_once(data):
    from dataclasses import replace

    splits = replace(data, negatives=0, batch_size=5).load()
    asked, wanted, sizes = Counter(), set(), []
    for batch in splits.loaders(0)["train"]:
        users, items, graph = batch.inputs
        assert items.tolist() == list(range(ITEMS))
        assert set(batch.target.unique().tolist()) == {0, 1}, "nothing is left out"
        asked.update(users.tolist())
        rows = (batch.target == 1).nonzero().tolist()
        wanted |= {(int(users[row]), item) for row, item in rows}
        sizes.append(len(users))
    assert wanted == chosen(graph)
    assert asked == dict.fromkeys({user for user, _ in wanted}, 1)
    assert max(sizes) == 5


def test_some_users_to_validate_on(data):
    from dataclasses import replace

    assert replace(data, val_users=3).load().val.count == 3


def test_users_to_validate_on_are_sampled_with_equal_probability(tmp_path):
    """Active users are no more frequent, and a user with one item is not validated on."""
    rows = [f"{user} {' '.join(map(str, range(20 if user % 2 else 2)))}" for user in range(400)]
    (tmp_path / "train.txt").write_text("\n".join([*rows, "400 0"]))
    (tmp_path / "test.txt").write_text("0 20\n")
    paths = {"path": str(tmp_path / "train.txt"), "test_path": str(tmp_path / "test.txt")}
    splits = InteractionFiles(**paths, val=0.1, val_users=200).load()
    batch = splits.val.make(torch.arange(200))
    users, count = batch.inputs[0], (batch.target == 1).sum(1)
    assert 400 not in users
    assert torch.equal(count, torch.where(users % 2 == 1, 2, 1))
    assert 65 < int((users % 2).sum()) < 135, "100 are expected, with a standard deviation of 5"
    assert splits.train.count == 200 * 22 + 1 - int(count.sum())


def test_an_item_in_both_files_is_refused(tmp_path):
    (tmp_path / "train.txt").write_text("0 1 2 3 4 5\n1 1 2\n")
    (tmp_path / "test.txt").write_text("1 2\n")
    data = InteractionFiles(
        path=str(tmp_path / "train.txt"), test_path=str(tmp_path / "test.txt"), val=0.2
    )
    with pytest.raises(ValueError, match="1 common edge, first 1-3"):  # item 2 is node 1 + 2
        data.load()


def test_what_a_user_chose_twice_counts_once(tmp_path):
    """Kept twice, it might be trained and validated on, and was then refused by some seeds."""
    rows = [f"{user} {item}" for user in "ab" for item in range(20)]
    (tmp_path / "train.txt").write_text("\n".join(rows[::-1] + rows))
    (tmp_path / "test.txt").write_text("a 20\nb 20\na 20\n")
    chosen = read_split(tmp_path / "train.txt", tmp_path / "test.txt")
    assert chosen.train.tolist() == [[1] * 20 + [0] * 20, [*range(19, -1, -1)] * 2]
    assert chosen.test.tolist() == [[0, 1], [20, 20]]
    data = InteractionFiles(
        path=str(tmp_path / "train.txt"), test_path=str(tmp_path / "test.txt"), val=0.5
    )
    assert data.load().train.count == 20


def test_ids_of_any_kind_are_kept(tmp_path):
    """What people have: a table of names with a header; and what is predicted can be named."""
    rows = [(user, f"film {item}") for user in ("ann", "bob", "cy") for item in range(9)]
    for name, part in (("train.csv", rows[:20]), ("test.csv", rows[20:])):
        text = "\n".join(["user,item", *(",".join(row) for row in part)])
        (tmp_path / name).write_text(text)
    train, test = (str(tmp_path / name) for name in ("train.csv", "test.csv"))
    splits = InteractionFiles(path=train, test_path=test, val=0.2).load()
    assert splits.model_arguments == {"num_users": 3, "num_items": 9}
    assert list(splits.user_ids) == ["ann", "bob", "cy"]
    batch = splits.test.make(torch.arange(splits.test.count))
    wanted = (batch.target == 1).nonzero().tolist()
    users, items = list(splits.user_ids), list(splits.item_ids)
    found = {(users[int(batch.inputs[0][row])], items[item]) for row, item in wanted}
    assert found == set(rows[20:])


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("negatives", -1, "at least 0"),
        ("val", 0.0, "a fraction"),
        ("val_users", -1, "at least 0"),
    ],
)
def test_bad_fields(field, value, expected):
    with refused(f"data.{field}", expected=expected, got=str(value), remedy="choose"):
        Gowalla(**{field: value})


@pytest.mark.slow
@needs("gowalla")
def test_gowalla_as_counted():
    read = Gowalla().read()
    assert (read.num_users, read.num_items) == (29_858, 40_981)
    assert (read.train.shape[1], read.test.shape[1]) == (810_128, 217_242)


def table(folder, rows):
    path = folder / "ratings.csv"
    path.write_text("\n".join(["user,item,time,rating", *rows]))
    return str(path)


def test_one_file_is_split_by_time_for_each_user(tmp_path):
    rows = [f"ann,i{k},{100 - k},5" for k in range(20)]  # the first in the file are the last
    rows += [f"bob,i{k},{k},4" for k in range(4)] + ["bob,i0,77,4", "cy,i1,1,5", "cy,i2,2,5"]
    read = InteractionFiles(path=table(tmp_path, rows), val=0.1, test=0.2).read()
    items, users = list(read.item_ids), list(read.user_ids)

    def named(pairs):
        return {(users[u], items[i]) for u, i in pairs.t().tolist()}

    assert named(read.test) == {*(("ann", f"i{k}") for k in range(4)), ("bob", "i3")}
    assert named(read.val) == {("ann", "i4"), ("ann", "i5"), ("bob", "i2")}
    assert named(read.train) >= {("cy", "i1"), ("cy", "i2"), ("bob", "i0"), ("bob", "i1")}
    assert read.train.shape[1] == 14 + 2 + 2, "what bob chose twice counts once"
    assert read.columns == ("user", "item")


def test_without_times_the_split_is_drawn_and_the_seed_decides(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(f"u{u};i{i}" for u in range(9) for i in range(10)))
    one, again, other = (
        InteractionFiles(path=str(path), val=0.1, test=0.2, split_seed=seed).read()
        for seed in (0, 0, 1)
    )
    assert torch.equal(one.test, again.test)
    assert not torch.equal(one.test, other.test)
    assert torch.equal(torch.bincount(one.test[0]), torch.full((9,), 2))
    assert torch.equal(torch.bincount(one.val[0]), torch.full((9,), 1))
    known = torch.cat([one.train, one.val, one.test], dim=1)
    assert known.unique(dim=1).shape[1] == 90
    splits = InteractionFiles(path=str(path), val=0.1, test=0.2).load()
    assert splits.preprocessing["known"].unique(dim=1).shape[1] == 90
    assert (splits.train.count, splits.val.count, splits.test.count) == (63, 9, 9)


def test_low_ratings_may_be_left_out(tmp_path):
    path = table(tmp_path, [f"u{u},i{i},{i},{i % 5 + 1}" for u in range(3) for i in range(20)])
    assert InteractionFiles(path=path).read().num_items == 20
    liked = InteractionFiles(path=path, min_rating=4).read()
    known = torch.cat([liked.train, liked.val, liked.test], dim=1)
    assert known.shape[1] == 3 * 8
    with refused("data.min_rating", expected="rating of ratings.csv, 5", got="6", remedy="lower"):
        InteractionFiles(path=path, min_rating=6).read()
    (tmp_path / "pairs.csv").write_text("user,item\na,b\na,c\n")
    with refused("data.rating", expected="pairs.csv", got="no column", remedy="--data.min_rating"):
        InteractionFiles(path=str(tmp_path / "pairs.csv"), min_rating=4).read()
    with refused("data.path", expected="3 interactions", got="at most 2", remedy="test_path"):
        InteractionFiles(path=str(tmp_path / "pairs.csv")).read()
    with refused("data.path", expected="a file", got="none", remedy="--data.path"):
        InteractionFiles().read()
