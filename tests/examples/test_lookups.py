"""A run names the values that the questions of a dictionary, or the root of a tree, ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")

from edgewise_examples import data

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values
from edgewise.app.train import Data

FAST = {"trainer.epochs": 1, "trainer.accelerator": "cpu", "trainer.save_every": 0}


def trained(recipe: str, drawn: Data, small: dict[str, int], folder: Path) -> Path:
    train(with_values(replace(find(recipe), data=drawn), FAST | small), folder)
    return folder


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = data.dictionary_lookup(size=4, count=600, tested=20, batch_size=50)
    folder = tmp_path_factory.mktemp("dictionary") / "run"
    return trained("gatv2-dictionary", drawn, {"model.head_width": 16}, folder)


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = data.neighbors_match(depth=2, count=600, tested=20, batch_size=50)
    return trained("gps-match", drawn, {"model.width": 16}, tmp_path_factory.mktemp("l") / "run")


def test_every_key_of_a_dictionary_is_answered_as_by_the_model(dictionary: Path) -> None:
    run = edgewise.load(dictionary)
    batch = run.recipe.data.load().test.make(torch.arange(20))
    with torch.no_grad():
        wanted = batch.select_outputs(run.model(*batch.inputs)).softmax(-1).max(-1)
    values = batch.target.view(20, 4).tolist()
    answers = run.predict(values, batch_size=7)
    rows = [row for answer in answers for row in answer["answers"]]
    assert [row["answer"] for row in rows] == wanted.indices.tolist()
    assert [row["key"] for row in rows] == [0, 1, 2, 3] * 20
    found = torch.tensor([row["probability"] for row in rows])
    torch.testing.assert_close(found, wanted.values)
    assert len({row["answer"] for row in rows}) > 1
    assert answers[0]["input"] == " ".join(map(str, values[0]))


def test_the_leaf_of_the_roots_key_is_answered_as_by_the_model(leaves: Path) -> None:
    run = edgewise.load(leaves)
    drawn = run.recipe.data.draw(20, torch.Generator().manual_seed(3))
    batch = run.recipe.data.as_batch(*drawn)
    with torch.no_grad():
        wanted = run.model(*batch.inputs, **batch.keywords).softmax(-1).max(-1)
    texts = [
        " ".join(map(str, [*values, key]))
        for values, key in zip(drawn[0].tolist(), drawn[1].tolist(), strict=True)
    ]
    answers = run.predict(texts, batch_size=7)
    assert [answer["answer"] for answer in answers] == wanted.indices.tolist()
    found = torch.tensor([answer["probability"] for answer in answers])
    torch.testing.assert_close(found, wanted.values)
    rows = [{"values": text[:-2], "key": text[-1]} for text in texts]
    again = run.predict(rows)
    assert [row["answer"] for row in again] == wanted.indices.tolist()
    assert again[0]["input"] == texts[0]


@pytest.mark.parametrize(
    "wrong", ["3 2 1", "3 2 1 1", "4 3 2 1", "3 2 1 0 0", "a b c d", "", "9" * 40]
)
def test_what_is_no_dictionary_is_named_and_the_others_are_answered(
    dictionary: Path, wrong: str
) -> None:
    bad, good = edgewise.load(dictionary).predict([wrong, "3, 2, 1, 0"])
    assert "each once" in bad["error"] or "such as 3 1 2" in bad["error"]
    assert len(good["answers"]) == 4


@pytest.mark.parametrize("wrong", ["3 2 1 0", "3 2 1 0 4", "3 2 1 1 0", "0"])
def test_what_is_no_tree_is_named_and_the_others_are_answered(leaves: Path, wrong: str) -> None:
    bad, good = edgewise.load(leaves).predict([wrong, [3, 2, 1, 0, 2]])
    assert "each once, in any order, and then the key" in bad["error"]
    assert good["answer"] in range(4)


def test_from_the_shell(
    dictionary: Path, leaves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(dictionary), "3 2 1 0"]) == 0
    assert "probability" in capsys.readouterr().out
    table = tmp_path / "trees.csv"
    table.write_text("values,key,note\n3 2 1 0,1,a\n3 2 1 0,9,b\n0 1 2 3,0,c\n")
    out = tmp_path / "out.csv"
    assert main(["predict", str(leaves), "--input", str(table), "--out", str(out)]) == 1
    assert "line 3 of trees.csv" in capsys.readouterr().err
    header, first, *_ = out.read_text().splitlines()
    assert header.startswith("values,key,note,answer,probability")
    assert first.startswith("3 2 1 0,1,a,")
