"""A run labels the words of trees: from CoNLL-U, objects and tables."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

from edgewise_examples.data import ewt_trees

import edgewise
from edgewise.app.cli import main
from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values

FAST = {"model.width": 16, "trainer.accelerator": "cpu", "trainer.epochs": 3}
SUBJECTS, VERBS = ("dogs", "cats", "birds"), ("see", "hear", "like")
RELATIONS = ["nsubj", "root", "obj"]


def words(number: int) -> list[str]:
    """Who does what to whom; what a noun is, its head and order alone cannot tell a Tree-LSTM."""
    return [
        f"{SUBJECTS[number % 3]}-s",
        VERBS[number // 3 % 3],
        f"{SUBJECTS[number // 9 % 3]}-o",
    ]


HEADS = [2, 0, 2]


def conllu(number: int) -> str:
    rows = zip(words(number), HEADS, RELATIONS, strict=True)
    return "".join(
        f"{i}\t{word}\t_\tX\t_\t_\t{head}\t{label}\t_\t_\n"
        for i, (word, head, label) in enumerate(rows, 1)
    )


@pytest.fixture(scope="module", params=["tree-lstm-ewt", "tree-transformer-ewt"])
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data are gone."""
    folder = tmp_path_factory.mktemp("trees")
    raw = folder / "UD_English-EWT" / "raw"
    raw.mkdir(parents=True)
    for part, numbers in {"train": range(18), "dev": range(18, 23), "test": range(23, 27)}.items():
        text = "\n".join(map(conllu, numbers))
        (raw / f"en_ewt-ud-{part}.conllu.gz").write_bytes(gzip.compress(text.encode()))
    recipe = replace(find(request.param), data=ewt_trees(hashed=256, batch_size=6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(folder))
        patch.delitem(SHA256, "UD_English-EWT")
        train(with_values(recipe, FAST), folder / "run")
        batch = recipe.data.load().test.make(torch.arange(4))
        torch.save((batch.inputs[0], batch.inputs[1].edge_index), folder / "tested.pt")
    shutil.rmtree(folder / "UD_English-EWT")
    return folder / "run"


@pytest.fixture(scope="module")
def run(run_folder: Path) -> edgewise.app.runs.Run:
    return edgewise.load(run_folder)


def labels(answer: dict[str, Any]) -> list[str]:
    return [word["deprel"] for word in answer["words"]]


@pytest.mark.slow(after=1)
def test_answers_are_the_outputs_of_the_model_on_its_data(
    run: edgewise.app.runs.Run, run_folder: Path
) -> None:
    x, edge_index = torch.load(run_folder.parent / "tested.pt", weights_only=True)
    with torch.no_grad():
        graph = edgewise.graphs.edges(edge_index, len(x))
        wanted = run.model(x, graph, batch=torch.tensor([3] * 4)).softmax(-1).max(-1)
    answers = run.predict([conllu(number) for number in range(23, 27)], batch_size=3)
    found = [word["probability"] for answer in answers for word in answer["words"]]
    torch.testing.assert_close(torch.tensor(found), wanted.values)
    told = [label for answer in answers for label in labels(answer)]
    assert told == [sorted(RELATIONS)[number] for number in wanted.indices.tolist()]
    assert [word["word"] for word in answers[0]["words"]] == words(23)


def test_every_form_gives_the_same_answers(run: edgewise.app.runs.Run, tmp_path: Path) -> None:
    numbers = range(3)
    wanted = [answer["words"] for answer in run.predict([conllu(n) for n in numbers])]
    objects = [{"words": words(n), "heads": HEADS} for n in numbers]
    files = {
        "new.conllu": "# a sentence\n" + "\n".join(map(conllu, numbers)),
        "new.jsonl": "\n".join(map(json.dumps, objects)),
        "new.csv": "words,heads\n" + "\n".join(f"{' '.join(words(n))},2 0 2" for n in numbers),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "new.conllu.gz").write_bytes(gzip.compress(files["new.conllu"].encode()))
    given = [objects, list(map(json.dumps, objects)), *(tmp_path / name for name in files)]
    for inputs in [*given, tmp_path / "new.conllu.gz"]:
        found = run.predict(inputs)
        assert [[w["deprel"] for w in a.get("predicted_words", a["words"])] for a in found] == [
            [w["deprel"] for w in each] for each in wanted
        ]
    (answer,) = run.predict(objects[0])
    assert answer["input"] == " ".join(words(0))
    assert labels(answer) == [word["deprel"] for word in wanted[0]]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"words": ["a", "b"], "heads": [2, 1]},
            "the root; got the heads 2 1 in the sentence",
        ),
        ({"words": ["a", "b"], "heads": [0, 7]}, "number of another word"),
        ({"words": ["a", "b"], "heads": [0]}, "one head for each of 2 words"),
        ({"words": ["a", "b"], "heads": ["_", "_"]}, "or 0 for the root"),
        ({"words": [], "heads": []}, "not blank"),
        ({"words": ["a", " "], "heads": [0, 1]}, "not blank"),
        ({"words": [5], "heads": [0]}, "not blank"),
        ({"words": 5, "heads": [0]}, "not blank"),
        ({"words": ["a"]}, "without heads"),
        ("Dogs bark .", "a sentence with heads"),
        ("1\tDogs\t2", "`sentence`: expected CoNLL-U"),
        (conllu(0) + "\n" + conllu(1), "2 sentences"),
        (7, "a sentence with heads"),
        (None, "a sentence with heads"),
    ],
)
def test_what_is_no_tree_is_named_and_the_others_are_answered(
    run: edgewise.app.runs.Run, wrong: Any, said: str
) -> None:
    bad, good = run.predict([wrong, conllu(4)])
    assert said in bad["error"]
    assert len(good["words"]) == 3


def test_from_the_shell(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = conllu(1).replace("\t2\t", "\t9\t", 1)
    (tmp_path / "new.conllu").write_text("\n".join([conllu(0), damaged, conllu(2)]))
    out = tmp_path / "out.jsonl"
    command = ["predict", str(run_folder), "--input", str(tmp_path / "new.conllu")]
    assert main([*command, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "line 5 of new.conllu" in said
    assert words(1)[0] in said
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert ["error" in answer for answer in told] == [False, True, False]
    assert told[1]["input"] == " ".join(words(1))
    assert main(["predict", str(run_folder), json.dumps({"words": words(0), "heads": HEADS})]) == 0
    assert "deprel" in capsys.readouterr().out
