"""Run folders that someone else has sent: what is damaged or hostile in them is a named error."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise._utils.errors import ArgumentError, EdgewiseError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import load_recipe, per_example_metrics, with_values
from edgewise.app.runs.fine_tuning import _check_heads, _check_positions, _other_model
from edgewise.app.train import RunFolder
from edgewise.app.train.folder import RUN_FILES
from edgewise.graphs.user_patterns import IMPORT
from edgewise.layers import MultiHeadAttention

pytest.importorskip("lightning")
pytest.importorskip("sklearn")

from tests.fuzz.strangers import RECEIVED, TINY, untrained


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("untouched") / "run"
    untrained(with_values(find("digits"), {**RECEIVED["digits"].fields, **TINY}), path)
    return path


@pytest.fixture
def run(untouched: Path, tmp_path: Path) -> Path:
    shutil.copytree(untouched, tmp_path / "run")
    return tmp_path / "run"


def change(path: Path, *keys: Any, value: Any) -> None:
    record = inner = json.loads(path.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(record))


def test_an_unchanged_run_predicts(run: Path) -> None:
    image = pytest.importorskip("PIL.Image").new("L", (8, 8))
    (answer,) = edgewise.load(run).predict(image)
    assert "error" not in answer, answer


@pytest.mark.parametrize(
    "graph", ["safetensors:x()", "nobodys_patterns:Strided(2)", "edgewise.graphs:complete()"]
)
@pytest.mark.parametrize("words", [["predict", "run", "x.png"], ["test", "run"]])
def test_no_file_beside_a_run_folder_runs(
    graph: str,
    words: list[str],
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a fresh process, ``safetensors`` is imported after the recipe has been read."""
    monkeypatch.chdir(run.parent)
    monkeypatch.setenv(IMPORT, "")
    before = list(sys.path)
    for name in ("safetensors", "nobodys_patterns"):
        Path(f"{name}.py").write_text(f"open('ran-{name}', 'w')")
    change(run / "recipe.json", "model", "graph", value=graph)
    code = main(words)
    assert code == 2 or not graph.startswith(("safe", "nobody")), capsys.readouterr()
    assert not list(Path().glob("ran-*"))
    assert sys.path == before


