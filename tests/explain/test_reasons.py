"""Runs explain their answers, in Python and on the command line."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")

import edgewise
from edgewise._utils.digits import rounded, saved
from edgewise.app.cli import main
from edgewise.app.explain.fidelities import FIDELITIES, METHODS
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import NodeCases
from edgewise.app.predict.cases import log_odds, word_members
from edgewise.app.runs import Run, train, with_values
from edgewise.app.train import RunFolder
from edgewise.explain import page_reasons
from edgewise.explain.attribution import Case, Contributions, contributions
from edgewise.explain.explanation import Explanation
from edgewise.explain.page_reasons import reasons_data
from edgewise.explain.reasons import attribution, reasons_of
from edgewise.explain.record import Recorded
from tests.explain import small_runs

FAST = {"trainer.accelerator": "cpu", "trainer.epochs": 3}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of node classification on a graph of 120 nodes."""
    folder = tmp_path_factory.mktemp("nodes")
    made = random.Random(0)
    rows = [f"p{i},{'law' if i % 2 else 'art'},{i % 2 + made.gauss(0, 1):.3f}" for i in range(120)]
    (folder / "nodes.csv").write_text("\n".join(["paper,topic,length", *rows]))
    pairs = [f"p{i},p{made.randrange(120)}" for i in range(120)]
    (folder / "edges.csv").write_text("\n".join(["citing,cited", *pairs]))
    values = {
        "data.nodes": str(folder / "nodes.csv"),
        "data.edges": str(folder / "edges.csv"),
        "data.target": "topic",
    }
    train(with_values(find("nodes"), FAST | values), folder / "run")
    return edgewise.load(folder / "run")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run of text classification."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("texts")
    made, words = random.Random(0), ["good", "bad", "film", "plot", "the", "a", "of", "music"]
    texts = [" ".join(made.choices(words, k=8)) for _ in range(80)]
    rows = [f"{text},{'yes' if text.count('good') > 1 else 'no'}" for text in texts]
    (folder / "mine.csv").write_text("\n".join(["text,label", *rows]))
    small = {"model.width": 16, "model.depth": 1, "model.heads": 2, "model.ffn_dim": 32}
    values = {"data.path": str(folder / "mine.csv"), **small, **FAST}
    train(with_values(find("texts"), values), folder / "run")
    return folder / "run"


def test_time_steps_add_up_to_a_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that a forecaster copies count as well: those of the last season."""
    folder = small_runs.series(tmp_path)
    run = edgewise.load(folder)
    values = [100.0 + i + 10 * (i % 6) for i in range(12)]
    forecast = run.predict([values])[0]["forecast"]
    explained = run.explain([values], top=100)
    assert [a.method for a in explained] == ["integrated_gradients"] * len(forecast)
    for row, steps in zip(forecast, explained, strict=True):
        total = sum(reason.contribution for reason in steps.reasons)
        assert total == pytest.approx(row["value"] - sum(values) / 12, rel=1e-3)
    # A removed step has the value of the mean.
    replaced = run.predict([[*values[:11], sum(values) / 12]])[0]["forecast"]
    for row, other, steps in zip(
        forecast, replaced, run.explain([values], top=100, method="removed"), strict=True
    ):
        last = next(r for r in steps.reasons if r.part == "0 steps before the end")
        assert last.contribution == pytest.approx(row["value"] - other["value"], rel=1e-3)
    at_the_end = edgewise.explain.explanation(run, None)  # as without an input on the command line
    series = run.predictor.training_series
    assert at_the_end.answer == edgewise.explain.explanation(run, series).answer
    capsys.readouterr()
    assert main(["predict", str(folder), "--why", "2"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:8]
    assert [row.count("before the end") for row in rows] == [2] * 6


def test_unknown_words_are_parts_of_a_text() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"<unk>": 0, "<cls>": 1, "good": 2}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.add_special_tokens(["<unk>", "<cls>"])
    member, labels = word_members(tokenizer, torch.tensor([1, 2, 0, 0]))
    assert member.tolist() == [-1, 0, 1, 2]
    assert labels == ["good", "<unk>", "<unk>"]


def test_the_parts_of_a_hybrid_run_are_named(
    sentences: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are printed after training and predictions, and their log-odds add up."""
    run = edgewise.load(sentences)
    run.model.eval()
    sizes = torch.zeros(2, dtype=torch.double)
    with torch.no_grad():
        for batch in run.splits.loaders(0)["val"]:
            (tokens,) = batch.inputs
            network, naive_bayes = run.model.network(tokens), run.model.naive_bayes(tokens)
            for number, logits in enumerate((network, naive_bayes)):
                odds = run.model.naive_bayes.scales[number] * (logits[:, 0] - logits[:, 1])
                sizes[number] += odds.abs().sum()
    expected = {f"{100 * part / sizes.sum():.0f} %" for part in sizes.tolist()}
    for command in (["test", str(sentences)], ["predict", str(sentences), "a good film"]):
        assert main(command) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("parts of the predictions: ")
        assert set(re.findall(r"\d+ %", last)) == expected
        assert "network" in last
        assert "naive Bayes" in last
    (why,) = run.explain("a good film")
    assert why.probability is not None
    odds = math.log(why.probability / (1 - why.probability))
    assert sum(part.contribution for part in why.parts) == pytest.approx(odds, rel=1e-4)
    assert main(["test", str(small_runs.without_attention(tmp_path))]) == 0
    assert "parts" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("always:the weight of the network")
