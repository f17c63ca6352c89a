"""Equal rows as CSV, Parquet file and data frame give equal weights and equal answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise._utils.errors import ArgumentError
from edgewise.app import runs
from edgewise.app.kinds import find
from tests.errors import refused

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("lightning")
Frames = dict[str, Any]
"""Data frames by the field of the recipe."""

ONE_EPOCH = {"trainer.epochs": "1", "trainer.devices": "1"}


def molecules() -> Frames:
    pytest.importorskip("rdkit")
    smiles = ["C" * n + end for n in range(1, 11) for end in ("O", "N", "Cl")]
    values = [-0.3 * len(one) for one in smiles]
    warmth = [280 + i for i in range(30)]
    return {"data.path": pd.DataFrame({"smiles": smiles, "y": values, "T": warmth})}


def texts() -> Frames:
    rows = [(f"{'Loved' if i % 3 else 'Hated'} it, day {i}.", i % 3 > 0) for i in range(60)]
    return {"data.path": pd.DataFrame(rows, columns=["text", "label"]).astype({"label": int})}


def tags() -> Frames:
    words = ["Dogs bark .", "NA sleeps .", "Cats see dogs ."] * 8
    kinds = {".": "PUNCT", "bark": "VERB", "sleeps": "VERB", "see": "VERB"}
    rows = [(i, w, kinds.get(w, "NOUN")) for i, s in enumerate(words) for w in s.split()]
    return {"data.path": pd.DataFrame(rows, columns=["sentence", "word", "tag"])}


def pairs() -> Frames:
    rows = [(f"number {i}", f"{i} is the number") for i in range(40)]
    return {"data.path": pd.DataFrame(rows, columns=["source", "target"])}


def nodes() -> Frames:
    found = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(30)],
            "label": ["xyz"[i % 3] for i in range(30)],
            "age": [i % 7 for i in range(30)],
            "size": [i / 3 for i in range(30)],
        }
    )
    edges = [(f"n{i}", f"n{(7 * i + 1) % 30}") for i in range(30)]
    return {"data.nodes": found, "data.edges": pd.DataFrame(edges, columns=["source", "target"])}


def links() -> Frames:
    edges = [(i, (k * i + 1) % 40) for i in range(40) for k in (3, 7)]
    return {"data.path": pd.DataFrame(edges, columns=["from", "to"])}


def interactions() -> Frames:
    rows = [(f"u{i % 12}", f"i{i * 5 % 17}", pd.Timestamp(2024, 1, 1 + i % 28)) for i in range(120)]
    return {"data.path": pd.DataFrame(rows, columns=["user", "item", "time"])}


def series() -> Frames:
    days = pd.date_range("2020-01-01", periods=120, freq="MS")
    return {"data.path": pd.DataFrame({"day": days, "sales": [i % 12 + i / 7 for i in range(120)]})}


SMALL = {"model.width": "8", "model.depth": "1"}
KINDS: dict[str, tuple[Callable[[], Frames], dict[str, str], Any]] = {
    "molecules": (
        molecules,
        {**SMALL, "data.target": "y", "data.conditions": "T", "data.folds": "3"},
        {"smiles": ["CCO", "CCN"], "T": [300, 301.5], "own": ["NA", "b"]},
    ),
    "texts": (texts, SMALL, {"text": ["Loved it.", "Hated it."]}),
    "tags": (tags, SMALL, {"text": ["Dogs sleep ."]}),
    "pairs": (pairs, {"model.width": "8"}, {"source": ["number 3", "number 7"]}),
    "nodes": (nodes, {}, {"id": ["n3", "n4"]}),
    "links": (links, {}, {"from": [3, 4]}),
    "interactions": (interactions, {}, {"user": ["u3", "u4"]}),
    "series": (
        series,
        {"data.history": "12"},
        {
            "day": pd.date_range("2021-01-01", periods=24, freq="MS"),
            "sales": [i % 12 + 0.5 for i in range(24)],
        },
    ),
}
FORMS: dict[str, Callable[[Any, Path], Any]] = {
    "csv": lambda frame, path: (
        frame.to_csv(path.with_suffix(".csv"), index=False) or str(path.with_suffix(".csv"))
    ),
    "parquet": lambda frame, path: (
        frame.to_parquet(path.with_suffix(".parquet")) or str(path.with_suffix(".parquet"))
    ),
    "frame": lambda frame, _path: frame,
}


def trained(kind: str, form: str, folder: Path) -> edgewise.app.runs.Run:
    make, values, _ = KINDS[kind]
    folder = folder / form
    folder.mkdir()
    given = {
        name: FORMS[form](frame, folder / name.removeprefix("data."))
        for name, frame in make().items()
    }
    recipe = runs.with_values(find(kind), {**given, **values, **ONE_EPOCH})
    runs.train(recipe, folder / "run")
    return edgewise.load(folder / "run")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of tiny data
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_table_gives_the_same_weights_and_answers(
    kind: str, tmp_path: Path
) -> None:
    asked = pd.DataFrame(KINDS[kind][2])
    weights, answers = [], []
    for form, write in FORMS.items():
        run = trained(kind, form, tmp_path)
        weights.append(run.model.state_dict())
        source = write(asked, tmp_path / form / "asked")
        found = run.predict(Path(source) if isinstance(source, str) else source)
        if isinstance(source, str):
            rows = [row for answer in found for row in edgewise.app.predict.rows.flat(answer)]
            found = pd.DataFrame(rows)
        assert "error" not in found, found["error"].tolist()
        numbers = [name for name in found if name not in (*asked, "input")]
        answers.append(found[numbers].to_numpy().tolist())
    assert answers[0]
    assert answers[0] == answers[1] == answers[2]
    for other in weights[1:]:
        assert other.keys() == weights[0].keys()
        for name, weight in weights[0].items():
            assert torch.equal(weight, other[name]), name


@pytest.mark.filterwarnings("ignore")
def test_a_run_resumes_with_the_frame_that_it_was_trained_on(tmp_path: Path) -> None:
    frames = links()
    recipe = runs.with_values(find("links"), {**frames, **ONE_EPOCH})
    metrics = runs.train(recipe, tmp_path / "run")
    again = runs.with_values(find("links"), {**links(), **ONE_EPOCH})
    assert runs.train(again, tmp_path / "run", resume=True) == metrics
    changed = frames["data.path"].copy()
    changed.iloc[-1, 1] = 39
    other = runs.with_values(again, {"data.path": changed})
    with refused("--resume", expected="fields", got="data.path", remedy="--out"):
        runs.train(other, tmp_path / "run", resume=True)
    recorded = edgewise.load(tmp_path / "run").recipe
    assert "80 rows and 2 columns, sha256" in recorded.data.path
    with pytest.raises(ArgumentError, match="pass the frame that the run was trained on"):
        recorded.data.load()


@pytest.mark.filterwarnings("ignore")
def test_a_frame_of_answers_keeps_the_columns_and_the_index(tmp_path: Path) -> None:
    run = trained("texts", "csv", tmp_path)
    asked = pd.DataFrame({"text": ["Loved it.", " "], "label": [7, 8]}, index=["a", "b"])
    found = run.predict(asked)
    assert list(found.index) == ["a", "b"]
    assert found["label"].tolist() == [7, 8]
    assert found["predicted_label"].tolist()[0] in ("0", "1")
    assert "a sentence" in found["error"]["b"]
    several = run.predict(asked.iloc[:1], top=2)
    assert list(several.index) == ["a", "a"]
    assert several["rank"].tolist() == [1, 2]


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_frames_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"from": [2**53 + 1, 2, None], "to": [4, 5, 6], "name": ["a", None, "NA"]}
    other = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    source = edgewise.app.kinds.links.EdgeList(path=other).path
    assert source.frame.to_dict("list") == {
        "from": ["9007199254740993", "2", ""],
        "to": ["4", "5", "6"],
        "name": ["a", "", "NA"],
    }
    same = pd.DataFrame(columns, dtype=object)
    assert edgewise.app.kinds.links.EdgeList(path=same).path == source
