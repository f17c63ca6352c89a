"""The command line: what is said, what is left, and the exit codes."""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import resource
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from edgewise._utils.digits import rounded
from edgewise._utils.errors import MissingDataError
from edgewise.app.cli import doctor, main
from edgewise.app.kinds import DATA, RECIPES, TASKS
from edgewise.app.kinds.language.masked_text import Source, lines_of
from edgewise.app.runs import fields_of, to_record, with_values
from edgewise.encodings import ENCODINGS
from edgewise.graphs import PATTERNS
from edgewise.models import MODELS
from tests import forked
from tests.imports import run_code

TINY = [
    "--model.width=8",
    "--model.depth=1",
    "--model.heads=1",
    "--data.batch_size=500",
    "--trainer.epochs=2",
    "--trainer.accelerator=cpu",
]


def run(capsys, *argv) -> tuple[int, str, str]:
    code = main([str(word) for word in argv])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_list_names_everything(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    for name in (*RECIPES, *MODELS, *DATA, *TASKS, *PATTERNS, *ENCODINGS):
        assert re.search(rf"^  {name} +\S", out, re.MULTILINE), name
    assert not re.search(r"``|:\w+:`", out), "markup of docstrings"
    _, only, _ = run(capsys, "list", "models")
    assert set(re.findall(r"^  (\S+)", only, re.MULTILINE)) == set(MODELS)


@pytest.mark.parametrize("table", [RECIPES, MODELS, DATA, TASKS, PATTERNS, ENCODINGS])
def test_show_everything(table, capsys):
    for name in table:
        code, out, _ = run(capsys, "show", name)
        assert code == 0, name
        assert name in out
        if table is RECIPES:
            assert all(f"--{field} " in out for field in fields_of(RECIPES[name])), name


def test_what_is_missing_is_the_run(capsys):
    with pytest.raises(SystemExit):
        main(["predict"])
    assert capsys.readouterr().err.endswith("required: DIR\n")


def test_show_says_types_as_one_writes_them(capsys):
    _, out, _ = run(capsys, "show", "gat")
    assert "gat(in_width: int, out_width: int, *, head_width: int = 8," in out


def test_show_draws_a_graph(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = run(
        capsys, "show", "window(1)", "--draw", tmp_path / "picture.png", "--nodes", 4
    )
    assert code == 0
    assert "■ ■ · · " in out
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("graph", "reach"),
    [
        ("complete()", "after 1 layer, every node"),
        ("window(2)", "after 8 layers, every node"),
        ("window(2) | hubs([0])", "after 2 layers, every node"),
        ("causal()", "some nodes never receive information"),
        ("blocks(4)", "some nodes never receive information"),
    ],
)
def test_show_counts_the_layers_until_all_nodes_reach_each_other(
    graph: str, reach: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "show", graph)
    assert reach in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["show", "gatt"], "did you mean 'gat'"),
        (["show", "windw(3)"], "did you mean 'window'"),
        (["show", "gat", "--draw", "x.png"], "a graph with its arguments"),
        (["show", "grid(2, 2)", "--nodes", "5"], "4 nodes"),
        (["train", "digit"], "did you mean 'digits'"),
        (["train", "digits", "--model.head", "3"], "did you mean 'model.heads'"),
        (["train", "digits", "--model.heads"], "a value after --model.heads"),
        (["train", "gat-cora", "--model", "vit"], "a model for other inputs"),
        (["train", "gat-cora", "--model", "gatv2", "--model.window", "2"], "expected model."),
        (["train", "digits", "--model.heads=x"], "a whole number"),
        (["train", "digits", "--seed", "x"], "a whole number"),
        (["train", "digits", "--seeds", "0"], "at least 1"),
        (["train", "digits", "--seed", "1" + "0" * 23], "an integer from 0"),
        (["train", "digits", "--optimizer.beta2", "2"], "a number from 0"),
        (["train", "Digits", "--seeds", "0"], "expected digits or one of"),
        (["show", "window(2)", "--draw", "x.txt"], "choose for example x.png"),
        (["show", "window(2)", "--nodes", "-3"], "at least 1"),
        (["predict", "nowhere", "x"], "no such file"),
        (
            ["train", "digits", "--trainer.freeze_backbone_epochs", "1"],
            "a model with a separate head",
        ),
        (["train", "digits", "--resume"], "recipe.json: no such file"),
        (["list", "--model.heads", "3"], "options of this command"),
        (["test", "nowhere"], "no such file"),
        (["compare", "digits", "model.graf", "empty()"], "did you mean 'model.graph'"),
        (["compare", "digits", "seed", "1", "--seed", "2"], "other than the compared one"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(argv, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert out == ""
    assert err.startswith("edgewise: ")
    assert err.count("\n") == 1
    assert said in err
    assert "Remedy" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["", "list", "show", "train", "compare", "test", "doctor"])
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "example" in capsys.readouterr().out


def test_help_of_a_recipe_lists_its_fields(capsys):
    with pytest.raises(SystemExit):
        main(["train", "gat-cora", "--help"])
    out = capsys.readouterr().out
    assert all(f"--{field} " in out for field in fields_of(RECIPES["gat-cora"]))


def test_help_of_a_recipe_with_another_model_lists_its_fields(capsys):
    for words in (["--model", "lstm"], ["--model=lstm"]):
        with pytest.raises(SystemExit):
            main(["train", "sst2", *words, "--help"])
        out = capsys.readouterr().out
        assert "--model.bidirectional " in out
        assert "--model.ffn_dim " not in out


def test_help_of_predict_says_which_option_is_for_which_run(capsys):
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    lines = capsys.readouterr().out.split("whose runs accept them:\n")[1].splitlines()
    options = dict(zip(lines[1::2], lines[::2], strict=True))
    found = {name: o.split() for names, o in options.items() for name in names.split(", ")}
    found = {name.strip(): words for name, words in found.items()}
    assert found["pairs"] == ["--num-beams", "--max-new-tokens"]
    assert found["links"] == ["--top", "--evidence"]
    assert found["tags"] == ["none"]
    assert found["sketches"] == ["--top"]
    assert found.keys() == RECIPES.keys()  # a run of each answers


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("sst2", ["--top", "--input"], ["--temperature", "--num-beams", "--backtest"]),
        ("gpt-shakespeare", ["--temperature", "--seed"], ["--evidence", "--top VALUE"]),
        ("summarise-wikitext", ["--sentences"], ["--top"]),
        ("tags", ["--why"], ["--top", "options of"]),
    ],
)
def test_help_of_predict_lists_the_options_of_the_run(name, has, lacks, capsys, tmp_path):
    recipe = RECIPES[name]
    (tmp_path / "recipe.json").write_text(json.dumps(to_record(recipe)))
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(tmp_path), "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert all(option in out for option in has)
    assert not [option for option in lacks if option in out.split("example")[0]]