PLACES = ("recipe.json", "preprocessing.json", "model.safetensors", "metrics.json")


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", ["link", "loop", "fifo", "folder"])
def test_files_of_a_run_are_regular_files_inside_it(name: str, kind: str, run: Path) -> None:
    path, outside = run / name, run.parent / name
    shutil.move(path, outside)
    {
        "link": lambda: path.symlink_to(outside),
        "loop": lambda: path.symlink_to(path),
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()
    with pytest.raises(ArgumentError, match=r"a regular file"):
        _ = edgewise.load(run).metrics


def test_links_inside_a_run_folder_and_to_it_are_followed(run: Path) -> None:
    (run / "metrics.json").rename(run / "other.json")
    (run / "metrics.json").symlink_to("other.json")
    (run.parent / "link").symlink_to(run)
    assert edgewise.load(run.parent / "link").metrics["val/loss"] == 1.0


@pytest.mark.parametrize("target", [".", "..", "../run"])
def test_a_run_folder_does_not_contain_itself(target: str, run: Path) -> None:
    (run / "seed-0").symlink_to(target)
    (run.parent / "recipe.json").write_text((run / "recipe.json").read_text())
    with pytest.raises(ArgumentError, match="got a link"):
        edgewise.load(run)
    with pytest.raises(ArgumentError, match="got a link"):
        edgewise.app.runs.evaluate_run(run)


def test_a_notebook_shows_no_other_file(run: Path) -> None:
    loaded = edgewise.load(run)
    assert "data:image/png" in loaded._repr_html_()
    secret = run.parent / "secret"
    secret.write_bytes((run / "curves.png").read_bytes() + b"secret")
    contents: dict[str, Callable[[], Any]] = {
        "link": lambda: (run / "curves.png").symlink_to(secret),
        "no picture": lambda: (run / "curves.png").write_bytes(b"secret"),
        "fifo": lambda: os.mkfifo(run / "curves.png"),
    }
    for name, write in contents.items():
        (run / "curves.png").unlink()
        write()
        shown = loaded._repr_html_()
        assert "data:image/png" not in shown, name
        assert base64.b64encode(b"secret").decode() not in shown, name


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("tokenizers")
    received = RECEIVED["texts"]
    for name, text in received.tables.items():
        (tmp_path / name).write_text(text)
    fields = {n: v.replace("FOLDER/", "") for n, v in received.fields.items()}
    monkeypatch.chdir(tmp_path)
    untrained(with_values(find("texts"), {**fields, **TINY}), tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "content",
    [
        "SECRET:x:0:0\nroot\n",
        "SECRET,b\n1,2\n",
        "text,label\nSECRET\n",
        "text,label,split\na,b,SECRET\n",
    ],
)
def test_the_data_file_of_a_recipe_is_not_shown(
    content: str, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = texts.parent / "outside.csv"
    secret.write_text(content)
    change(texts / "recipe.json", "data", "path", value=str(secret))
    assert main(["test", "run"]) == 2
    printed = capsys.readouterr()
    assert "SECRET" not in printed.out + printed.err
    assert str(secret) in printed.err
    assert "edgewise baseline texts --data.path FILE" in printed.err
    with pytest.raises(ArgumentError) as caught:
        _ = edgewise.load(texts).splits
    error: BaseException | None = caught.value
    while error is not None:  # What a traceback shows
        assert "SECRET" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert main(["baseline", "texts", "--data.path", str(secret)]) == 2
    assert "outside.csv" in capsys.readouterr().err, "the file that the user has named"


NAME = "texts; touch ran #"


def test_the_name_of_a_recipe_is_quoted_in_a_command(
    texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(texts / "recipe.json", "recipe", value=NAME)
    (texts.parent / "texts.csv").write_text("text,label\nSECRET\n")
    assert main(["test", "run"]) == 2
    assert f"edgewise baseline '{NAME}' --data.path FILE" in capsys.readouterr().err
    (texts / "model.safetensors").unlink()
    assert main(["predict", "run", "x"]) == 2
    assert f"edgewise train '{NAME}' ..." in capsys.readouterr().err
    for seed in ("seed-0;touch ran", "seed-1"):
        shutil.copytree(texts, texts / seed)
    assert main(["heads", "run"]) == 2
    with pytest.raises(EdgewiseError, match=re.escape(f"edgewise test '{texts}/seed-0;touch ran'")):
        per_example_metrics(texts / "seed-0;touch ran")


def test_the_values_of_a_recipe_are_quoted_in_a_remedy(tmp_path: Path) -> None:
    folder, model = RunFolder(tmp_path), torch.nn.Sequential(MultiHeadAttention(8, 2))
    record = {name: f"{name}; touch ran" for name in ("use", "heads", "positions")}
    folder.write_json("recipe.json", {"recipe": NAME, "model": record})
    recipe = find("texts")
    assert _other_model(recipe, folder, []).remedy == "choose --model 'use; touch ran'"
    for check, value in ((_check_positions, recipe), (_check_heads, model)):
        with pytest.raises(ArgumentError) as caught:
            check(value, folder)
        assert re.search(r"choose --model\.(\w+) '\1; touch ran'", caught.value.remedy)


def test_an_honest_user_is_told_which_file_and_line(
    texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = texts.parent / "texts.csv"
    path.write_text(path.read_text() + "too,many,cells\n")
    assert main(["test", "run"]) == 2
    assert "'texts.csv', in row 62" in capsys.readouterr().err
    path.unlink()
    assert main(["test", "run"]) == 2
    assert "texts.csv: no such file" in capsys.readouterr().err


WRONG = (
    (("model_arguments", "out_width"), "10"),
    (("model_arguments", "out_width"), 10.5),
    (("model_arguments", "out_width"), -1),
    (("model_arguments",), []),
    (("target_scale",), 3),
    (("target_scale",), ["a", "b"]),
    (("target_scale",), [float("nan"), 1.0]),
    (("values",), 7),
    (("values", "labels"), 7),
    (("values", "labels"), [7]),
    (("values", "targets"), [{"name": 3, "classes": [], "counts": []}]),
    (("values", "targets"), "x"),
    (("tensors",), ["x"]),
    (("train_examples",), "many"),
    (("values", "labels"), ["0", "1"]),
)


@pytest.mark.parametrize(("keys", "value"), WRONG)
def test_wrong_types_in_preprocessing(keys: tuple[str, ...], value: Any, run: Path) -> None:
    change(run / "preprocessing.json", *keys, value=value)
    with pytest.raises(EdgewiseError, match=r"preprocessing\.(json|safetensors)"):
        edgewise.load(run)


def test_files_that_do_not_fit_together_are_named_when_predicting(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image").new("L", (8, 8))
    loaded = edgewise.load(run)
    loaded.predictor.preprocessing.values["labels"] = ["only one"]
    with pytest.raises(ArgumentError, match="files belong together; got IndexError"):
        loaded.predict([image] * 20)
    monkeypatch.setenv("EDGEWISE_TRACEBACK", "1")
    with pytest.raises(IndexError):
        loaded.predict([image] * 20)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("recipe",), ["a"]),
        (("summary",), 3),
        (("data", "use"), ["a"]),
        (("model",), 3),
        (("model", "use"), {}),
        (("model", "graph"), "window(1)" + " | window(1)" * 5000),
        (("model", "graph"), f"hubs([{2**80}])"),
        (("model", "graph"), 3),
        (("trainer",), None),
        (("seed",), "x"),
    ],
)
def test_wrong_types_in_a_recipe(keys: tuple[str, ...], value: Any, run: Path) -> None:
    change(run / "recipe.json", *keys, value=value)
    with pytest.raises(ArgumentError):
        load_recipe(RunFolder(run))


def test_texts_of_a_recipe_are_texts() -> None:
    with pytest.raises(ArgumentError, match=r"data\.sources"):
        with_values(find("bert-wikitext"), {"data.sources": [1, None]})


def test_a_deeply_nested_file(run: Path) -> None:
    (run / "recipe.json").write_text("[" * 100_000)
    with pytest.raises(ArgumentError, match=r"recipe\.json"):
        edgewise.load(run)


@pytest.mark.parametrize(
    ("changed", "got"),
    [
        (lambda x: torch.full_like(x, torch.nan), "NaN"),
        (lambda x: torch.where(torch.arange(x.numel()).view_as(x) == 0, torch.nan, x), "NaN"),
        (lambda x: x.double(), "float64"),
        (lambda x: x.half(), "float16"),
        (lambda x: x.long(), "int64"),
    ],
)
def test_weights_that_are_nan_or_of_another_type(
    changed: Callable[[torch.Tensor], torch.Tensor], got: str, run: Path
) -> None:
    folder = RunFolder(run)
    weights = folder.read_tensors("model.safetensors")
    name = next(name for name, weight in weights.items() if weight.is_floating_point())
    folder.write_tensors("model.safetensors", {**weights, name: changed(weights[name])})
    with pytest.raises(ArgumentError, match=rf"float32 in {name}; got .*{got}"):
        edgewise.load(run)


@pytest.mark.parametrize("option", ["--out", "--draw"])
@pytest.mark.parametrize("name", sorted(RUN_FILES))
def test_results_replace_no_file_of_a_run(
    option: str, name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgewise.app.cli.saving import save_figure
    from edgewise.app.predict.rows import write_answers

    (run / name).touch()
    before = (run / name).read_bytes()
    write: Callable[..., Any] = {"--out": write_answers, "--draw": save_figure}[option]
    with pytest.raises(ArgumentError):
        write(run / name, [{"a": 1}])
    assert (run / name).read_bytes() == before
    if (option, name) == ("--out", "log.csv"):
        assert main(["predict", str(run), "x", "--out", str(run / name)]) == 2
        assert "not one of the files of a run" in capsys.readouterr().err
    write_answers(run / "answers.csv", [{"a": 1}])  # A new file in the folder is fine.


@pytest.mark.parametrize("kept", [{}, {"encoder": [0]}, {"no.such.layer": [0]}])
def test_removed_heads_do_not_lift_the_limit_on_weights(
    kept: dict[str, list[int]], run: Path
) -> None:
    change(run / "recipe.json", "model", "ffn_dim", value=1_000_000)
    (run / "kept_heads.json").write_text(json.dumps(kept))
    with pytest.raises(ArgumentError, match="weights of its file"):
        edgewise.load(run)


def test_weights_of_a_layer_with_removed_heads_count_for_all_heads(run: Path) -> None:
    folder = RunFolder(run)
    sizes = {
        name: weight.numel() for name, weight in folder.read_tensors("model.safetensors").items()
    }
    layer = next(name for name in sizes if "attention" in name).rpartition(".")[0]
    assert folder.count_weights() == sum(sizes.values())
    (run / "kept_heads.json").write_text(json.dumps({layer: [0]}))
    pruned = sum(size for name, size in sizes.items() if name.startswith(f"{layer}."))
    assert folder.count_weights() == sum(sizes.values()) + 127 * pruned


@pytest.mark.parametrize("kept", [7, {"a": 3}, []])
def test_a_damaged_list_of_heads(kept: Any, run: Path) -> None:
    (run / "kept_heads.json").write_text(json.dumps(kept))
    with pytest.raises(ArgumentError):
        edgewise.load(run)
