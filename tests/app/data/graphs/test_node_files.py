"""Graphs of one's own: nodes without a label, without edges and without features; and bad files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgewise.app.kinds.nodes import NodeFiles
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.train.folds import hold_out
from tests.errors import refused

NODES = """who;group;age;income
ann;x;10;1,5
bob;y;20;2,5
cy;x;;
dee;;30;0,5
eve;y;40;3,5
fay;x;10;1,5
gus;y;20;9,5
hal;x;10;1,5
"""
EDGES = "from,to\nann,bob\nbob,ann\nann,ann\ndee,zoe\ncy,dee\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return {"nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}


def own(files, **fields):
    return NodeFiles(**{**files, "target": "group", "val": 0.25, "test": 0.25, **fields})


def test_nodes_of_all_kinds(files):
    splits = own(files).load()
    assert splits.model_arguments == {"in_width": 2, "out_width": 2}
    kept = splits.preprocessing
    assert kept["ids"] == ["ann", "bob", "cy", "dee", "eve", "fay", "gus", "hal", "zoe"]
    assert (kept["labels"], kept["features"], kept["column"]) == (
        ["x", "y"],
        ["age", "income"],
        "who",
    )
    given = torch.tensor([0, 1, 3, 4, 5, 6, 7])
    x = kept["x"][given]
    assert torch.allclose(x.mean(0), torch.zeros(2), atol=1e-6)
    assert torch.allclose(x.std(0, correction=0), torch.ones(2), atol=1e-6)
    assert kept["x"][[2, 8]].abs().sum() == 0, "no features: the mean"
    pairs = {(kept["ids"][a], kept["ids"][b]) for a, b in kept["edges"].t().tolist()}
    both = {("ann", "bob"), ("dee", "zoe"), ("cy", "dee")}
    assert pairs == both | {(b, a) for a, b in both}, "each once, both ways, without loops"
    parts = [
        set(part.make(torch.tensor([0])).select.tolist())
        for part in (splits.train, splits.val, splits.test)
    ]
    assert sorted(map(len, parts)) == [2, 2, 3]
    assert set.union(*parts) == {0, 1, 2, 4, 5, 6, 7}, "dee and zoe have no label"
    batch = splits.test.make(torch.tensor([0]))
    for node, label in zip(batch.select.tolist(), batch.target.tolist(), strict=True):
        assert kept["labels"][label] == {"b": "y", "e": "y", "g": "y"}.get(
            kept["ids"][node][0], "x"
        )


def test_the_training_batch_can_have_all_nodes(files):
    index = torch.tensor([0])
    labelled = own(files).load().train.make(index)
    splits = own(files, unlabelled=True).load()
    batch = splits.train.make(index)
    assert batch.select is None
    assert batch.target.shape == (9,)
    known = (batch.target != -100).nonzero()[:, 0]
    assert known.tolist() == sorted(labelled.select.tolist())
    assert batch.target[labelled.select].tolist() == labelled.target.tolist()
    assert splits.val.make(index).select is not None
    with refused("data.unlabelled", expected="classes", got="numbers", remedy="recipe nodes"):
        numbers = {"target": "age", "features": ("income",), "task_type": "regression"}
        own(files, unlabelled=True, **numbers).load()


def test_counts_of_words_are_recognised(files, tmp_path):
    assert own(files).load().preprocessing["scale"] == "columns"
    header, *rows = NODES.replace(",5", "").splitlines()
    few = [";".join([*row.split(";")[:2], "0", "0"]) for row in rows]
    few[0], few[2] = "ann;x;1;3", "cy;x;;"
    (tmp_path / "nodes.csv").write_text("\n".join([header, *few]))
    kept = own(files).load().preprocessing
    assert kept["scale"] == "rows"
    assert kept["x"][0].tolist() == [0.25, 0.75]
    assert own(files, scale="columns").load().preprocessing["scale"] == "columns"
    few[1] = "bob;y;-1;0"
    (tmp_path / "nodes.csv").write_text("\n".join([header, *few]))
    assert own(files).load().preprocessing["scale"] == "columns"


def test_directed_edges_and_scales(files):
    kept = own(files, directed=True, scale="none").load().preprocessing
    pairs = {(kept["ids"][a], kept["ids"][b]) for a, b in kept["edges"].t().tolist()}
    assert pairs == {("ann", "bob"), ("bob", "ann"), ("dee", "zoe"), ("cy", "dee")}
    assert kept["x"][0].tolist() == [10, 1.5]
    rows = own(files, scale="rows", features=("age", "income")).load().preprocessing["x"]
    assert torch.allclose(rows.sum(1), torch.tensor([1.0, 1, 0, 1, 1, 1, 1, 1, 0]))


def test_a_graph_without_features_tells_its_nodes_apart(files, tmp_path):
    (tmp_path / "nodes.csv").write_text("id,class\n" + "".join(f"n{i},{i % 2}\n" for i in range(9)))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n2\nn1,n3\n")
    splits = NodeFiles(**files).load()
    assert splits.model_arguments == {"in_width": 9, "out_width": 2}
    found = saved_graph(splits.preprocessing)
    assert torch.equal(found.x.to_dense(), torch.eye(9))


def test_splits_that_are_given(files, tmp_path):
    rows = [f"n{i},{i % 2},{i},{part}" for i, part in enumerate(["train", "test", "valid"] * 4)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,f,split", *rows, "n99,1,3,"]))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n2\n")
    splits = NodeFiles(**files).load()
    assert splits.train.make(torch.tensor([0])).select.tolist() == [0, 3, 6, 9]
    assert splits.val.make(torch.tensor([0])).select.tolist() == [2, 5, 8, 11]
    assert splits.preprocessing["features"] == ["f"]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,f,split", *rows, "n99,1,3,later"]))
    with refused(
        "data.split", expected="train, val, test", got="'later' in row 14", remedy="--data"
    ):
        NodeFiles(**files).load()


def test_arrays(tmp_path):
    path = tmp_path / "graph.npz"
    good = {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "x": np.arange(24.0).reshape(12, 2),
        "y": np.array([0, 1] * 5 + [-1, 0]),
        "classes": np.array(["no", "yes"]),
        "train_mask": np.arange(12) < 4,
    }
    np.savez(path, **good)
    splits = NodeFiles(nodes=str(path), val=0.2, test=0.2).load()
    assert splits.preprocessing["labels"] == ["no", "yes"]
    assert splits.preprocessing["ids"][-1] == "11"
    assert splits.model_arguments["in_width"] == 2
    bad = [
        ({"edge_index": np.array([[0], [12]])}, "integers from 0 to 11", "from 0 to 12"),
        ({"edge_index": np.zeros((2, 0))}, "integers from 0 to 11", "float64"),
        ({"y": np.zeros(3)}, "and y, ids and masks [N]", "y [3]"),
        ({"x": np.full((12, 2), np.nan)}, "an array x of finite numbers", "NaN"),
        ({"x": np.full((12, 2), "a")}, "a numeric array x", "<U1"),
        ({"x": np.array(3.0)}, "x [N, F]", "x []"),
        ({"classes": np.array(["no"])}, "an array classes", "a class 1"),
        ({"y": np.array([object()] * 12)}, "plain arrays", "allow_pickle"),
    ]
    for change, expected, got in bad:
        np.savez(path, **{**good, **change})
        with refused(str(path), expected=expected, got=got, remedy=""):
            NodeFiles(nodes=str(path)).load()
    np.savez(path, x=good["x"])
    with refused(
        str(path), expected="an array 'edge_index'", got="only the arrays x", remedy="add"
    ):
        NodeFiles(nodes=str(path)).load()


@pytest.mark.parametrize(
    ("change", "fields", "error"),
    [
        (("ann;x", ";x"), {}, ("data.id", "a different id", "'' in row 2")),
        (("bob;y", "ann;y"), {}, ("data.id", "a different id", "'ann' in row 3 and 2")),
        (("30;0,5", "old;0,5"), {}, ("data.features", "in column 'age'", "'old' in row 5")),
        (("30;0,5", ";0,5"), {}, ("data.features", "all features blank", "'' in row 5")),
        (("", ""), {"target": "grup"}, ("data.target", "group", "'grup'")),
        (("", ""), {"target": "who", "id": "age"}, ("data.id", "a different id", "row")),
        (("", ""), {"features": ("agee",)}, ("data.features", "age", "'agee'")),
        (("", ""), {"source": "x"}, ("data.source", "from", "'x'")),
        (("", ""), {"edges": ""}, ("data.edges", "a table of edges", "none")),
        (("", ""), {"nodes": ""}, ("data.nodes", "a table of nodes", "none")),
        (("", ""), {"scale": "col"}, ("data.scale", "columns", "'col'")),
    ],
)
def test_bad_tables(files, tmp_path, change, fields, error):
    argument, expected, got = error
    (tmp_path / "nodes.csv").write_text(NODES.replace(*change) if change[0] else NODES)
    with refused(argument, expected=expected, got=got, remedy=""):
        own(files, **fields).load()


def test_the_only_words_that_come_again_are_the_classes(files, tmp_path):
    assert own(files, target="").load().preprocessing["labels"] == ["x", "y"]
    two = "\n".join(f"{row};{'town' if i else 'u'}" for i, row in enumerate(NODES.splitlines()))
    (tmp_path / "nodes.csv").write_text(two)
    with refused(
        "data.target", expected="classes", got="'group', 'u'", remedy="--data.target group"
    ):
        own(files, target="").load()
    unique = "\n".join(f"{row.split(';')[0]};{i}" for i, row in enumerate(NODES.splitlines()))
    (tmp_path / "nodes.csv").write_text(unique.replace(";0", ";age"))
    with refused("data.target", expected="classes", got="among 'age'", remedy="--data.target age"):
        own(files, target="").load()
    (tmp_path / "nodes.csv").write_text("who\nann\nbob\ncy\n")
    with refused(
        "data.target", expected="classes", got="only the columns 'who'", remedy="add a column"
    ):
        own(files, target="").load()


def test_what_is_no_archive_is_not_to_be_trusted(tmp_path):
    (tmp_path / "graph.npz").write_bytes(b"binary data")
    with refused(
        str(tmp_path / "graph.npz"), expected="plain arrays", got="damaged file", remedy="copy"
    ):
        NodeFiles(nodes=str(tmp_path / "graph.npz")).load()
    with (tmp_path / "graph.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with refused(
        str(tmp_path / "graph.npz"), expected="plain arrays", got="damaged file", remedy="copy"
    ):
        NodeFiles(nodes=str(tmp_path / "graph.npz")).load()


def test_arrays_that_memory_cannot_hold_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "graph.npz"
    np.savez_compressed(path, edge_index=np.zeros((2, 9), int), x=np.zeros((500, 9)))
    assert path.stat().st_size < 2000, "unpacked it is 36,000 bytes and more"
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 70_000)
    with refused(str(path), expected="free memory", got="graph.npz", remedy="nodes-on-disk"):
        NodeFiles(nodes=str(path)).load()


def test_a_graph_that_memory_cannot_hold_is_refused(files, monkeypatch):
    monkeypatch.setattr("edgewise.app.train.neighbours.TRAINED", (1e15, 1e15))
    with refused("data.nodes", expected="free memory", got="edges", remedy="--data.fanouts"):
        NodeFiles(**files).load()


def test_ids_of_two_kinds_are_refused(files, tmp_path):
    (tmp_path / "edges.csv").write_text("from,to\n1,2\n2,3\n")
    with refused("data.id", expected="'1'", got="'ann'", remedy="--data.id"):
        own(files).load()
    (tmp_path / "nodes.csv").write_text("id,label,x\n1,a,1\n2,a,2\n")
    with refused("data.target", expected="two classes", got="a", remedy="--data.target"):
        NodeFiles(**files).load()


def test_each_class_has_its_share():
    keys = ["a"] * 100 + ["b"] * 40 + ["c"] * 3
    parts = hold_out(keys, val=0.1, test=0.2, seed=3)
    counts = {
        name: [sum(keys[i] == k for i in part.tolist()) for k in "abc"]
        for name, part in parts.items()
    }
    assert abs(counts["test"][0] - 20) <= 1 >= abs(counts["test"][1] - 8)
    assert abs(counts["val"][0] - 10) <= 1 >= abs(counts["val"][1] - 4)
    assert torch.cat(list(parts.values())).sort().values.tolist() == list(range(143))
    other = hold_out(keys, val=0.1, test=0.2, seed=4)
    assert not torch.equal(parts["test"], other["test"])
