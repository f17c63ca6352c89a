"""A run says a word again, or names the key of a text, in symbols as numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

from edgewise_examples import data

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values

FAST = {"model.width": 32, "model.ffn_dim": 32, "trainer.accelerator": "cpu"}


@pytest.fixture(scope="module")
def duplication(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("duplication")
    drawn = data.duplication(length=8, symbols=4, count=64, tested=8, batch_size=32)
    recipe = replace(find("duplication"), data=drawn)
    train(with_values(recipe, FAST | {"model.max_length": 8, "trainer.epochs": 1}), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def recall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recall")
    drawn = data.recall(length=16, distance=8, symbols=2, keys=3, count=64, tested=50)
    recipe = replace(find("recall"), data=drawn)
    train(with_values(recipe, FAST | {"model.max_length": 16, "trainer.epochs": 1}), folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_each_token_is_the_likeliest_after_those_before_it(duplication: Path) -> None:
    run = edgewise.load(duplication)
    draw = torch.Generator().manual_seed(5)
    asked = torch.randint(1, 5, (7, 3), generator=draw).tolist()
    answers = run.predict([" ".join(map(str, one)) for one in asked], batch_size=3)
    for given, answer in zip(asked, answers, strict=True):
        said = list(map(int, answer["answer"].split()))
        text = torch.tensor([0, *given, 0, *said])
        with torch.no_grad():  # all at once, each from what is before it
            scores = run.model(edgewise.layers.Tokens(text[None]), torch.arange(4, 7)).softmax(-1)
        assert scores.argmax(1).tolist() == said
        assert answer["probability"] == pytest.approx(float(scores.max(1).values.prod()), rel=1e-4)
    assert run.predict([asked[0], tuple(asked[1])])[1]["answer"] == answers[1]["answer"]


def test_the_key_is_named(recall: Path) -> None:
    run = edgewise.load(recall)
    batch = run.recipe.data.load().test.make(torch.arange(50))
    texts, places = batch.inputs[0].ids, batch.inputs[1]
    with torch.no_grad():
        wanted = run.model(batch.inputs[0], places).softmax(-1).max(-1)
    answers = run.predict(texts.tolist())
    assert [int(answer["answer"]) for answer in answers] == wanted.indices.tolist()
    found = torch.tensor([answer["probability"] for answer in answers])
    torch.testing.assert_close(found, wanted.values)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("1 2", "3 numbers from 1 to 4"),
        ("1 2 5", "got 3 numbers from 1 to 5"),
        ("0 1 2", "got 3 numbers from 0 to 2"),
        ("one two three", "such as 3 1 2"),
        ("1.5 2 3", "whole numbers"),
        ("", "such as 3 1 2"),
        ([], "such as 3 1 2"),
        (None, "such as 3 1 2"),
    ],
)
def test_what_is_no_such_text_is_named_and_the_others_are_answered(
    duplication: Path, wrong: Any, said: str
) -> None:
    bad, good = edgewise.load(duplication).predict([wrong, "1, 2, 3"])
    assert said in bad["error"]
    assert len(good["answer"].split()) == 3


@pytest.mark.parametrize(
    "changed",
    [{-1: 4}, {0: 6}, {0: 2}, {5: 4}],
    ids=["no question", "unknown", "two keys", "no key"],
)
def test_a_text_without_its_one_key_or_its_question(recall: Path, changed: dict[int, int]) -> None:
    text = [4] * 5 + [1] + [5] * 9 + [3]
    for place, token in changed.items():
        text[place] = token
    bad, good = edgewise.load(recall).predict([text, [4] * 5 + [1] + [5] * 9 + [3]])
    assert "16 numbers: one key from 0 to 2, noise from 4 to 5, and 3 at the end" in bad["error"]
    assert "answer" in good


def test_from_the_shell(
    duplication: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(duplication), "1 2 3", "1 2"]) == 1
    told = capsys.readouterr()
    assert "answer" in told.out
    assert "3 numbers from 1 to 4" in told.err
    (tmp_path / "new.txt").write_text("4 3 2\n9 9 9\n1 1 1\n")
    out = tmp_path / "out.csv"
    command = ["predict", str(duplication), "--input", str(tmp_path / "new.txt")]
    assert main([*command, "--out", str(out)]) == 1
    assert "line 2 of new.txt" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 4
