"""Every kind of run: its page, its reasons, and the commands that print them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import explain, graphs
from edgewise.app.cli import main
from edgewise.app.explain import cases
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.kinds.tables import Shop
from edgewise.explain import attribution
from edgewise.explain.attribution import outputs_of
from edgewise.explain.page_reasons import reasons_data
from tests.errors import refused
from tests.explain import small_runs

RunOf = Callable[[str], edgewise.app.runs.Run]
STAR = '{"edges": [[0, 1], [0, 2], [0, 3]], "node_labels": [0, 1, 0, 1]}'
INPUTS = {
    "sentences": "a big film",
    "tags": "the cat sat",
    "hidden words": "the [MASK] sat",
    "translations": "the cat sat",
    "images": "digit.png",
    "sounds": "tone.wav",
    "nodes": "p3",
    "whole graphs": STAR,
    "series": None,
    "links": "m3",
    "triples": "p3, knows, ?",
    "interactions": "u3",
    "tables": "c3",
    "molecules": "CC(=O)O",
}
PICTURES = {
    "sentences": "sequence",
    "tags": "sequence",
    "hidden words": "sequence",
    "translations": "pair of sequences",
    "images": "image",
    "sounds": "sequence",
    "series": "sequence",
    "molecules": "molecule",
}
NAMES = {
    "sentences": {"a", "big", "film"},
    "tags": {"the", "cat", "sat"},
    "hidden words": {"the", "sat"},
    "translations": {"the", "cat", "sat"},
    "images": {f"row {row}, column {column}" for row in range(1, 5) for column in range(1, 5)},
    "sounds": {"0.0-0.1 s", "0.1-0.2 s", "0.2-0.3 s"},
    "nodes": {f"p{node}" for node in range(40)},
    "whole graphs": {f"node {node}" for node in range(4)},
    "series": {f"{step} step{'s' * (step != 1)} before the end" for step in range(12)},
    "links": {f"m{node}" for node in range(40)},
    "triples": {*(f"p{node}" for node in range(24)), *(f"t{node}" for node in range(4))},
    "interactions": {*(f"u{i}" for i in range(12)), *(f"i{i}" for i in range(18))},
    "tables": {
        *("customers.region of c3", "customers.age of c3", "customers.as_of of c3"),
        *(f"orders.{column} of o{i}" for column in ("placed_at", "quantity") for i in (359, 280)),
        *(f"products.{c} of p{i}" for c in ("category", "price", "defects") for i in (36, 48)),
    },
    "molecules": {"C1", "C2", "O3", "O4"},
}
"""Names of the parts that may carry an answer."""


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return a function from a kind to the inputs of a command."""

    def found(kind: str) -> list[str]:
        given = INPUTS[kind]
        if kind == "sounds":
            from scipy.io import wavfile

            wavfile.write(tmp_path / "tone.wav", 8000, torch.arange(2000).sin().numpy())
            return [str(tmp_path / "tone.wav")]
        if kind == "tables":
            Shop(customers=60).write(tmp_path / "shop")
            return [str(tmp_path / "shop"), str(given)]
        if kind != "images":
            return [] if given is None else [given]
        from PIL import Image
        from sklearn.datasets import load_digits

        pixels = (load_digits().images[3] * 255 / 16).astype("uint8")
        Image.fromarray(pixels).save(tmp_path / "digit.png")
        return [str(tmp_path / "digit.png")]

    return found


def values_of(kind: str, answer: dict[str, Any]) -> list[float]:
    """Return the numbers of an answer that reasons explain."""
    if kind == "tags":
        return [word["probability"] for word in answer["words"]]
    if kind == "hidden words":
        return [answer["words"][0]["probability"]]
    if kind == "series":
        return [step["value"] for step in answer["forecast"]]
    if kind == "links":
        return [answer["links"][0]["score"]]
    if kind == "triples":
        return [answer["answers"][0]["probability"]]
    if kind == "interactions":
        return [answer["items"][0]["score"]]
    if kind == "tables":
        second = answer["P(churned=yes)"]
        return [second if answer["churned"] == "yes" else 1 - second]
    return [answer["y" if kind == "molecules" else "probability"]]