def test_a_network_that_is_not_used_is_named(
    sentences: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attention says nothing if the factor of the network is 0."""
    alone = tmp_path / "alone"
    shutil.copytree(sentences, alone)
    for factor, is_used in ((0.0, False), (0.8, True)):
        weights = RunFolder(alone).read_tensors("model.safetensors")
        weights["naive_bayes.scales"] = torch.tensor([factor, 0.9])
        RunFolder(alone).write_tensors("model.safetensors", weights)
        page = ["--out", str(tmp_path / "page.html")]
        for words in (["heads", str(alone)], ["explain", str(alone), "a good film", *page]):
            assert main(words) == 0
            assert ("near zero" in capsys.readouterr().err) != is_used


def test_reasons_against_the_prediction_are_named(sentences: Path) -> None:
    """Reasons have both signs and are sorted by the absolute effect."""
    run = edgewise.load(sentences)
    (why,) = run.explain("good film bad plot the music good of a", top=9)
    effects = [reason.contribution for reason in why.reasons]
    assert min(effects) < 0 < max(effects)
    assert effects == sorted(effects, key=abs, reverse=True)


def test_the_answers_on_neighbourhoods_are_those_on_the_graph(nodes: Run) -> None:
    every = NodeCases(nodes.predictor)  # type: ignore[arg-type]
    assert every.hops == 2
    best = every.predictor.all_outputs.softmax(-1).max(-1).values
    found = every.case([3, 77, 8]).score().sigmoid()
    torch.testing.assert_close(found, best[[3, 77, 8]], atol=1e-5, rtol=1e-4)


def test_nodes_explained_together_have_the_same_reasons(nodes: Run) -> None:
    every = NodeCases(nodes.predictor)  # type: ignore[arg-type]
    together = every.contributions([5, 90], "left_out")
    for node, (case, found) in zip([5, 90], together, strict=True):
        alone = every.case([node])
        expected = contributions(alone, "left_out")
        assert list(case.labels) == list(alone.labels)
        torch.testing.assert_close(case.score(), alone.score())
        torch.testing.assert_close(found.pairs, expected.pairs)
        torch.testing.assert_close(found.edges, expected.edges, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.members, expected.members, atol=1e-5, rtol=1e-4)


def test_a_run_explains_all_nodes(nodes: Run) -> None:
    found = nodes.explain([f"p{i}" for i in range(120)], top=2)
    assert len(found) == 120
    assert {one.method for one in found} == {"left_out"}
    assert {one.method for one in nodes.explain("p3")} == {"removed"}


def test_words_are_named_on_the_command_line(
    sentences: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "answers.jsonl"
    text = "the good film of good music"
    assert main(["predict", str(sentences), text, "--why", "2", "--out", str(out)]) == 0
    answer = json.loads(out.read_text())
    assert len(answer["why"]) == 2
    reasons = edgewise.load(sentences).explain(text, top=2)[0].reasons
    assert answer["why"] == [[reason.part, saved(reason.contribution)] for reason in reasons]
    assert {reason.part for reason in reasons} <= set(text.split())
    capsys.readouterr()
    assert main(["predict", str(sentences), text, "--why", "2"]) == 0
    *_, row, last, _ = capsys.readouterr().out.splitlines()
    assert row.endswith("; ".join(map(str, reasons)))
    assert last == "why: decrease of the log-odds of the prediction without the part"
    assert main(["predict", str(sentences), text, "--why", "0"]) == 2
    assert "--why" in capsys.readouterr().err


def test_the_contribution_of_a_word_is_that_of_the_text_without_it(sentences: Path) -> None:
    run = edgewise.load(sentences)
    found = run.explain("good film", top=5)[0]
    # Positions stay, so the text has no shorter form to compare with: cut the word in the model.
    case = edgewise.app.explain.cases(run.predictor, "good film")[0]
    gone = torch.tensor([True, False])
    expected = float(case.score().detach().sum() - edgewise.explain.without(case, gone).sum())
    good = next(reason for reason in found.reasons if reason.part == "good")
    assert good.contribution == pytest.approx(expected, abs=1e-6)


def test_numbers_have_four_digits_on_the_screen_and_all_in_a_file(
    sentences: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text, table, page = "the good film of good music", tmp_path / "a.csv", tmp_path / "page.html"
    run = edgewise.load(sentences)
    (answer,), (found,) = run.predict(text), run.explain(text, top=3)
    chance = rounded(answer["probability"])
    effects = [rounded(reason.contribution, "+") for reason in found.reasons]
    assert str(found).endswith(effects[-1])
    capsys.readouterr()
    assert main(["predict", str(sentences), text, "--why", "3"]) == 0
    shown = capsys.readouterr().out
    assert all(f" {number}" in shown for number in [chance, *effects])
    assert main(["explain", str(sentences), text, "--out", str(page)]) == 0
    assert f"probability {chance}\n" in capsys.readouterr().out
    assert main(["predict", str(sentences), text, "--why", "3", "--out", str(table)]) == 0
    whole = table.read_text()
    assert str(saved(answer["probability"])) in whole
    assert all(f"{one.part} {saved(one.contribution):+}" in whole for one in found.reasons)


def test_all_reasons_are_shown_on_the_screen(
    sentences: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["good", "bad", "film", "plot", "the", "a", "of", "music"]
    assert main(["predict", str(sentences), " ".join(words), "--why", "8"]) == 0
    row = capsys.readouterr().out.splitlines()[-3]
    assert "…" not in row
    assert all(f"{word} " in row.rpartition("  ")[2] for word in words)


def test_the_edges_of_a_common_neighbour_are_told_apart() -> None:
    """A link of a and b: c is a neighbour of both, d of b alone."""
    case = Case(lambda: torch.zeros(1), torch.arange(4), list("abcd"), own=torch.tensor([0, 1]))
    case = replace(case, by_edge=True, whole_graph=True)
    pairs = torch.tensor([[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]])
    found = Contributions(torch.zeros(4), pairs, torch.tensor([9.0, 3.0, 2.0, 1.0, 8.0]), "removed")
    assert [str(one) for one in reasons_of(case, found)] == [
        "a-c +3.000",
        "b-c +2.000",
        "d +1.000",
    ]


def test_a_node_that_acts_through_one_edge_is_one_reason() -> None:
    pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])  # a chain; the answer is about node 0
    case = Case(lambda: torch.zeros(1), torch.arange(4), list("abcd"), own=torch.tensor([0]))
    case = replace(case, by_edge=True)
    found = Contributions(
        torch.tensor([0, 3.0, 2.0, 1.0]), pairs, torch.tensor([3.0, 2.5, 1.0]), ""
    )
    named = [reason.part for reason in reasons_of(case, found)]
    assert named == ["b", "b-c", "c", "d"]
    found = replace(found, edges=torch.tensor([3.0, 2.5, 1.5]))  # another effect is named
    assert "c-d" in [reason.part for reason in reasons_of(case, found)]


def test_log_odds_are_those_of_the_probability() -> None:
    scores = torch.randn(4, 3, dtype=torch.double)
    label = torch.tensor([0, 2, 1, 1])
    chance = scores.softmax(-1).gather(1, label[:, None])[:, 0]
    torch.testing.assert_close(log_odds(scores, label), (chance / (1 - chance)).log())


def test_the_fidelities_on_pages_are_those_of_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs/howto/explain.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    header = next(row for row in lines if row[0] == "recipe" and len(row) > 2)
    methods = [re.search(r"`(\w+)`|(random)", name) for name in header[1:]]
    assert [match.group(1) or match.group(2) for match in methods if match] == list(METHODS)
    rows = {
        row[0].split("`")[1]: row[1:] for row in lines if len(row) == len(header) and "`" in row[0]
    }
    for recipe, numbers in FIDELITIES.items():
        cells = (
            cell.replace("\N{MINUS SIGN}", "-").replace("not measured", "nan")
            for cell in rows[recipe]
        )
        assert list(map(float, cells)) == pytest.approx(numbers, abs=0, nan_ok=True), recipe


def test_a_large_graph_is_drawn_with_edges_whose_directions_cancel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_reasons, "MAX_NODES", 2)
    pairs, directions = torch.tensor([[0, 0], [1, 2]]), torch.tensor([[1.0, 0.3], [-0.9, 0.0]])
    scores = Contributions(torch.zeros(3), pairs, directions.sum(0), "left_out", directions)
    own = torch.tensor([0])
    case = Case(lambda: torch.ones(1), torch.arange(3), list("abc"), own=own, by_edge=True)
    shown = Explanation(Recorded(), list("abc"), "graph")
    shown.reasons = [attribution("a", case, scores, None, [])]
    data = reasons_data(shown)
    assert data is not None
    assert data["answers"][0]["labels"] == ["a", "b"]  # c has the larger net effect