def test_help_groups_the_options(capsys):
    for command, groups in {
        "train": ["several trainings:", "run folder:", "changes to the recipe:"],
        "compare": ["several trainings:", "run folder:", "changes to the recipe:"],
        "predict": ["inputs and outputs:", "options that only some runs accept:"],
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert set(groups) <= set(lines)


def test_own_data_that_are_not_named_are_asked_for_in_the_same_words(capsys, tmp_path):
    fields = dict.fromkeys(
        [
            *("texts", "tags", "pairs", "images", "sounds", "molecules", "series", "links"),
            *("interactions", "tables"),
        ],
        "path",
    )
    for name, field in (fields | {"nodes": "nodes", "writing": "paths"}).items():
        code, _, err = run(capsys, "train", name, "--out", tmp_path / "run")
        assert code == 2
        assert f"`data.{field}`" in err
        assert re.search(rf"got none. Remedy: name .* with --data.{field}", err), err


@pytest.mark.parametrize("words", ["--version", "--help", "train --help", "list mod", "show"])
def test_what_only_the_parser_answers_imports_no_pytorch(words: str) -> None:
    code = f"""
import sys
from edgewise.app.cli import main
try:
    main({words.split()})
except SystemExit:
    heavy = {{"torch", "numpy", "edgewise.app.kinds"}} & set(sys.modules)
    assert not heavy, heavy
else:
    raise AssertionError("the parser did not end the command")
"""
    done = run_code(code)
    assert done.returncode == 0, done.stderr


def test_a_program_keeps_its_own_handler_of_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.app.train.process.keep_freed_memory", lambda: None)
    monkeypatch.setattr(sys, "argv", ["edgewise", "list", "graphs"])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    for handler in (lambda *_: None, signal.default_int_handler):
        original = signal.signal(signal.SIGINT, handler)
        try:
            assert main() == 0
            assert signal.getsignal(signal.SIGINT) is handler
        finally:
            signal.signal(signal.SIGINT, original)


@pytest.mark.parametrize("module", ["edgewise.app.cli.parser", "torch"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str) -> None:
    """Modules such as torch catch KeyboardInterrupt while they are imported."""
    code = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        try:
            if name == {module!r}:
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
sys.meta_path.insert(0, Interrupting())
sys.argv = ["edgewise", "list"]
from edgewise.app.cli import main
sys.exit(main())
"""
    done = run_code(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "edgewise: interrupted.\n")


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(
    "moment",
    [
        "runs.train_recipe.keep_preprocessing",
        "train.fitting.evaluate_with_examples",
        "cli.commands.comparison",
    ],
)
def test_ctrl_c_outside_of_the_epochs_says_how_to_go_on(moment, capsys, tmp_path, monkeypatch):
    pytest.importorskip("lightning")

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    words = ["train", "digits", *TINY, "--out", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr(f"edgewise.app.{moment}", interrupt)
        code, _, err = run(capsys, *words)
    assert code == 130
    assert err.endswith("edgewise: interrupted. To continue, repeat the command with --resume.\n")
    code, out, _ = run(capsys, *words, "--resume")
    assert code == 0
    assert "test/accuracy" in out


def test_train_and_test(capsys, tmp_path):
    pytest.importorskip("lightning")
    folder = tmp_path / "run"
    code, out, _ = run(capsys, "train", "digits", *TINY, "--seed", "5", "--out", folder)
    assert code == 0
    metrics = json.loads((folder / "metrics.json").read_text())
    assert rounded(metrics["test/accuracy"]) in out
    record = json.loads((folder / "recipe.json").read_text())
    assert (record["model"]["width"], record["seed"]) == (8, 5)
    code, out, _ = run(capsys, "test", folder)
    assert code == 0
    assert rounded(metrics["test/accuracy"]) in out
    code, _, err = run(capsys, "train", "digits", *TINY, "--out", folder)
    assert code == 2
    assert "--resume" in err


@pytest.mark.slow
def test_compare_writes_a_page_that_stands_alone(capsys, tmp_path):
    pytest.importorskip("lightning")
    pytest.importorskip("matplotlib")
    graphs = ["empty()", "grid(4, 4)", "complete()"]
    folder = tmp_path / "runs"
    code, out, _ = run(capsys, "compare", "digits", "model.graph", *graphs, *TINY, "--out", folder)
    assert code == 0
    rows = out.splitlines()
    assert rows[0].split("  ")[0] == "graph"
    assert [row.split("  ")[0] for row in rows[2:5]] == graphs
    assert [re.split(r" {2,}", row)[1] for row in rows[2:5]] == ["0.00", "3.00", "16.00"]
    page = (folder / "report.html").read_text()
    picture = (folder / "report.png").read_bytes()
    assert base64.b64encode(picture).decode() in page
    assert not re.search(r'(src|href)="(?!data:)', page), "it needs no other file"
    for graph, row in zip(graphs, rows[2:5], strict=True):
        accuracy = re.search(r"[\d.]+ %", row)
        assert accuracy
        assert f"<td>{graph}</td>" in page
        assert accuracy.group() in page


def test_compare_shows_validation_to_choose_by_and_test_when_asked(capsys, tmp_path):
    pytest.importorskip("lightning")
    pytest.importorskip("matplotlib")
    folder = tmp_path / "runs"
    words = ["compare", "digits", "optimizer.lr", "1e-9", "1e-2", *TINY, "--out", folder]
    code, out, _ = run(capsys, *words)
    assert code == 0
    table = out.splitlines()
    assert re.split(r" {2,}", table[0]) == ["lr", "val accuracy", "val loss", "seconds"]
    found = {
        value: json.loads((folder / value / "metrics.json").read_text())
        for value in ("1e-09", "0.01")
    }
    for row, metrics in zip(table[2:4], found.values(), strict=True):
        assert rounded(metrics["val/loss"]) in row
    assert found["0.01"]["val/loss"] < found["1e-09"]["val/loss"]
    assert "best by val/loss: 0.01" in table
    assert '<tr class="best"><td>0.01</td>' in (folder / "report.html").read_text()
    code, out, _ = run(capsys, *words, "--resume", "--test")
    assert code == 0
    assert "val" not in out.replace(str(folder), "")
    assert rounded(found["0.01"]["test/loss"]) in out.splitlines()[3]


@pytest.mark.parametrize("name", ["texts", "sst2", "gps-esol", "images", "nodes"])
def test_what_show_says_of_a_value_is_what_one_types(name, capsys):
    recipe = RECIPES[name]
    _, out, _ = run(capsys, "show", name)
    rows = [re.split(r" {2,}", line) for line in out.splitlines() if line.startswith("--")]
    typed = {row[0].strip("-"): row[1] for row in rows if len(row) == 3}
    assert len(typed) > 20
    assert not {"None", "True", "False"} & set(typed.values())
    assert fields_of(with_values(recipe, typed)) == fields_of(recipe)


def test_doctor(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path / "nowhere"))
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    for word in ("edgewise", "torch", "threads", "reference", "dense", "lightning", "Cora"):
        assert word in out
    assert "(no such folder)" in out
    for name in DATA.own:
        assert re.search(rf"^  {name} +\S", out, re.MULTILINE), name


def test_doctor_knows_every_package_of_every_extra_and_which_is_missing(capsys, monkeypatch):
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = {
        re.split(r"[<>=]", package)[0]: extra
        for extra in reversed(extras)  # The first extra with a package is the one to install.
        if extra not in ("all", "dev", "docs")
        for package in extras[extra]
        if not package.startswith("edgewise[")  # another extra
    }
    assert {package: extra for package, (extra, _) in doctor.EXTRAS.items()} == wanted
    monkeypatch.setattr(doctor.util, "find_spec", lambda _name: None)
    _, out, _ = run(capsys, "doctor")
    for package, extra in wanted.items():
        assert re.search(rf"^  {package} +missing +.*pip install .*\[{extra}\]", out, re.M), package


def test_doctor_knows_the_folder_of_every_published_data_set():
    """A class that loads a published set looks for its folder, or calls a function that does."""
    for name, kind in DATA.own.items():
        looks = re.search(
            r"\b(find_raw|find_files|(raw|ewt)?_texts|read_mnist|read_papers)\(",
            inspect.getsource(kind),
        )
        assert bool(looks) <= bool(kind.folders), name


def test_doctor_looks_for_all_that_hidden_words_are_learned_from(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    looked = set()
    for source in get_args(Source):
        with pytest.raises(MissingDataError) as missing:
            lines_of(source)
        looked |= set(re.findall(r"/([^/]+)/raw\b", str(missing.value)))
    assert looked == set(DATA["masked_text"].folders)


@pytest.mark.parametrize("limit", [100, 8000])  # of recipe.json, and of the first checkpoint
def test_a_full_disk_is_named_and_leaves_nothing(limit, capsys, tmp_path):
    pytest.importorskip("lightning")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    options = [*TINY, "--trainer.save_every=0", "--out", tmp_path / "run"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        code, out, err = run(capsys, "train", "digits", *options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (2, "")
    assert "cannot be written (File too large)" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/proc/x", "/dev/null", "file/run", "x" * 300])
def test_a_folder_that_cannot_be(name, capsys, tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    code, out, err = run(capsys, "train", "digits", *TINY, "--out", name)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"edgewise: .*Remedy: .*\n", err)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_printed(capsys, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["list"]) == 2
    assert re.fullmatch("edgewise: .*No space left.*Remedy: .*\n", capsys.readouterr().err)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["list"]) == 128 + signal.SIGPIPE
    assert capsys.readouterr().err == ""


def test_what_should_not_happen_asks_for_a_report(capsys, monkeypatch):
    def broken(*_arguments, **_options):
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("edgewise.app.cli.listing.table", broken)
    code, out, err = run(capsys, "list")
    assert (code, out) == (70, "")
    assert re.fullmatch(
        r"edgewise: .*ZeroDivisionError: one two.*Remedy: set .*=1, .*report the error.*\n", err
    )
    monkeypatch.setenv("EDGEWISE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["list"])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_says_how_to_go_on(number, code, tmp_path):
    pytest.importorskip("lightning")
    folder, said = tmp_path / "run", tmp_path / "said.txt"
    words = ["train", "digits", *TINY, "--trainer.epochs=10000", "--trainer.save_every=0"]
    process = forked.start(said, main, [*words, "--out", str(folder)])
    deadline = time.monotonic() + 100
    while not (folder / "checkpoint.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == code
    assert "--resume" in said.read_text()
    assert "Traceback" not in said.read_text()
    assert (folder / "checkpoint.ckpt").exists()