@pytest.mark.parametrize("kind", [kind for kind in INPUTS if kind != "translations"])
def test_the_explained_score_is_that_of_the_answer(
    kind: str, run_of: RunOf, words: Callable[[str], list[str]]
) -> None:
    run = run_of(kind)
    given = list(run.predictor.from_words(words(kind))) if words(kind) else None
    (answer,) = run.predict(given)
    (value,) = given or run.predictor.default_inputs()
    found = cases(run.predictor, value)
    with torch.no_grad():
        scores = torch.cat([case.score() for case in found])
    if found[0].is_odds:
        scores = scores.sigmoid()
    assert scores.tolist() == pytest.approx(values_of(kind, answer), rel=1e-4)


def test_a_class_of_one_logit_is_explained_by_log_odds(run_of: RunOf) -> None:
    run = run_of("nodes of two classes")
    answers = run.predict(list(map(str, range(40))))
    logits = run.predictor.logits(torch.tensor([[-1.0], [2.0]]))
    assert logits.argmax(-1).tolist() == [0, 1]
    for node, answer in enumerate(answers):
        (case,) = cases(run.predictor, str(node))
        mine = answer["P(class=mine)"]
        assert (case.answer, case.is_odds) == (answer["class"], True)
        expected = mine if answer["class"] == "mine" else 1 - mine
        assert float(case.score().detach().sigmoid()) == pytest.approx(expected, rel=1e-4)
    names, numbers = explain.explanation(run, "0").details["classes"]
    assert [names[number] for number in numbers] == [answer["class"] for answer in answers]


def test_a_page_of_a_recording_has_its_waveform(
    run_of: RunOf, words: Callable[[str], list[str]]
) -> None:
    run = run_of("sounds")
    waveform = run.predictor.details(words("sounds")[0])["waveform"]
    assert waveform["bins"] == 40  # in each tenth, of 800 samples
    samples = torch.arange(2000).sin().abs()
    expected = [float(part.amax() / samples.amax()) for part in samples.split(20)]
    assert waveform["peaks"] == pytest.approx(expected, abs=2e-3)


@pytest.mark.slow
def test_each_token_of_a_translation_is_explained(run_of: RunOf) -> None:
    run = run_of("translations")
    text = str(run.predict(["the cat sat"])[0]["translation"])
    found = cases(run.predictor, "the cat sat")
    assert [case.answer for case in found] == text.split()
    with outputs_of(run.model) as calls:
        found[0].score()
    (source, target), _ = calls[-1]
    assert len(source.ids) != len(target.ids)  # or calls of the decoder would seem over the source
    # A word that a trained model copies carries its translation.
    (first, *_) = run.explain("the cat sat", top=1)
    assert (first.answer, first.reasons[0].part) == ("die", "the")


