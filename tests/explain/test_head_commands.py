"""Commands on the heads of a run: their statistics, pruning, and suggested graphs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import explain, graphs, models
from edgewise.app import runs
from edgewise.app.cli import main
from edgewise.app.explain import Suggestion
from edgewise.app.explain.suggestion import LayerSuggestion
from edgewise.app.runs import fields_of
from edgewise.app.train.folder import TEST_EXAMPLES
from edgewise.explain.losses import Losses, losses_of
from edgewise.explain.page import _Page
from tests.explain import small_runs

OTHERS = ["distance", "own", "first", "hubs"]
RunOf = Callable[[str], edgewise.app.runs.Run]
Captured = pytest.CaptureFixture[str]
LAYER = "trunk.backbone.stack.layers.0.attention.sublayer"


def test_heads_are_listed_with_the_numbers_that_python_computes(
    run_of: RunOf, capsys: Captured, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    run, figure = run_of("sentences"), tmp_path / "heads.png"
    assert main(["heads", str(run.path), "--batches", "2", "--draw", str(figure)]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = lines[0].split()
    assert columns == ["layer", "head", "importance", "entropy", *OTHERS]
    rows = [line.removeprefix(f"{place // 4}: ").split() for place, line in enumerate(lines[2:10])]
    assert [int(row[1]) for row in rows] == [0, 1, 2, 3] * 2
    scores = explain.importance(run, max_batches=2)
    expected = torch.cat(list(scores.values())).tolist()
    assert [float(row[2]) for row in rows] == pytest.approx(expected, rel=0.01)
    losses = losses_of(run, max_batches=2)
    middle = losses.batches[len(losses.batches) // 2 :]
    recorded = explain.recorded_batch(run, middle, losses.loss)
    statistics = explain.statistics(recorded)
    expected = torch.cat([one.distance for one in statistics]).tolist()
    assert [float(row[4]) for row in rows] == pytest.approx(expected, rel=0.01)
    place = lines.index("three observations, in the same batch:")
    assert "of the weights are below" in lines[place + 1]
    assert figure.stat().st_size > 1000


def test_nodes_of_a_graph_have_no_distances(run_of: RunOf, capsys: Captured) -> None:
    assert main(["heads", str(run_of("nodes").path)]) == 0
    out = capsys.readouterr().out
    assert "distance" not in out
    assert "are below" not in out


@pytest.mark.slow
def test_a_pruned_folder_is_read_by_the_other_commands(
    run_of: RunOf, capsys: Captured, tmp_path: Path
) -> None:
    run, pruned = run_of("sentences"), tmp_path / "pruned"
    given = ["prune", str(run.path), "--fraction", "0.25", "--out", str(pruned)]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "val loss: " in out
    scores = explain.importance(run, max_batches=8)
    chosen = explain.least_important(scores, 0.25, explain.layers_with_heads(run), normalise=True)
    assert sum(map(len, chosen.values())) == 2
    expected = explain.prune(run, chosen).predict(["a big film"])
    assert edgewise.load(pruned).predict(["a big film"]) == expected
    assert not (pruned / TEST_EXAMPLES).exists(), "those of the run before"
    assert main(["test", str(pruned)]) == 0
    assert (pruned / TEST_EXAMPLES).is_file()
    assert main(["predict", str(pruned), "a big film", "--why", "1"]) == 0
    assert main(["explain", str(pruned), "a big film", "--out", str(tmp_path / "page.html")]) == 0
    assert main(given) == 2
    assert capsys.readouterr().err.endswith("Remedy: name another folder with --out.\n")
    by_name = ["--heads", f"{LAYER}:1,3", "--heads", "1:0", "--out", str(tmp_path / "chosen")]
    assert main(["prune", str(run.path), *by_name]) == 0
    left = explain.layers_with_heads(edgewise.load(tmp_path / "chosen"))
    assert list(left.values()) == [[0, 2], [1, 2, 3]]


@pytest.mark.slow
def test_heads_keep_their_numbers_in_every_command(
    run_of: RunOf, capsys: Captured, tmp_path: Path
) -> None:
    """A head that is listed or shown under a number is removed by this number."""
    once, twice = tmp_path / "once", tmp_path / "twice"
    run = run_of("sentences")
    assert main(["prune", str(run.path), "--heads", "0:0,2", "--out", str(once)]) == 0
    capsys.readouterr()
    assert main(["heads", str(once)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:8]]
    named = [(row[0], row[2]) for row in rows]
    assert named == [*(("0:", head) for head in "13"), *(("1:", head) for head in "0123")]
    pruned = edgewise.load(once)
    found = explain.explanation(pruned, "a big film")
    assert [layer.heads for layer in found.recorded] == [[1, 3], [0, 1, 2, 3]]
    whole = explain.explanation(run, "a big film").recorded[0]
    torch.testing.assert_close(found.recorded[0].head(3), whole.head(3))
    only = explain.explanation(pruned, "a big film", heads=[3]).recorded
    torch.testing.assert_close(only[0].weights, whole.weights[..., [3]])
    page = ["--out", str(tmp_path / "page.html")]
    assert main(["explain", str(once), "a big film", "--head", "0", *page]) == 2
    assert "1, 3; got 0" in capsys.readouterr().err
    assert main(["explain", str(once), "a big film", "--layer", "1", "--head", "0", *page]) == 0
    assert main(["explain", str(once), "a big film", "--layer", "2", *page]) == 2
    assert "from 0 to 1; got 2" in capsys.readouterr().err
    text = "a big film"
    with explain.masked_heads(pruned, {LAYER: [3]}):
        masked = pruned.predict(text)[0]["probability"]
    assert main(["prune", str(once), "--heads", "0:3", "--out", str(twice)]) == 0
    assert edgewise.load(twice).predict(text)[0]["probability"] == pytest.approx(masked, rel=1e-5)
    assert explain.layers_with_heads(edgewise.load(twice))[LAYER] == [1]


@pytest.mark.slow
def test_a_layer_has_one_number_in_every_command(capsys: Captured, tmp_path: Path) -> None:
    """The heads of convolutions cannot be removed, but their layers are counted."""
    pytest.importorskip("tokenizers")
    made, pruned = tmp_path / "made", tmp_path / "pruned"
    path = small_runs.translations(made, model=models.light_conv, kernels=(3, 5), depth=2)
    run = edgewise.load(path)
    found = explain.explanation(run, "the cat")
    cross = [layer for layer in found.recorded if "cross" in layer.module]
    numbers = [found.recorded.number(layer) for layer in cross]
    assert numbers == [3, 5]
    page = _Page(found, None)
    page.data()
    assert [layer.number for layer in page.layers] == [0, 1, 2, 3, 4, 5]
    only = explain.explanation(run, "the cat", layers=[cross[1].module]).recorded
    assert [only.number(layer) for layer in only] == [5]
    capsys.readouterr()
    assert main(["heads", str(path)]) == 0
    out = capsys.readouterr().out
    assert all(
        f"\n{number}: {layer.module} " in out for number, layer in zip(numbers, cross, strict=True)
    )
    assert "for example 3:0" in out
    assert "The heads of layers 0, 1, 2, 4 cannot be removed." in out
    assert main(["prune", str(path), "--heads", "5:0", "--out", str(pruned)]) == 0
    assert f"\n5: {cross[1].module} " in capsys.readouterr().out
    left = explain.layers_with_heads(edgewise.load(pruned))
    assert left == {cross[0].module: [0, 1], cross[1].module: [1]}
    assert main(["prune", str(path), "--heads", "0:0", "--out", str(tmp_path / "no")]) == 2
    assert cross[0].module in capsys.readouterr().err


@pytest.fixture
def no_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let computations that take long on large data fail."""
    monkeypatch.setattr(Losses, "mean", lambda _: pytest.fail("the loss was computed"))
    monkeypatch.setattr(explain, "importance", lambda *_, **__: pytest.fail("importance"))


