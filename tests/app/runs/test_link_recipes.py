"""Links and recommendation from the file to the metrics, on graphs made to be learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgewise.app.kinds import find
from edgewise.app.kinds.items import InteractionFiles
from edgewise.app.kinds.links import EdgeList
from edgewise.app.runs import evaluate_run, train, with_values

pytest.importorskip("lightning")

GROUPS, SIZE = 4, 10


@pytest.fixture
def friends(tmp_path):
    """Four groups in which nearly everybody is a friend of everybody."""
    first, second = torch.triu_indices(GROUPS * SIZE, GROUPS * SIZE, 1)
    same = (first // SIZE == second // SIZE) & (torch.rand(len(first)) < 0.8)
    path = tmp_path / "friends.txt"
    lines = zip(first[same].tolist(), second[same].tolist(), strict=True)
    path.write_text("".join(f"{a} {b}\n" for a, b in lines))
    return EdgeList(path=str(path), val=0.1, test=0.2, batch_size=50)


@pytest.fixture
def tastes(tmp_path):
    """Users of four tastes, and the items of each; every fourth choice is kept to test."""
    lines: dict[str, list[str]] = {"train.txt": [], "test.txt": []}
    for user in range(GROUPS * SIZE):
        items = (torch.randperm(SIZE) + SIZE * (user % GROUPS)).tolist()
        for name, own in (("train.txt", items[:7]), ("test.txt", items[7:])):
            lines[name].append(f"{user} {' '.join(map(str, own))}\n")
    for name, text in lines.items():
        (tmp_path / name).write_text("".join(text))
    paths = {"path": str(tmp_path / "train.txt"), "test_path": str(tmp_path / "test.txt")}
    return InteractionFiles(**paths, val=0.15, batch_size=80, negatives=20)


def small(name, data, **fields):
    recipe = replace(find(name), data=data)
    return with_values(recipe, {"trainer.accelerator": "cpu", "model.width": 16, **fields})


@pytest.mark.slow
def test_groups_of_friends_are_found(friends, tmp_path):
    recipe = small("sage-facebook", friends, **{"task.hits": 5, "trainer.epochs": 40})
    metrics = train(recipe, tmp_path / "run")
    assert metrics["test/auc"] > 0.9, "most of the pairs between groups are no friends"
    assert {"test/hits@5", "test/mrr", "val/auc"} <= metrics.keys()
    tested = evaluate_run(tmp_path / "run")
    assert tested == {name: metrics[name] for name in tested}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", ["lightgcn-gowalla", "pinsage-gowalla"])
def test_tastes_are_found(name, tastes, tmp_path):
    fields = {"task.k": 3, "trainer.epochs": 10, "trainer.monitor": "val/recall@3"}
    metrics = train(small(name, tastes, **fields), tmp_path / "run")
    assert metrics["test/recall@3"] > 0.9, "three items of the own taste are left"
    assert evaluate_run(tmp_path / "run")["test/ndcg@3"] == metrics["test/ndcg@3"]


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("fields", [{"negatives": 0}, {"by_user": True}])
def test_tastes_are_found_where_a_batch_is_of_users(fields, tastes, tmp_path):
    data = replace(tastes, batch_size=8, **fields)
    fields = {"task.k": 3, "trainer.epochs": 5, "trainer.monitor": "val/recall@3"}
    metrics = train(small("lightgcn-gowalla", data, **fields), tmp_path / "run")
    assert metrics["test/recall@3"] > 0.9, "three items of the own taste are left"