@pytest.mark.parametrize("kind", ["nodes", "whole graphs"])
def test_parts_removed_from_copies_have_the_effects_of_single_removals(
    kind: str, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = cases(run_of(kind).predictor, INPUTS[kind])
    assert case.score_copies is not None
    one_by_one = explain.contributions(replace(case, score_copies=None), "removed")
    # Three copies at once, so that the last pass has fewer.
    monkeypatch.setattr(attribution, "NODES_AT_ONCE", 3 * len(case.member) + 1)
    packed = explain.contributions(case, "removed")
    assert len(one_by_one.edges.unique()) > 2
    torch.testing.assert_close(packed.edges, one_by_one.edges, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(packed.members, one_by_one.members, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_removed_edge_or_node_is_deleted_from_the_graph_with_its_degrees(
    model: str, tmp_path: Path
) -> None:
    run = edgewise.load(small_runs.nodes(tmp_path, model))
    (case,) = cases(run.predictor, "p3")
    removed = explain.contributions(case)
    assert removed.method == "removed", "the default, also for sums with weights from degrees"
    training = saved_graph(run.splits.preprocessing)
    ids = [training.ids.index(label) for label in case.labels]
    index, node = training.graph.edge_index, training.ids.index("p3")

    def odds(index: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out = run.model(training.x, graphs.edges(index, len(training.ids)))[node].double()
        rest = out.softmax(0)
        return torch.logit(rest[label])

    with torch.no_grad():
        label = int(run.model(training.x, training.graph)[node].argmax())
    whole = odds(index)
    for (first, second), effect in zip(removed.pairs.T.tolist(), removed.edges, strict=True):
        ends = torch.tensor([[ids[first]], [ids[second]]])
        is_deleted = (index == ends).all(0) | (index == ends.flip(0)).all(0)
        expected = whole - odds(index[:, ~is_deleted])
        torch.testing.assert_close(effect.double(), expected, atol=1e-5, rtol=1e-4)
    for member, effect in enumerate(removed.members):
        if ids[member] != node:
            expected = whole - odds(index[:, ~(index == ids[member]).any(0)])
            torch.testing.assert_close(effect.double(), expected, atol=1e-5, rtol=1e-4)


def test_a_removed_atom_or_bond_is_deleted_from_the_molecule(run_of: RunOf) -> None:
    run = run_of("molecules")
    (case,) = cases(run.predictor, "OCc1cc[nH]c1")
    removed = explain.contributions(case, "removed")

    def effect(smiles: str) -> Any:
        whole, rest = (row["y"] for row in run.predict(["OCc1cc[nH]c1", smiles]))
        return pytest.approx(whole - rest, abs=1e-4)

    assert removed.members[0] == effect("Cc1cc[nH]c1")
    assert removed.members[1] == effect("O.c1cc[nH]c1"), "two molecules remain"
    assert removed.members[5] == effect("OCC(C=C)=C"), "the ring is open, and not aromatic"
    bond = removed.pairs.T.tolist().index([1, 2])
    assert removed.edges[bond] == effect("OC.c1cc[nH]c1")
    ring = removed.pairs.T.tolist().index([4, 5])
    assert removed.edges[ring] == effect("OCC(C=C)=CN")
    assert explain.contributions(cases(run.predictor, "C")[0], "removed").members.isfinite().all()


def test_a_removed_tenth_of_a_second_has_the_sound_of_the_quietest(
    run_of: RunOf, tmp_path: Path
) -> None:
    from scipy.io import wavfile

    # Whole periods, so that the mean is 0 with and without the tenth.
    run, tone = run_of("sounds"), (torch.arange(2000) * 2 * torch.pi / 20).sin()
    tone[:800] *= 0.1
    tone[1600:] *= 0.01  # Half as long, so that it does not count.
    wavfile.write(tmp_path / "tone.wav", 8000, tone.numpy())
    (case,) = cases(run.predictor, tmp_path / "tone.wav")
    found = explain.contributions(case, "removed").members
    assert len(found) == 3
    tone[800:1600] = tone[:800]
    wavfile.write(tmp_path / "without.wav", 8000, tone.numpy())
    (without,) = cases(run.predictor, tmp_path / "without.wav")
    assert without.answer == case.answer
    shown = explain.explanation(run, tmp_path / "without.wav")
    assert shown.details["input"] == "without.wav", "a page does not name the folders of a file"
    torch.testing.assert_close(found[1:2], case.score() - without.score(), atol=1e-2, rtol=1e-2)


def test_a_link_is_explained_by_the_graph_without_each_edge(run_of: RunOf) -> None:
    run = run_of("links")
    model, value = run.model, run.predictor.prepare("m3")
    (case,) = cases(run.predictor, "m3")
    found = explain.contributions(case, "removed")
    known, own = run.splits.preprocessing["known"], case.own
    assert own is not None
    assert int(own[0]) == value
    with torch.no_grad():
        for pair, contribution in zip(found.pairs.T, found.edges, strict=True):
            kept = known[:, ~torch.isin(known, pair).all(0)]
            graph = graphs.edges(torch.cat([kept, kept.flip(0)], 1), len(case.labels))
            if not bool(torch.isin(pair, own).any()):
                continue
            without = case.score() - model(own[:, None], graph)
            torch.testing.assert_close(contribution, without[0], atol=1e-5, rtol=1e-4)
    # The score counts common neighbours, so that their edges have effects beyond the states.
    assert model.overlap is not None
    assert case.field is not None
    # These edges are removed exactly also by the default, which is fast at hubs.
    default = explain.contributions(case)
    assert default.method == "left_out"
    assert case.exact_pairs is not None
    assert len(case.exact_pairs.T)
    exact = {frozenset(pair) for pair in case.exact_pairs.T.tolist()}
    for pair, value, expected in zip(
        found.pairs.T.tolist(), default.edges, found.edges, strict=True
    ):
        if frozenset(pair) in exact:
            torch.testing.assert_close(value, expected)


def test_a_link_has_a_score_and_no_probability(
    run_of: RunOf, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of("links")
    (link,) = run.predict("m3", top=1)[0]["links"]
    (shown, *_) = run.explain("m3", top=1)
    assert shown.case.claim is not None
    assert shown.case.claim.text == f"a link between m3 and {link['id']}"
    assert shown.probability is None
    assert shown.score == pytest.approx(link["score"], abs=1e-5)
    assert run.recipe.data.negatives == 4
    meaning = "log-odds of the score without the part; the score is the probability of a link if "
    assert f"{meaning}1 in 5 pairs is linked" in shown.meaning
    data = reasons_data(explain.explanation(run, "m3"))
    assert data is not None
    assert data["answers"][0]["claim"] == {"text": shown.case.claim.text, "score": "score"}
    assert main(["predict", str(run.path), "m3", "--top", "1", "--why", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"why: {shown.meaning}"
    run.predictor.recipe = replace(run.recipe, data=replace(run.recipe.data, negatives=8))
    assert "1 in 9 pairs" in run.explain("m3", top=1)[0].meaning


def test_a_recommended_item_has_its_score(run_of: RunOf) -> None:
    run = run_of("interactions")
    (item,) = run.predict("u3", top=1)[0]["items"]
    (shown, *_) = run.explain("u3", top=1)
    assert shown.case.claim is not None
    assert shown.case.claim.text == f"{item['item']} for u3"
    assert shown.score == pytest.approx(item["score"], abs=1e-5)
    assert shown.meaning.startswith("decrease of the score without the part")


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("kind", INPUTS)
def test_reasons_are_parts_of_the_input(
    kind: str, run_of: RunOf, words: Callable[[str], list[str]]
) -> None:
    run = run_of(kind)
    given = list(run.predictor.from_words(words(kind))) if words(kind) else None
    found = run.explain(given, top=2)
    assert found
    default = {"series": "integrated_gradients", "links": "left_out"}.get(kind, "removed")
    assert {one.method for one in found} == {default}
    for one in found:
        assert 1 <= len(one.reasons) <= 2
        for reason in one.reasons:
            part = re.sub(r" \([a-z ,]+\)$", "", reason.part)  # Without relations.
            parts = {part} if part in NAMES[kind] else set(part.split("-"))
            assert parts <= NAMES[kind]
            assert reason.contribution != 0


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("kind", INPUTS)
def test_commands_answer_every_kind(
    kind: str, run_of: RunOf, words: Callable[[str], list[str]], tmp_path: Path
) -> None:
    run = run_of(kind)
    out = tmp_path / "answers.jsonl"
    given = [str(run.path), *words(kind)]
    assert main(["predict", *given, "--why", "2", "--out", str(out)]) == 0
    answer = json.loads(out.read_text())
    assert '"why"' in out.read_text()
    page = tmp_path / "page.html"
    assert main(["explain", *given, "--out", str(page)]) == 0
    assert "%DATA%" not in page.read_text()
    value = next(iter(run.predictor.from_words(words(kind)) if words(kind) else []), None)
    found = explain.explanation(run, run.predictor.training_series if value is None else value)
    assert found.kind == PICTURES.get(kind, "graph")
    for layer in found.recorded:
        assert layer.name
        targets, sources = found.labels_of(layer)
        assert (len(targets), len(sources)) == (layer.graph.num_targets, layer.graph.num_sources)
    if kind in ("nodes", "links", "interactions"):
        assert found.labels[found.details["node"]] == INPUTS[kind]
    if kind in ("nodes", "whole graphs", "series", "links", "interactions", "molecules"):
        assert set(found.labels) == NAMES[kind]
    if kind == "molecules":
        assert found.labels_of(found.recorded[-1]) == (["whole molecule"], found.labels)
    if kind == "interactions":
        assert found.answer.startswith(f"items {answer['items'][0]['item']}")
        assert run.model.low_pass
        assert found.recorded.names == ["LightGCN"]  # without the steps of the low-pass filter


@pytest.mark.parametrize("text", ["the [MASK] sat", "the [MASK] sat [MASK]"])
def test_reasons_stand_beside_the_word_that_they_explain(
    text: str, run_of: RunOf, tmp_path: Path
) -> None:
    out = tmp_path / "words.csv"
    run = str(run_of("hidden words").path)
    assert main(["predict", run, text, "--why", "1", "--out", str(out)]) == 0
    with out.open(newline="") as file:
        found = [bool(row["why"]) for row in csv.DictReader(file)]
    assert found == [True, *[False] * 4] * text.count("[MASK]")


def test_all_visible_words_are_reasons_for_a_masked_word(run_of: RunOf) -> None:
    (one,) = run_of("hidden words").explain("the [MASK] sat")
    assert {reason.part for reason in one.reasons} == {"the", "sat"}
    first, second = run_of("hidden words").explain("the [MASK] sat [MASK]")
    named = [{reason.part for reason in one.reasons} for one in (first, second)]
    assert named == [{"the", "sat", "<mask>"}] * 2  # the other mask


def test_an_invalid_input_has_the_same_exit_code_in_all_commands(
    run_of: RunOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """1, and the other inputs are answered; 2 is the code of a command that cannot run."""
    run, page = str(run_of("molecules").path), tmp_path / "page.html"
    inputs = ["CCO", "C1CC", "CCN", "C" * 501]
    capsys.readouterr()
    assert main(["predict", run, *inputs, "--why", "1"]) == 1
    wrong = capsys.readouterr().err
    assert "got 'C1CC'" in wrong
    assert main(["explain", run, *inputs, "--out", str(page)]) == 1
    assert capsys.readouterr().err == wrong
    assert {path.name for path in tmp_path.glob("*.html")} == {"page-1.html", "page-3.html"}
    assert main(["explain", run, "--out", str(page)]) == 2
    assert "expected a molecule as SMILES; got none" in capsys.readouterr().err


def test_a_page_of_a_row_of_a_table(run_of: RunOf) -> None:
    run = run_of("molecules")
    found = explain.explanation(run, {"structure": "CCO"})
    assert found.details["smiles"] == "CCO"
    with refused("input", expected="structure", got="without structure", remedy="columns"):
        explain.explanation(run, {"smiles": "CCO"})


def test_runs_without_attention_are_named(
    run_of: RunOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = run_of("without attention")
    page = str(tmp_path / "page.html")
    for command in (
        ["explain", str(run.path), "big film", "--out", page],
        ["predict", str(run.path), "big film", "--why", "2"],
        ["heads", str(run.path)],
        ["prune", str(run.path), "--fraction", "0.5", "--out", str(tmp_path / "pruned")],
        ["suggest", str(run.path)],
    ):
        assert main(command) == 2, command
        error = capsys.readouterr().err
        assert "Remedy: " in error
        assert any(
            word in error
            for word in ("no attention", "computed none", "with LSTM", "no such", "none")
        )
    with refused("run", expected="recurrent", got="LSTM", remedy="Transformer"):
        run.explain("big film")


def test_texts_that_are_too_long_are_named(
    run_of: RunOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = " ".join(small_runs.WORDS * 10)
    page = ["--out", str(tmp_path / "page.html")]
    for command in (
        ["explain", str(run_of("hidden words").path), f"{long} [MASK]", *page],
        ["explain", str(run_of("translations").path), long, *page],
        ["predict", str(run_of("tags").path), long, "--why", "2"],
    ):
        assert main(command) == 1, command
        error = capsys.readouterr().err
        assert re.search(r"got \d+ tokens.*Remedy: ", error), error
    tags, sentences = run_of("tags"), run_of("sentences")
    assert main(["predict", str(tags.path), long, "the cat", "--why", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("\n") > len(long.split())  # without reasons for the long sentence
    assert shown.err.count("edgewise: ") == 1
    assert main(["explain", str(sentences.path), long, *page]) == 0
    assert "read the first 11 of 162 tokens" in capsys.readouterr().out