@pytest.mark.slow
@pytest.mark.usefixtures("no_losses")
def test_heads_of_a_model_without_heads_are_refused_first(
    run_of: RunOf, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(run_of("without attention").path)
    monkeypatch.setattr(edgewise.app.runs.Run, "splits", property(lambda _: pytest.fail("data")))
    assert main(["prune", path, "--fraction", "0.2", "--out", str(tmp_path / "pruned")]) == 2
    assert "a run whose model has heads that can be removed" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["heads", "influence", "predict"])
def test_a_figure_that_cannot_be_written_is_refused_first(
    command: str, capsys: Captured, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    assert main([command, "no-run", "--draw", str(tmp_path / "figure.txt")]) == 2
    assert "write figure.png" in capsys.readouterr().err


@pytest.mark.usefixtures("no_losses")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "either a fraction"),
        (["--fraction", "0.5", "--heads", "0:1"], "got both"),
        (["--fraction", "0.9"], "from 0 to 0.75"),
        (["--fraction", "1.5"], "a fraction from 0"),
        (["--heads", "0:9"], f"heads of {LAYER}: 0, 1, 2, 3; got 9"),
        (["--heads", "0"], "LAYER:HEAD,HEAD"),
        (["--heads", "elsewhere:0"], "got 'elsewhere'"),
        (["--heads", "7:0"], "from 0 to 1; got 7"),
        (["--fraction", "0.5", "--batches", "0"], "--batches"),
    ],
)
def test_bad_prunings_are_named_before_anything_is_computed(
    options: list[str],
    message: str,
    run_of: RunOf,
    capsys: Captured,
    tmp_path: Path,
) -> None:
    out = tmp_path / "pruned"
    assert main(["prune", str(run_of("sentences").path), *options, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_page_of_heads_that_do_not_exist_is_named(
    run_of: RunOf, capsys: Captured, tmp_path: Path
) -> None:
    run, page = str(run_of("sentences").path), ["--out", str(tmp_path / "page.html")]
    assert main(["explain", run, "a film", "--head", "9", *page]) == 2
    assert "0, 1, 2, 3; got 9" in capsys.readouterr().err
    assert main(["explain", run, "a film", "--layer", "nowhere", *page]) == 2
    assert "got 'nowhere'" in capsys.readouterr().err


def test_a_graph_is_suggested_with_its_loss(
    run_of: RunOf, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["suggest", str(run_of("sentences").path), "--coverage", "0.5"]) == 0
    out = capsys.readouterr().out
    assert LAYER in out
    assert "full attention" in out
    # The recipe of this run exists only in Python.
    line = out.splitlines()[-1]
    assert "edgewise.app.runs.with_values(run.recipe, {'model.graph': 'window(" in line
    trained: list[tuple[Any, Path]] = []
    monkeypatch.setattr(runs, "train", lambda *arguments: trained.append(arguments))
    exec(line, {})
    ((recipe, path),) = trained
    assert path == run_of("sentences").path.with_name("run-sparse")
    assert "window" in repr(fields_of(recipe)["model.graph"].value)
    assert main(["suggest", str(run_of("sentences").path), "--coverage", "2"]) == 2


@pytest.mark.parametrize(
    ("saved", "is_gained"), [((0.5, 0.5), True), ((0.5, 0.95), False), ((0.95, 0.5), False)]
)
def test_a_suggestion_that_saves_nothing_says_so(
    saved: tuple[float, float],
    is_gained: bool,
    run_of: RunOf,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges, seconds = saved
    layers = {LAYER: LayerSuggestion(graphs.window(2), 0.9, edges)}
    found = Suggestion(layers, 1.0, 1.0, seconds, 1.0)
    monkeypatch.setattr("edgewise.app.cli.heads.suggest_graphs", lambda *_, **__: found)
    assert main(["suggest", str(run_of("sentences").path)]) == 0
    assert ("nothing is gained" in capsys.readouterr().out) != is_gained


@pytest.mark.slow
def test_the_suggested_command_runs_as_it_is(capsys: Captured, tmp_path: Path) -> None:
    for package in ("lightning", "tokenizers"):
        pytest.importorskip(package)
    folder = tmp_path / "my runs"
    folder.mkdir()
    run = small_runs.tags(folder)
    (folder / "run-sparse").mkdir()
    capsys.readouterr()
    assert main(["suggest", str(run), "--coverage", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "to train with the widest of these graphs in all layers:"
    assert main(shlex.split(lines[-1])[1:]) == 0
    own = fields_of(edgewise.load(run).recipe)
    trained = fields_of(edgewise.load(folder / "run-sparse-2").recipe)
    changed = {name for name, field in trained.items() if field.value != own[name].value}
    assert changed == {"model.graph"}
    assert repr(trained["model.graph"].value).startswith("(window(4) & window(")


def test_a_model_without_a_field_for_its_graph_is_named(
    run_of: RunOf, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Suggestion, "fields", lambda *_: {})
    assert main(["suggest", str(run_of("sentences").path)]) == 0
    assert "bert has no field for a graph" in capsys.readouterr().out


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("kind", ["nodes", "molecules", "without attention"])
def test_no_window_is_suggested_without_an_order(
    kind: str, run_of: RunOf, capsys: Captured
) -> None:
    run = str(run_of(kind).path)
    capsys.readouterr()
    assert main(["suggest", run]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("edgewise: `run`: expected a run ")
    expected = "a run of small: TextClassifier" if kind == "without attention" else "have no order"
    assert expected in error
    assert "attn_implementation" not in error
    if kind == "without attention":
        assert main(["heads", run]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("edgewise: `run`: expected a run whose model")


def test_heads_of_pruned_layers_keep_their_numbers() -> None:
    scores = {"a": torch.ones(1), "b": torch.tensor([2.0, 1.0, 3.0]), "c": torch.ones(2)}
    chosen = explain.least_important(scores, 0.5, {"a": [1], "b": [0, 5, 7]})
    assert chosen == {"b": [0, 5]}
