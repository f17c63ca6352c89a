"""What the benchmarks time still runs, on small problems."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

import edgewise
from benchmarks import (
    deletion,
    few_labels,
    few_molecules,
    long_texts,
    naive_bayes,
    pages,
    paired,
    pretrained_texts,
    pruning,
    sparse_attention,
    tiles,
    two_machines,
)
from benchmarks.cpu.problems import PROBLEMS, Problem, build
from edgewise import explain
from edgewise.app.cli.baseline import measure
from edgewise.app.kinds import find
from edgewise.app.kinds.texts import TextTable
from edgewise.app.runs import pretrained, train_folds, with_values
from edgewise.app.train import RunFolder
from tests.errors import refused
from tests.explain import small_runs
from tests.places import needs

COMMANDS = [
    pytest.param(["gpt", "--rounds", "2", "--steps", "1"], marks=needs("tinyshakespeare")),
    ["decoding", "--rounds", "1", "--tokens", "8", "--batch", "1"],
    ["drop_ins", "--nodes", "500", "--edges", "3000", "--rounds", "2"],
    ["drop_ins", "--nodes", "50", "--edges", "300", "--rounds", "2", "--edge-features", "3"],
    ["graph_transformers", "--molecules", "4", "--rounds", "2", "--parts", "gps"],
    pytest.param(["encodings", "--molecules", "20"], marks=needs("ZINC_jtvae12k")),
    ["reading", "--edges", "2000", "--rounds", "1"],
    pytest.param(
        ["planted", "--data", "decoys", "words", "--cases", "2", "--seeds", "1", "--epochs", "50"],
        # PGExplainer of PyTorch Geometric returns float(loss).
        marks=pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad"),
    ),
    ["graph_transformers", "--peak", "bias", "padded", "4"],
    ["graph_transformers", "--peak", "exphormer", "100", "4", "8"],
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_commands(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_module(f"benchmarks.{command[0]}", run_name="__main__")


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_problems_of_edges_agree_with_their_peers(problem: Problem) -> None:
    peers = tuple(peer for peer in problem.peers if peer != "compiled")
    built = build(replace(problem, nodes=60, peers=peers))
    built.prepare()
    ours, *others = (run() for run in built.runs.values())
    for other in others:
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_ways_of_the_picture_of_long_texts(tmp_path) -> None:
    nodes = [torch.randn(700, long_texts.HEADS, long_texts.WIDTH) for _ in range(3)]
    written, fused, longformer, bigbird = (run(*nodes) for run in long_texts.RUNS.values())
    torch.testing.assert_close(written, fused, rtol=1e-4, atol=1e-5)
    for sparse in (longformer, bigbird):
        torch.testing.assert_close(sparse[0], written[0], rtol=1e-4, atol=1e-5)  # which reads all
        assert not torch.allclose(sparse[500], written[500], rtol=1e-2, atol=1e-2)
    spent, added = long_texts.measure(next(iter(long_texts.RUNS.values())), 600)
    assert spent > 0
    assert 0 <= added < 0.5, "what was freed before is taken again"
    points = [(512, spent, added), (1024, 2 * spent, 2 * added)]
    long_texts.draw(dict.fromkeys(long_texts.RUNS, points), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_problems_of_runs_agree_with_their_peers() -> None:
    for problem in islice(tiles.problems(), 4):
        tiles.check(problem, [torch.randn(problem.shape, requires_grad=True) for _ in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("word", ["Longformer, a hub", "BigBird, random", "Reformer", "SDPA"])
def test_sparse_attention_agrees_with_its_peers(word: str) -> None:
    """The first of each; FlexAttention is compiled, which takes longer than all of these."""
    pytest.importorskip("transformers")
    name = next(name for name in sparse_attention.PAIRS if word in name)
    sparse_attention.check(name, sparse_attention.PAIRS[name](1024))


def test_sparse_attention_that_differs_is_not_timed() -> None:
    name = "window, beside a masked SDPA"
    pair = sparse_attention.PAIRS[name](512)
    wrong = replace(pair, theirs=lambda *qkv: 1.001 * pair.theirs(*qkv))
    with pytest.raises(SystemExit, match=r"differ by 1\.0e-03"):
        sparse_attention.check(name, wrong)


@pytest.mark.slow
def test_the_memory_and_times_of_sparse_attention() -> None:
    name = "window, beside a masked SDPA"
    states = 4096 * 768 * 4
    assert sparse_attention.peak(name, "ours", 4096) > 4 * states, "an output, three gradients"
    found = sparse_attention.times(sparse_attention.PAIRS[name](512), ["ours", "theirs"], 2)
    assert {key: len(spent) for key, spent in found.items()} == {
        (step, side): 2 for step in ("forward", "both") for side in ("ours", "theirs")
    }


def test_deleted_words_and_atoms_are_not_in_the_input(tmp_path: Path) -> None:
    for package in ("lightning", "tokenizers", "scipy", "rdkit"):
        pytest.importorskip(package)
    assert deletion.molecules_without("CCO") == {0: "CO", 2: "CC"}, "one molecule remains"
    rings = deletion.molecules_without("C1CC1")
    assert rings == dict.fromkeys(range(3), "CC") | dict.fromkeys([(0, 1), (1, 2), (0, 2)], "CCC")
    run = edgewise.load(small_runs.sentences(tmp_path / "run"))
    ((case, by_deletion),) = deletion.effects(run.predictor, "a big film")
    deleted = by_deletion["deleted"]
    assert [*deleted] == [0, 1, 2]
    effects = torch.tensor([*deleted.values()])
    (answer,), rest = run.predict(["a big film"]), run.predict(["big film", "a film", "a big"])
    before = torch.tensor(answer["probability"]).logit()
    chances = [
        row["probability"] if row["label"] == answer["label"] else 1 - row["probability"]
        for row in rest
    ]
    expected = before - torch.tensor(chances).logit()
    torch.testing.assert_close(effects, expected, atol=1e-4, rtol=1e-3)
    assert deletion.comparison(effects, effects) == pytest.approx((1.0, 1.0, 1.0, 1.0))
    rank, signs, first, of_three = deletion.comparison(-effects, effects)
    assert (rank, signs, first, of_three) == pytest.approx((-1.0, 0.0, 1.0, 1.0))
    reason, rank = deletion.judged(case, deleted)
    assert reason == "big"
    assert rank == deletion.rank_of(effects, 1)


@pytest.mark.slow
def test_scores_without_heads_are_measured_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("lightning", "tokenizers", "sacrebleu", "matplotlib"):
        pytest.importorskip(package)
    for name, make in (("sst2", small_runs.sentences), ("multi30k", small_runs.translations)):
        recipe = edgewise.load(make(tmp_path / name)).recipe
        recipe = replace(recipe, trainer=replace(recipe.trainer, epochs=1))
        small = replace(pruning.STUDIES[name], recipe=recipe, draws=2, stride=1, tests=("test",))
        monkeypatch.setitem(pruning.STUDIES, name, small)
    monkeypatch.setattr(pruning, "FRACTIONS", [0.0, 0.5])
    monkeypatch.setattr(pruning, "ROUNDS", 1)
    folder, picture = tmp_path / "runs", tmp_path / "picture.png"
    command = ["pruning", "sst2", "multi30k", "--folder", str(folder), "--draw", str(picture)]
    monkeypatch.setattr(
        sys, "argv", [*command, "--seeds", "0", "1", "--fine-tune", "--patterns", "--bootstrap"]
    )
    pruning.main()
    out = capsys.readouterr().out
    tables = [line for line in out.splitlines() if line.startswith("|")]
    assert [line.count("|") for line in tables] == [6] * 4 + [9] * 4
    assert "encoder, gradient: 2 of 8 heads: change" in out
    assert "encoder, gradient: 1 of 2 heads: change" in out
    assert "multi30k-1, beam 5, 8 sentences: " in out
    assert "equal weight" in out
    assert "edges kept" in out
    assert picture.stat().st_size > 10_000
    measured = pruning.Measured(pruning.STUDIES["sst2"], folder / "sst2-1", 1)
    assert measured.score("encoder", "gradient", 0.0) == pytest.approx(
        100 * measured.run.metrics["test/accuracy"], abs=1e-3
    )
    removed = measured.removed("encoder", "gradient", 0.5)
    with explain.masked_heads(measured.run.model, removed):
        masked = pruning.accuracy(measured.run.model, measured.run.recipe.task, measured.tests[0])
    assert measured.score("encoder", "gradient", 0.5) == pytest.approx(masked)
    for name in ("accuracy", "translations"):
        monkeypatch.setattr(pruning, name, lambda *_: pytest.fail("measured again"))
    pruning.main()
    again = capsys.readouterr().out
    assert tables == [line for line in again.splitlines() if line.startswith("|")]


@pytest.mark.slow
def test_pages_are_measured_in_a_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page whose scripts are read from the folder, and one that does not open, stand in a row."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not any(map(shutil.which, pages.BROWSERS)):
        pytest.skip("Chromium is not installed: apt-get install chromium")
    for name, value in {"ROUNDS": 1, "SECONDS": 0.2, "LAYERS": 2, "HEADS": 2}.items():
        monkeypatch.setattr(pages, name, value)
    monkeypatch.setattr(pages.importlib.util, "find_spec", lambda _: True)
    for name in pages.SCRIPTS.values():
        (tmp_path / name).write_text("document.getElementById('vis').innerHTML = '<svg><text>a'")

    def theirs(view: str, name: str, *given: object) -> pages.Page:
        path = given[-1]
        assert isinstance(path, Path)
        if view == "head":
            path.write_text("<div id=vis></div><script src=https://a.test/d3.min.js></script>")
        return pages.Page(f"{view} of {name}", path, "#vis svg text", "#vis", 1.5, 7)

    monkeypatch.setattr(pages, "theirs", theirs)
    monkeypatch.setattr(sys, "argv", ["pages", "--tokens", "5", "--scripts", str(tmp_path)])
    pages.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    names = ["| Edgewise, 5", "| head of 5", "| model of 5", "| Edgewise, 16,384"]
    assert all(row[0].startswith(name) for row, name in zip(rows, names, strict=True))
    ours, head, model, window = rows
    assert 100_000 < int(ours[1].replace(",", "")) < int(window[1].replace(",", "")) < 1_000_000
    size = 7 + sum((tmp_path / name).stat().st_size for name in pages.SCRIPTS.values())
    assert head[1:3] == model[1:3] == [str(size), "1.50"]
    for row in (ours, head, window):
        assert float(row[3]) > 0
        assert float(row[4]) > 0
        assert int(row[5].removesuffix(" |")) > 0
    assert model[3].startswith("Error"), "the file is missing"


@pytest.mark.slow
def test_few_labels_are_measured_once_and_chosen_by_validation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("lightning", "tokenizers", "sklearn", "scipy"):
        pytest.importorskip(package)
    words = ("good fine great", "bad dull poor")
    rows = [f"a {words[i % 2].split()[i % 3]} film {i % 7}\t{i % 2}" for i in range(60)]
    (tmp_path / "table.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    (tmp_path / "lines.txt").write_text("\n".join(row.split("\t")[0] for row in rows))
    study = few_labels.STUDIES["text"]
    own = {"data.sources": "", "data.paths": str(tmp_path / "lines.txt")}
    own |= {"data.test_paths": str(tmp_path / "lines.txt"), "trainer.epochs": 1}
    table = TextTable(path=str(tmp_path / "table.tsv"))
    small = replace(
        study,
        pretraining=with_values(study.pretraining, own),
        tuning=with_values(replace(study.tuning, data=table), {"trainer.epochs": 2}),
        grid={"optimizer.lr": (1e-3, 1e-2)},
    )
    monkeypatch.setitem(few_labels.STUDIES, "text", small)
    command = ["few_labels", "text", "--counts", "12", "--seeds", "3", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    few_labels.main()
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("| 12 |"))
    assert row.count("±") == 5  # both starts, their difference, TF-IDF and PPMI
    monkeypatch.setattr(few_labels, "fine_tuned", lambda *_: pytest.fail("measured again"))
    few_labels.main()
    assert row in capsys.readouterr().out
    results = few_labels.Results(tmp_path / "text.json")
    found = few_labels.Measured(small, 12, [tmp_path / f"text-{i}" for i in range(3)], results)
    for rate, better in ((1e-3, 1.0), (1e-2, 2.0)):
        for seed in range(few_labels.CHOOSING):
            key = f"12 labels, scratch, optimizer.lr {rate:g}, seed {seed}"
            assert key in results
            results.values[key] = {"val": better}
    assert found.chosen("scratch") == {"optimizer.lr": 1e-2}


@pytest.mark.slow
@needs("SST2")
def test_pre_trained_texts_are_measured_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("lightning", "transformers", "tokenizers", "sklearn"):
        pytest.importorskip(package)
    from tests.app.runs.test_hugging_face import saved

    methods = ["tf-idf", "frozen", "tuned"]
    if importlib.util.find_spec("accelerate"):  # The Trainer of transformers needs it.
        methods.append("trainer")
    folder = str(saved(tmp_path / "theirs"))
    command = ["pretrained_texts", folder, "--sizes", "60", "--seeds", "2"]
    command += ["--json", str(tmp_path / "results.json"), "--methods", *methods]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setitem(pretrained.TRAINER, "min_steps", 2)
    pretrained_texts.main()
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("| 60 |"))
    assert row.count("±") == len(methods)
    monkeypatch.setattr(pretrained_texts, "measure", lambda *_: pytest.fail("measured again"))
    pretrained_texts.main()
    assert row in capsys.readouterr().out


def test_a_machine_that_fails_ends_the_other() -> None:
    sleep, fail = ("import time; time.sleep(60)", "raise SystemExit(3)")
    processes = [subprocess.Popen([sys.executable, "-c", code]) for code in (sleep, fail)]
    with pytest.raises(SystemExit, match=r"\[None, 3\]"):
        two_machines.wait_for(processes)
    assert all(process.poll() is not None for process in processes)


def test_naive_bayes_of_a_recipe_without_it() -> None:
    with refused("recipe", expected="naive_bayes", got="digits", remedy="sst2"):
        naive_bayes.measure("digits")


def test_the_paired_test_is_that_of_scipy() -> None:
    pytest.importorskip("scipy")
    mean, std, p = few_labels.paired([3.0, 5.0, 4.0], [1.0, 2.0, 3.0])
    assert (mean, std) == (2.0, 1.0)
    assert p == pytest.approx(0.0742, abs=1e-4)  # t = 2 √3, two degrees of freedom


@pytest.mark.slow
def test_few_labels_of_molecules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("rdkit", "lightning", "sklearn"):
        pytest.importorskip(package)
    smiles = ["C" * count + end for count in range(1, 11) for end in ("", "O", "N", "Cl")]
    rows = [f"{one},{len(one) + ('O' in one)}" for one in smiles]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,y", *rows]))
    values = {"data.path": str(tmp_path / "mine.csv"), "data.target": "y", "data.folds": 4}
    tuning = with_values(find("attentive-esol"), {**values, "data.val": 0.4, "model.width": 8})
    grid = {"optimizer.lr": (2e-3,), "trainer.epochs": (2,)}
    study = replace(few_molecules.STUDY, tuning=tuning, grid=grid)
    monkeypatch.setattr(few_molecules, "STUDY", study)
    monkeypatch.setattr(few_molecules, "unlabelled", lambda: smiles)
    monkeypatch.setattr(few_molecules, "HELD_OUT", 10)
    words = ["--counts", "12", "--seeds", "2", "--folder", str(tmp_path / "few")]
    monkeypatch.setattr("sys.argv", ["few_molecules", *words])
    few_molecules.main()
    head, _, row, _ = capsys.readouterr().out.splitlines()[-4:]
    names = ["labels", "scratch", "embeddings", "descriptors", "both"]
    assert [cell.strip() for cell in head.split("|")][1:6] == names
    scratch, _, descriptors = (float(cell.split()[0]) for cell in row.split("|")[2:5])
    assert descriptors < 1 < scratch, "the number of heavy atoms is a descriptor"
    log = RunFolder(tmp_path / "few" / "molecules-1").read_log()
    assert log[-1]["val/loss"] < log[0]["val/loss"]


@pytest.mark.slow
def test_molecules_are_compared_with_a_baseline_in_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit")
    smiles = ["C" * count + end for count in range(1, 8) for end in ("O", "N", "Cl")]
    rows = [f"{one},{len(one) + shift},{shift}" for one in smiles for shift in (0.0, 0.2)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,y,T", *rows]))
    values = {"data.path": str(tmp_path / "mine.csv"), "data.target": "y", "data.folds": 3}
    values |= {"data.conditions": "T", "data.descriptors": False, "trainer.epochs": 1}
    recipe = with_values(find("molecules"), {**values, "model.width": 8, "model.heads": 2})
    train_folds(recipe, tmp_path / "run", seeds=2)
    measure(recipe, tmp_path / "baseline", folds=True)
    run, baseline = (
        paired.per_example_metrics(tmp_path / name)["mae"] for name in ("run", "baseline")
    )
    known = json.loads((tmp_path / "run" / "metrics.json").read_text())["test/mae"]["values"]
    assert run.view(3, 14).mean(1).tolist() == pytest.approx(known, abs=1e-5)
    found = json.loads((tmp_path / "baseline" / "baseline.json").read_text())
    number = [one["name"] for one in found["baselines"]].index(found["best"])
    theirs = [fold[number]["metrics"]["test/mae"] for fold in found["folds"]]
    assert baseline.view(3, 14).mean(1).tolist() == pytest.approx(theirs, abs=1e-5)
    tested = paired.tested_entries(tmp_path / "run", "smiles")
    assert sorted(tested) == sorted(2 * smiles)
    folders = [str(tmp_path / "run"), str(tmp_path / "baseline")]
    monkeypatch.setattr("sys.argv", ["paired", *folders, "--by", "smiles"])
    paired.main()
    assert ", 21 smiles\n" in capsys.readouterr().out
