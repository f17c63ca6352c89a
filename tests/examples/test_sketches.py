"""A run names what a drawing shows: from strokes, JSON and files such as Quick, Draw!'s."""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

from edgewise_examples.baselines import sketches
from edgewise_examples.data import quickdraw
from edgewise_examples.data.quickdraw import FILES, NAME

import edgewise
from edgewise.app.cli import main
from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from edgewise.app.runs import baselines, train, with_values

FAST = {
    "model.width": 12,
    "model.heads": 3,
    "model.depth": 1,
    "trainer.accelerator": "cpu",
    "trainer.epochs": 3,
}
SMALL = replace(find("sketches"), data=quickdraw(categories=2, batch_size=10))
Strokes = list[list[list[int]]]


def drawn(word: str, number: int) -> Strokes:
    """A fence has upright strokes, a ladder level ones."""
    draw = random.Random(f"{word}{number}")
    strokes = []
    for _ in range(draw.randint(2, 4)):
        at, start, end = draw.randint(0, 255), draw.randint(0, 60), draw.randint(190, 255)
        stroke = [[at, at], [start, end]]
        strokes.append(stroke if word == "fence" else stroke[::-1])
    return strokes


def use_drawings(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Write a data set of 25 fences and 25 ladders, and make it the one that is read.

    Returns:
        The folder of the files.
    """
    raw = folder / NAME / "raw"
    raw.mkdir(parents=True)
    lines = [
        json.dumps({"word": word, "drawing": drawn(word, number)})
        for word in ("fence", "ladder")
        for number in range(25)
    ]
    (raw / FILES[0]).write_bytes(gzip.compress("\n".join(lines).encode()))
    (raw / FILES[1]).write_text("fence\nladder\n")
    patch.setenv("EDGEWISE_DATA", str(folder))
    patch.delitem(SHA256, NAME)
    return raw


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data are gone."""
    folder = tmp_path_factory.mktemp("sketches")
    with pytest.MonkeyPatch.context() as patch:
        raw = use_drawings(folder, patch)
        train(with_values(SMALL, FAST), folder / "run")
    shutil.rmtree(raw)
    return folder / "run"


@pytest.fixture(scope="module")
def run(run_folder: Path) -> edgewise.app.runs.Run:
    return edgewise.load(run_folder)


@pytest.mark.slow
def test_answers_are_the_outputs_of_the_model_on_its_data(
    run: edgewise.app.runs.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_drawings(tmp_path, monkeypatch)
    drawings = [drawn(word, number) for word in ("fence", "ladder") for number in range(25)]
    batch = run.recipe.data.load().test.make(torch.arange(10))
    with torch.no_grad():
        wanted = run.model(*batch.inputs, **batch.keywords).softmax(-1)
    tested = [*drawings[20:25], *drawings[45:]]
    answers = run.predict(tested, top=2, batch_size=4)
    found = [{one["label"]: one["probability"] for one in answer["top"]} for answer in answers]
    both = torch.tensor([[one["fence"], one["ladder"]] for one in found])
    torch.testing.assert_close(both, wanted)
    told = [answer["label"] for answer in answers]
    assert told == [("fence", "ladder")[number] for number in wanted.argmax(1).tolist()]
    assert len({round(one["fence"], 5) for one in found}) > 5, "drawings differ"


def test_baselines_tell_fences_from_ladders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    use_drawings(tmp_path, monkeypatch)
    for name, small in (("TREES", 20), ("HIDDEN", 32), ("VARIED", 2)):
        monkeypatch.setattr(sketches, name, small)
    found = {one.name: one.metrics["test/accuracy"] for one in baselines(SMALL)}
    assert set(found) == {"randomised trees on strokes", "perceptron on strokes"}
    assert min(found.values()) >= 0.8, "8 of 10 drawings"


def probabilities(answers: list[dict[str, Any]]) -> list[float]:
    return [answer["probability"] for answer in answers]


def test_every_form_gives_the_same_answers(run: edgewise.app.runs.Run, tmp_path: Path) -> None:
    drawings = [drawn("fence", 30), drawn("ladder", 31), drawn("fence", 32)]
    wanted = probabilities(run.predict(drawings))
    assert probabilities(run.predict([json.dumps(one) for one in drawings])) == wanted
    rows = [{"key_id": f"k{n}", "drawing": one} for n, one in enumerate(drawings)]
    assert probabilities(run.predict(rows)) == wanted
    assert probabilities(run.predict([json.dumps(row) for row in rows])) == wanted
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "new.ndjson").write_text(text)
    (tmp_path / "new.ndjson.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("new.ndjson", "new.ndjson.gz"):
        told = run.predict(tmp_path / name)
        assert probabilities(told) == wanted
        assert set(told[1]) == {"key_id", "label", "probability"}, "without hundreds of numbers"
        assert told[1]["key_id"] == "k1"


def test_a_raw_drawing_is_brought_into_the_form_that_was_trained_on(
    run: edgewise.app.runs.Run,
) -> None:
    simple = [[[0, 255], [0, 100]], [[30, 30], [0, 200]]]
    raw = [
        # Twice as large, elsewhere, with points on its lines, and with times.
        [[2.0 * x + 7.5 for x in xs], [2.0 * y + 40 for y in ys], [0, 10, 20]]
        for xs, ys in ([[0, 127.5, 255], [0, 50, 100]], [[30, 30, 30], [0, 33, 200]])
    ]
    assert (
        run.predictor.prepare(raw)
        == run.predictor.prepare(simple)
        == [(xs, ys) for xs, ys in simple]
    )
    assert probabilities(run.predict([raw])) == probabilities(run.predict([simple]))


def test_no_drawing_is_too_small(run: edgewise.app.runs.Run) -> None:
    tiny = [[[0.0, 1e-320], [0.0, 0.0]]]
    assert run.predictor.prepare(tiny) == [([0, 255], [0, 0])]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "no stroke"),
        ([[[1], [2, 3]]], "different numbers of x and y"),
        ([[[], []]], "or without points"),
        ([[[1, 2]]], "expected a list of strokes"),
        ([[["a"], ["b"]]], "expected a list of strokes"),
        ([[[1, float("nan")], [1, 2]]], "NaN"),
        ([[[1e308, -1e308], [1, 2]]], "too far apart"),
        ([[[10**400], [1]]], "expected a list of strokes"),
        ("[" * 100_000, "expected a drawing"),
        (f"[[[{'9' * 5000}], [1]]]", "expected a drawing"),
        ("a fence", "got a fence"),
        ('{"word": "cat"}', "without drawing"),
        ({"word": "cat"}, "without drawing"),
        (5, "expected a list of strokes"),
        (None, "expected a list of strokes"),
    ],
)
def test_what_is_no_drawing_is_named_and_the_others_are_answered(
    run: edgewise.app.runs.Run, wrong: Any, said: str
) -> None:
    bad, good = run.predict([wrong, drawn("fence", 40)])
    assert said in bad["error"]
    assert good["label"] in ("fence", "ladder")


def test_from_the_shell(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [json.dumps(drawn("ladder", 50)), "scribble"]
    assert main(["predict", str(run_folder), *shown, "--top", "2"]) == 1
    told = capsys.readouterr()
    assert "ladder" in told.out
    assert "fence" in told.out
    assert "got scribble" in told.err
    rows = [{"word": "?", "drawing": drawn("fence", 51)}, {"word": "?", "drawing": [[1], [2, 3]]}]
    (tmp_path / "new.ndjson").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out.csv"
    words = ["predict", str(run_folder), "--input", str(tmp_path / "new.ndjson")]
    assert main([*words, "--out", str(out)]) == 1
    assert "line 2 of new.ndjson: `drawing`: expected a list of strokes" in capsys.readouterr().err
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["label"] in ("fence", "ladder") for row in found] == [True, False]
