"""Links and recommendation from the file to the metrics, on graphs made to be learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import models
from edgewise._utils.errors import Interrupted
from edgewise.app.kinds import find
from edgewise.app.kinds.items import InteractionFiles
from edgewise.app.kinds.links import EdgeList
from edgewise.app.kinds.nodes import NodeArrays, NodeFiles
from edgewise.app.kinds.triples import TripleFiles
from edgewise.app.runs import evaluate_run, train, with_values
from edgewise.app.train import NeighbourSampler, RunFolder
from edgewise.app.train.preprocessing import check_same_preprocessing, keep_preprocessing
from tests.app.train.test_resume import assert_same, break_at, ctrl_c
from tests.errors import refused

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


def outputs(model, batch):
    return model(*batch.inputs, **batch.keywords)


def test_links_with_all_neighbours_have_the_outputs_of_the_whole_graph(friends):
    whole = friends.load().train
    sampled = replace(friends, fanouts=(-1, -1)).load().train
    index, generators = torch.arange(3, 40), (torch.Generator().manual_seed(1) for _ in range(2))
    first, second = (split.sample(index, next(generators)) for split in (whole, sampled))
    torch.manual_seed(0)
    model = models.link_predictor(GROUPS * SIZE, width=8, decoder="dot", overlap=True).double()
    torch.testing.assert_close(outputs(model, second), outputs(model, first), rtol=0, atol=1e-12)
    assert torch.equal(first.target, second.target)
    # The links to predict are not among the edges.
    pairs, graph = second.inputs
    positives = pairs[:, second.target == 1]
    assert not graph.contains(positives[0], positives[1]).any()
    assert not second.keywords["around"].contains(positives[1], positives[0]).any()
    few = replace(friends, fanouts=(2, 2)).load().train.sample(index, torch.Generator())
    assert few.inputs[1].in_degree().max() <= 2


def test_a_batch_of_links_copies_no_array_of_all_nodes(friends, monkeypatch):
    train = replace(friends, fanouts=(2, 2)).load().train
    monkeypatch.setattr(NeighbourSampler, "with_fanouts", None)  # A call would be an error.
    batch = train.sample(torch.arange(9), torch.Generator())
    around, count = batch.keywords["around"], len(batch.inputs[0].unique())
    assert torch.equal(around.in_degree()[:count], around.whole_in_degree()[:count])


@pytest.mark.parametrize("by_user", [False, True])
def test_interactions_with_all_neighbours_have_the_outputs_of_the_whole_graph(tastes, by_user):
    data = replace(tastes, by_user=by_user)
    whole, sampled = data.load().train, replace(data, fanouts=(-1, -1)).load().train
    index, generators = torch.arange(20), (torch.Generator().manual_seed(1) for _ in range(2))
    first, second = (split.sample(index, next(generators)) for split in (whole, sampled))
    model = models.lightgcn(GROUPS * SIZE, GROUPS * SIZE, width=8).double()
    torch.testing.assert_close(outputs(model, second), outputs(model, first), rtol=0, atol=1e-12)
    assert torch.equal(first.target, second.target)
    few = replace(data, fanouts=(2, 2)).load().train.sample(index, torch.Generator())
    assert few.inputs[2].in_degree().max() <= 2
    with refused("data.fanouts", expected="random walks", got="sample", remedy="lightgcn"):
        outputs(models.pinsage(GROUPS * SIZE, GROUPS * SIZE, width=8), few)
    with refused("data.fanouts", expected="negatives=0", got="2, 2", remedy="leave out"):
        replace(data, fanouts=(2, 2), negatives=0)


@pytest.mark.parametrize("fanouts", [(), (2, 2)])
def test_a_lack_of_memory_is_an_error_before_the_work(friends, tastes, fanouts, monkeypatch):
    remedy = "a part of the edges" if fanouts else "--data.fanouts 10,10"
    read = {data: data.read() for data in (friends, tastes)}
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 1000.0)
    for data, contents in read.items():
        with refused("data.path", expected="free memory", got="edges", remedy=remedy):
            replace(data, fanouts=fanouts)._split(contents)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["links", "interactions"])
def test_a_broken_run_goes_on_in_the_same_samples(name, friends, tastes, tmp_path, monkeypatch):
    data = replace(friends if name == "links" else tastes, fanouts=(2, 2))
    fields = {"trainer.epochs": 2, "trainer.save_every": 0, "model.width": 8}
    recipe = with_values(replace(find(name), data=data), fields)
    train(recipe, tmp_path / "unbroken")
    monkeypatch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)
    steps = len(data.load().loaders(0)["train"])
    break_at(monkeypatch, steps + 1, ctrl_c)
    with pytest.raises(Interrupted):
        train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", tmp_path / "unbroken")


def test_a_step_that_the_data_limit_is_compared(friends, tmp_path, monkeypatch):
    recipe = small("links", friends, **{"trainer.epochs": 1, "trainer.save_every": 0})
    break_at(monkeypatch, 1, ctrl_c)
    with pytest.raises(Interrupted):
        train(recipe, tmp_path / "run")
    divided = with_values(recipe, {"trainer.devices": 2, "data.batch_size": 25})
    with refused("--resume", expected="examples in a step", got="as the data limit", remedy="give"):
        train(divided, tmp_path / "run", resume=True)
    file = tmp_path / "friends.txt"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + "0 39\n")
    with refused("--resume", expected="the data of the run", got="'known'", remedy="restore"):
        train(recipe, tmp_path / "run", resume=True)
    file.write_text("".join(lines[:-5]))
    with refused("--resume", expected="the data of the run", got="'train': ", remedy="restore"):
        train(recipe, tmp_path / "run", resume=True)


def write_graph(folder, seed):
    """Write edges, triples and arrays of random graphs with equal numbers of nodes and edges."""
    random = np.random.default_rng(seed)
    ring = np.stack([np.arange(40), np.arange(1, 41) % 40])
    source, target = np.concatenate([ring, random.permutation(40)[ring]], axis=1)
    pairs = [f"p{i},p{j}" for i, j in zip(source, target, strict=True)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]))
    triples = [f"{pair.replace(',', f',r{i % 2},')}" for i, pair in enumerate(pairs)]
    (folder / "triples.csv").write_text("\n".join(["head,relation,tail", *triples]))
    rows = [f"p{i},{i % 2},{i / 7}" for i in range(40)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,x", *rows]))
    np.save(folder / "edge_index.npy", np.stack([source, target]))
    np.save(folder / "x.npy", np.random.default_rng(9).normal(size=(40, 3)))
    np.save(folder / "y.npy", np.arange(40) % 2)


@pytest.mark.parametrize(
    "data",
    [
        lambda folder: NodeFiles(nodes=str(folder / "nodes.csv"), edges=str(folder / "edges.csv")),
        lambda folder: NodeArrays(str(folder)),
        lambda folder: EdgeList(path=str(folder / "edges.csv")),
        lambda folder: TripleFiles(path=str(folder / "triples.csv")),
    ],
)
def test_the_data_of_a_resumed_run_are_compared(data, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    write_graph(tmp_path, 0)
    splits = data(tmp_path).load()
    keep_preprocessing(folder, splits)
    check_same_preprocessing(folder, data(tmp_path).load())
    write_graph(tmp_path, 1)
    other = data(tmp_path).load()
    assert [getattr(other, name).count for name in ("train", "val", "test")] == [
        getattr(splits, name).count for name in ("train", "val", "test")
    ]
    with refused("--resume", expected="the data of the run", got="another", remedy="restore"):
        check_same_preprocessing(folder, other)


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
