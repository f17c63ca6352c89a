"""Baselines on small data, against NumPy, libraries and values computed by hand."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.app.cli.baseline import comparison, measure
from edgewise.app.kinds import RECIPES, TASKS, find, library_kinds
from edgewise.app.kinds.items.baseline import ease, gfcf, item_knn
from edgewise.app.kinds.language import baseline as language
from edgewise.app.kinds.links.baseline import katz
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.series import baseline as series
from edgewise.app.kinds.translation import baseline as translation
from edgewise.app.kinds.translation import is_large as is_large_translation
from edgewise.app.runs import (
    Baseline,
    baselines,
    best_of,
    lower_is_better,
    paired_test,
    with_values,
)
from edgewise.app.runs.baseline_results import baselines_for
from edgewise.app.train import Batch, Candidate, NoBaselineError, RunFolder, Writer
from edgewise.app.train import baseline as train_baseline
from edgewise.app.train.neighbourhood_counts import neighbourhoods
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.graphs import edges

sparse = pytest.importorskip("scipy.sparse")
pytest.importorskip("sklearn")
pytest.importorskip("torchmetrics")

R = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], np.float32)


def test_katz_counts_paths():
    pairs = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 2]])
    graph = edges(torch.cat([pairs, pairs.flip(0)], dim=1), 5)
    a = torch.zeros(5, 5).index_put_(tuple(graph.edge_index), torch.ones(10))
    whole = sum(0.1**k * torch.linalg.matrix_power(a, k) for k in range(1, 5))
    torch.testing.assert_close(katz(graph, 0.1), whole)


def test_ease_is_the_ridge_regression_of_each_item_on_the_others():
    found = ease(sparse.csr_matrix(R), 2.0)(sparse.csr_matrix(np.eye(4, dtype=np.float32)))
    for item in range(4):
        others = [i for i in range(4) if i != item]
        x = R[:, others]
        weights = np.linalg.solve(x.T @ x + 2 * np.eye(3), x.T @ R[:, item])
        np.testing.assert_allclose(found[others, item], weights, rtol=1e-4)
        assert found[item, item] == 0


def test_gfcf_is_its_formula():
    user, item = R.sum(1), R.sum(0)
    scaled = R / np.sqrt(user)[:, None] / np.sqrt(item)
    v = np.linalg.svd(scaled)[2][:2].T
    ideal = np.diag(item**-0.5) @ v @ v.T @ np.diag(item**0.5)
    expected = R @ (scaled.T @ scaled + 0.3 * ideal)
    rows = sparse.csr_matrix(R)
    found = gfcf(rows, 0.3, lambda: v.astype(np.float32))(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_item_knn_keeps_the_nearest_items():
    r = (np.random.default_rng(0).random((40, 6)) < 0.4).astype(np.float32)  # no ties
    unit = r / np.linalg.norm(r, axis=0)
    similar = unit.T @ unit
    np.fill_diagonal(similar, 0)
    for column in similar.T:
        column[column < column.max()] = 0
    rows = sparse.csr_matrix(r)
    np.testing.assert_allclose(item_knn(rows, 1)(rows), r @ similar, rtol=1e-5)


def test_neighbourhoods_are_those_of_isomorphic_nodes():
    """Nodes of a path of six: the ends, their neighbours and the middle."""
    pairs = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    colors = neighbourhoods(torch.ones(6, 1), both, None)
    distinct = [len(column.unique()) for column in colors.T]
    assert distinct == [1, 2, 3]
    assert torch.equal(colors, colors.flip(0))
    bonds = torch.tensor([1.0, 1, 2, 1, 1]).repeat(2)[:, None]
    assert len(neighbourhoods(torch.ones(6, 1), both, bonds)[:, 1].unique()) == 3


def test_seasonal_naive_with_drift_continues_a_line():
    history = torch.arange(8.0)[None]
    seasonal = torch.arange(4.0, 8.0)
    target = torch.stack([torch.arange(8.0, 12.0), seasonal], dim=-1)[None]
    found = series.with_drift(4, Batch((history,), target))
    assert torch.equal(found, target[..., 0])


def test_exponential_smoothing_of_a_season():
    pytest.importorskip("statsmodels")
    values = torch.tensor([1.0, 5, 3, 2]).double().repeat(4)[None] + 0.01 * torch.rand(1, 16)
    target = torch.zeros(1, 4, 2)
    found = series.smoothed(4, Batch((values,), target))
    torch.testing.assert_close(found, values[:, :4], atol=0.1, rtol=0)


def measured(recipe, **fields):
    return {each.name: each for each in baselines(with_values(find(recipe), fields))}


def test_unigrams_and_bigrams_by_hand(tmp_path):
    """The text is a period of two tokens, so a bigram predicts each token."""
    (tmp_path / "text.txt").write_text("ab" * 600)
    windows = {"data.context": 8, "data.stride": 8, "data.val": 0.1}
    fields = {"data.paths": str(tmp_path / "text.txt"), **windows}
    found = measured("writing", **fields, **{"data.kind": "characters"})
    assert found["unigrams"].metrics["test/loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert found["bigrams with back-off"].metrics["test/loss"] < 0.01
    assert language.WEIGHTS[0] == 1.0


@pytest.mark.slow
def test_masked_words_from_their_neighbours(tmp_path):
    """The text is a period of three tokens, so any visible neighbour determines a masked token."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("xyz" * 900 + "\n" + "xyz" * 90)
    paths = {"data.paths": str(tmp_path / "a.txt"), "data.test_paths": str(tmp_path / "b.txt")}
    settings = {"data.sources": "", "data.kind": "characters", "data.val": 0.5, "data.context": 16}
    # With one window per batch, some batches have no masked token.
    settings |= {"data.mask_fraction": 0.15, "data.batch_size": 1}
    found = measured("bert-wikitext", **paths, **settings)
    assert found["unigrams"].metrics["test/accuracy"] == pytest.approx(1 / 3, abs=0.08)
    assert found["naive Bayes on neighbours"].metrics["test/accuracy"] > 0.97


HOUSE = ("the house", "das Haus"), ("the book", "das Buch")


def words_of_house():
    sources, targets = zip(*HOUSE, strict=True)
    return translation.WordByWord.fitted(sources, targets)


def test_ibm_model_1_by_hand(monkeypatch):
    """With equal probabilities, each source word and the null word explain a word to 1/3."""
    monkeypatch.setattr(translation, "STEPS", 1)
    words = words_of_house()

    def t(source, target):
        place = words.sources[source], words.targets.index(target)
        return math.exp(words.translations.toarray()[place])

    assert t("the", "das") == pytest.approx(1 / 2)
    assert t("the", "Haus") == t("the", "Buch") == pytest.approx(1 / 4)
    assert t("house", "das") == t("house", "Haus") == pytest.approx(1 / 2)
    # Both texts begin with "das". With one more count of each, 3 of 11 words are "das".
    begin, das = np.array([translation.BOUNDARY]), np.array([words.targets.index("das")])
    wanted = (2 + translation.BACK_OFF * 3 / 11) / (2 + translation.BACK_OFF)
    assert math.exp(words.bigrams(begin, das)[0, 0]) == pytest.approx(wanted)


def test_probabilities_are_those_of_a_plain_loop():
    """Expectation–maximisation word by word, as in the paper."""
    sources, targets = ["the old house", "the house the book", "old"], ["das Haus", "d e d", "alt"]
    pairs = [(["", *e.split()], f.split()) for e, f in zip(sources, targets, strict=True)]
    t = defaultdict(lambda: 1.0)
    for _ in range(translation.STEPS):
        count, total = defaultdict(float), defaultdict(float)
        for e, f in pairs:
            for target in f:
                explained = sum(t[source, target] for source in e)
                for source in e:
                    count[source, target] += t[source, target] / explained
                    total[source] += t[source, target] / explained
        t = {pair: value / total[pair[0]] for pair, value in count.items()}
    words = translation.WordByWord.fitted(sources, targets)
    found = words.translations.tocoo()
    names = list(words.sources)
    assert len(found.data) == len(t)
    for row, column, log in zip(found.row, found.col, found.data, strict=True):
        assert math.exp(log) == pytest.approx(t[names[row], words.targets[column]])


def test_the_translation_is_the_best_of_all():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcd"), 4)) for _ in range(20)]
    changed = [" ".join(rng.choice(list("wxyz"), 4)) for _ in range(20)]
    words = translation.WordByWord.fitted(texts, changed)

    def score(choice, logs, weight):
        path = np.array([translation.BOUNDARY, *choice, translation.BOUNDARY])
        steps = [words.bigrams(path[i : i + 1], path[i + 1 : i + 2])[0, 0] for i in range(4)]
        return sum(logs) + weight * sum(steps)

    for text, weight in itertools.product(("a b c", "d a a", "b d c"), (0.0, 0.5, 2.0)):
        choices = [zip(*words.choices(word), strict=True) for word in text.split()]
        paths = [zip(*path, strict=True) for path in itertools.product(*choices)]
        best = max((tuple(path) for path in paths), key=lambda path: score(*path, weight))
        wanted = " ".join(words.targets[i] for i in best[0])
        assert words.translate(text, weight) == wanted


def test_words_are_translated_in_order_and_unknown_words_are_copied(monkeypatch):
    words = words_of_house()
    assert words.translate("the book, the Zebra!", 0.0) == "das Buch, das Zebra!"
    assert words.translate("", 1.0) == ""
    monkeypatch.setattr(translation, "MAX_WORD_PAIRS", 1)
    assert words_of_house().translate("the book", 0.5) == "das book", "no translation, but bigrams"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("geht's um T-Shirts, Nr. 1,003.", "geht's um T-Shirts , Nr . 1,003 ."),
        ("हिन्दी में लिखा", "हिन्दी में लिखा"),
        ("Er (der «liest») geht...", "Er ( der « liest » ) geht . . ."),
        ("(", "("),
        ("", ""),
    ],
)
def test_words_keep_hyphens_apostrophes_and_marks(text, words):
    found = translation.WORD.findall(text)
    assert found == words.split()
    assert translation.joined(found) == text


def test_long_or_unknown_texts(tmp_path):
    many = Preprocessing({"vocab_size": 80}, None, {"longest": 300}, train_examples=250)
    assert is_large_translation(many)
    assert not is_large_translation(replace(many, values={"longest": 20}))
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["english,german", *(f"word{i},das" for i in range(40))]))
    recipe = with_values(
        find("pairs"), {"data.path": str(path), "data.kind": "words", "data.vocab_size": 5}
    )
    with pytest.raises(ArgumentError, match=r"data\.vocab_size"):
        list(baselines(recipe))


def test_settings_of_texts_are_chosen_on_the_validation_set(tmp_path, monkeypatch):
    path = tmp_path / "pairs.csv"
    path.write_text(
        "\n".join(["a,b", *(f"one two three {i},eins zwei drei {i}" for i in range(60))])
    )
    recipe = with_values(find("pairs"), {"data.path": str(path), "data.vocab_size": 80})
    splits = recipe.data.load()
    kept = {
        name: set(getattr(splits, name).make(torch.arange(getattr(splits, name).count)).references)
        for name in ("val", "test")
    }

    def candidates(*_):
        for name, known in kept.items():

            def write(batch, known=known):
                return [text if text in known else "" for text in batch.references]

            yield Candidate("copies", name, lambda write=write: Writer(write))

    monkeypatch.setattr("edgewise.app.kinds.translation.baseline.candidates", candidates)
    (found,) = baselines(recipe)
    assert found.setting == "val"
    assert found.metrics == {"val/bleu": pytest.approx(100), "test/bleu": 0}


def test_pairs_of_texts(tmp_path, capsys):
    rows = [
        f"a {a} {b} and a dog,ein {c} {d} und ein Hund"
        for a, c in (("red", "rot"), ("blue", "blau"), ("old", "alt"), ("new", "neu"))
        for b, d in (("house", "Haus"), ("book", "Buch"), ("tree", "Baum"), ("road", "Weg"))
    ]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["english,german", *rows, *rows]))
    found = measured("pairs", **{"data.path": str(path), "data.vocab_size": 80})
    assert set(found) == {"nearest source text", "word-by-word translation"}
    for one in found.values():  # Each test text is also a training text.
        assert one.metrics["test/bleu"] == pytest.approx(100)
        assert set(one.metrics) == {"val/bleu", "test/bleu"}
    options = ["--data.path", str(path), "--data.vocab_size", "80", "--trainer.epochs", "1"]
    options += ["--model.width", "16", "--model.depth", "1", "--model.heads", "2"]
    assert main(["train", "pairs", *options, "--out", str(tmp_path / "run")]) == 0
    assert "baseline: test/bleu 0.0000 is WORSE than nearest source text" in capsys.readouterr().out


def test_tags_of_known_and_unknown_words(tmp_path):
    """b is N twice and V once; an unknown word is V, the tag of the word that occurs once."""
    sentence = "a\tD\nb\tN\n\nb\tN\nc\tV\n\na\tD\nb\tV\n\n"
    for name in ("train", "val", "test"):
        (tmp_path / f"{name}.txt").write_text(sentence + "x\tV\n\n" * (name == "test"))
    paths = {"path": "train", "val_path": "val", "test_path": "test"}
    fields = {f"data.{field}": str(tmp_path / f"{name}.txt") for field, name in paths.items()}
    found = measured("tags", **fields, **{"data.kind": "words"})
    assert found["most frequent tag of a word"].metrics["test/accuracy"] == pytest.approx(6 / 7)


def test_tags_of_nearby_words(tmp_path):
    """The tag is the word before in the same sentence, or S for the first word."""
    draw = random.Random(0)
    sentences = [[draw.choice("ab") for _ in range(draw.randint(1, 6))] for _ in range(120)]
    text = "\n".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, ["S", *words], strict=False))
        for words in sentences
    )
    (tmp_path / "tags.txt").write_text(text)
    found = measured("tags", **{"data.path": str(tmp_path / "tags.txt"), "data.kind": "words"})
    assert found["logistic regression on nearby words"].metrics["test/accuracy"] == 1
    assert found["most frequent tag of a word"].metrics["test/accuracy"] < 0.7


def test_texts_by_their_words(tmp_path):
    rows = [
        f"{text} {i % 7},{label}"
        for i in range(40)
        for text, label in (("a fine film", "good"), ("a dull film", "bad"))
    ]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    found = measured("texts", **{"data.path": str(tmp_path / "texts.csv")})
    assert found["TF-IDF with logistic regression"].metrics["test/accuracy"] == 1
    values = {"data.path": str(tmp_path / "texts.csv")}
    behind = {"test/accuracy": 0.1}
    said = comparison(with_values(find("texts"), values), behind, tmp_path / "run")
    asked = f"`edgewise train texts --data.path {tmp_path / 'texts.csv'} --from FOLDER`"
    assert f"A pre-trained BERT or RoBERTa is usually more accurate: {asked}" in said
    assert "Or use TF-IDF with logistic regression, which takes" in said
    ahead = comparison(with_values(find("texts"), values), {"test/accuracy": 1.0}, tmp_path / "run")
    assert asked in ahead
    assert "Or use" not in ahead
    assert "FOLDER" not in comparison(
        with_values(find("texts"), {**values, "from": "pre-trained"}), behind, tmp_path / "run"
    )


def test_molecules_of_ones_own_table(tmp_path, capsys):
    """The target counts atoms, which a linear model of counts finds."""
    pytest.importorskip("rdkit")
    rows = [f"{'C' * n}{'O' * m},{n + 2 * m}" for n in range(1, 9) for m in range(5)]
    path, out = tmp_path / "mine.csv", tmp_path / "out"
    path.write_text("\n".join(["smiles,y", *rows]))
    argv = ["baseline", "molecules", f"--data.path={path}", "--data.descriptors=false"]
    assert main([*argv, f"--out={out}"]) == 0
    assert "ridge regression" in capsys.readouterr().out
    record = json.loads((out / "baseline.json").read_text())
    found = {each["name"]: each["metrics"] for each in record["baselines"]}
    assert found["ridge regression"]["test/rmse"] < 0.6
    assert record["metric"] == "rmse"


@pytest.mark.slow
def test_rows_of_one_molecule_have_its_features(tmp_path):
    """Rows share the nodes of their molecule, and have their own condition."""
    pytest.importorskip("rdkit")
    rows = [f"{'C' * n},{t},{n + t}" for n in range(1, 20) for t in range(3)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,t,y", *rows]))
    fields = {"path": str(tmp_path / "mine.csv"), "conditions": "t", "target": "y"}
    found = measured("molecules", **{f"data.{name}": value for name, value in fields.items()})
    assert found["ridge regression"].metrics["test/rmse"] < 0.5


@pytest.mark.slow
def test_large_data_are_not_loaded_after_a_training(tmp_path, capsys, monkeypatch):
    """The line names the command with the user's fields."""
    monkeypatch.setattr(train_baseline, "QUICK_TREES", 10)
    pytest.importorskip("rdkit")
    rows = [f"{'C' * n},{n % 5}" for n in range(1, 40)]
    path, out = tmp_path / "my table.csv", tmp_path / "run"
    path.write_text("\n".join(["smiles,y", *rows]))
    fields = [f"--data.path={path}", "--data.descriptors=false", "--model.depth=1"]
    argv = ["train", "molecules", *fields, "--trainer.epochs=1", f"--out={out}"]
    load, loaded = MoleculeTable.load, []
    monkeypatch.setattr(MoleculeTable, "load", lambda data: loaded.append(1) or load(data))
    assert main(argv) == 0
    assert len(loaded) == 1
    asked = f"`edgewise baseline molecules --data.path '{path}' --data.descriptors false`"
    assert f"baselines: run {asked}, which takes minutes" in capsys.readouterr().out


@pytest.mark.slow
def test_nodes_of_two_groups(tmp_path):
    """Labels follow the edges only, and features are noise."""
    pytest.importorskip("torch_geometric")
    lines = [f"{i},{torch.rand(1).item():.3f},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,f,label", *lines]))
    links = [f"{i},{(i + step) % 60}" for i in range(60) for step in (2, 4)]
    (tmp_path / "edges.csv").write_text("\n".join(["from,to", *links]))
    fields = {f"data.{name}": str(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}
    found = measured("nodes", **fields, **{"data.target": "label"})
    assert found["label propagation"].metrics["test/accuracy"] == 1
    assert {"logistic regression", "SGC", "Correct & Smooth"} <= found.keys()


@pytest.mark.slow
def test_semi_supervised_training_is_advised_for_classes_of_nodes(tmp_path):
    pytest.importorskip("torch_geometric")
    rows = [f"{i},{i % 7},{'ab'[i % 2]},{i / 7}" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,f,team,price", *rows]))
    (tmp_path / "edges.csv").write_text(
        "\n".join(["from,to", *(f"{i},{i + 2}" for i in range(58))])
    )
    files = {f"data.{name}": str(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}

    def said(name, label, features, **metrics):
        fields = files | {"data.target": label, "data.features": features, "seed": 3}
        return comparison(with_values(find(name), fields), metrics, tmp_path / "run")

    options = f"--data.nodes {files['data.nodes']} --data.edges {files['data.edges']} "
    asked = (
        f"`edgewise train nodes-few-labels {options}--data.target team --data.features f --seed 3`"
    )
    assert asked in said("nodes", "team", "f", **{"test/accuracy": 0.0})
    assert "nodes-few" not in said("nodes", "price", "f", **{"test/mae": 9.0, "test/rmse": 9.0})
    assert "also try" not in said("nodes-few-labels", "team", "f", **{"test/accuracy": 0.0})


@pytest.mark.slow
def test_digits_and_the_run_beside_them(tmp_path, capsys):
    out = tmp_path / "run"
    fields = ["--model.width=8", "--model.depth=1", "--model.heads=1", "--trainer.epochs=1"]
    argv = ["train", "digits", *fields, "--data.batch_size=500", "--trainer.accelerator=cpu"]
    assert main([*argv, f"--out={out}"]) == 0
    said = capsys.readouterr().out
    assert "BEHIND k-NN on pixels" in said, "one epoch of a tiny model"
    assert "\nUse k-NN on pixels, or tune the recipe" in said
    files = ("test_examples.safetensors", "baseline.safetensors")
    p = paired_test(*(RunFolder(out).read_tensors(name)["accuracy"] for name in files)).p
    assert f", p = {p:.2g} over 360 test examples; {out}" in said
    record = json.loads((out / "baseline.json").read_text())
    assert record["best"] == "k-NN on pixels"
    assert record["baselines"][0]["metrics"]["test/accuracy"] > 0.9


def test_a_task_without_a_baseline():
    with pytest.raises(NoBaselineError) as error:
        next(baselines(RECIPES["duplication"]))
    assert "links (such as sage-facebook)" in str(error.value)
    assert "Classification" not in str(error.value), "classes are not the user's words"


def test_the_example_of_each_kind_is_of_this_kind():
    for kind in library_kinds():
        for entry in kind.baselines:
            assert baselines_for(find(entry.example)) is entry


@pytest.mark.parametrize(
    ("recipe", "name", "lower"),
    [
        ("gin-esol", "test/mae", True),
        ("gin-esol", "test/r2", False),
        ("sage-facebook", "test/hits@50", False),
        ("forecast", "val/seasonal_ratio", True),
        ("grand-cora", "test/accuracy", False),
        ("gpt-shakespeare", "test/bits", True),
    ],
)
def test_directions_of_metrics(recipe, name, lower):
    assert lower_is_better(find(recipe), name) is lower


def innermost(metric):
    return innermost(metric.wrapped_metric) if hasattr(metric, "wrapped_metric") else metric


def test_each_metric_of_a_task_has_a_direction():
    for name, task in TASKS.items():
        for metric, found in (task().metrics() | task().generation_metrics()).items():
            assert innermost(found).higher_is_better is not None, f"{metric} of {name}"


def test_a_failing_baseline_does_not_fail_the_training(tmp_path, capsys, monkeypatch):
    def fails(*_):
        raise ValueError("too few examples")

    monkeypatch.setattr("edgewise.app.cli.commands.comparison", fails)
    options = ["--trainer.epochs", "1", "--model.depth", "1", "--out", str(tmp_path / "run")]
    assert main(["train", "digits", *options]) == 0
    assert "baseline: not measured. too few examples" in capsys.readouterr().out


def baselines_of_two_sets(count=60):
    """Trees are the best on the validation set, and ridge regression is far ahead on the test."""
    errors = torch.linspace(0.9, 1.1, count, dtype=torch.double)
    target = torch.arange(float(count), dtype=torch.double)
    found = []
    for name, val, test in (("trees", 0.5, 0.56), ("ridge", 0.52, 0.48)):
        metrics = {"val/rmse": val, "test/rmse": test}
        examples = {"target": target, "rmse": errors.flip(0) * test**2}
        found.append(Baseline(name, "", metrics, 0.0, examples))
    return found, {"target": target, "rmse": errors}


@pytest.mark.parametrize(
    ("rmse", "verdicts"),
    [
        (0.52, {"trees": "ahead of", "ridge": "BEHIND"}),
        (0.481, {"trees": "ahead of", "ridge": "level with"}),
        (0.4, {"trees": "ahead of", "ridge": "ahead of"}),
        (0.6, {"trees": "BEHIND", "ridge": "BEHIND"}),
    ],
)
def test_a_run_is_compared_with_the_baselines_that_the_command_names(
    rmse, verdicts, tmp_path, monkeypatch
):
    recipe = find("molecules")
    found, run = baselines_of_two_sets()
    monkeypatch.setattr("edgewise.app.cli.baseline.baselines", lambda *_, **__: iter(found))
    run["rmse"] = run["rmse"] * rmse**2
    monkeypatch.setattr("edgewise.app.cli.baseline.runs.per_example_metrics", lambda _: run)
    said = comparison(recipe, {"test/rmse": rmse}, tmp_path)
    lines = [line for line in said.splitlines() if line.startswith("baseline: ")]
    expected = [f"is {verdict} {name}, " for name, verdict in verdicts.items()]
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines, strict=True))
    assert said.count(" over 60 test examples") == 2
    assert ("Use ridge" in said) == ("BEHIND" in said)
    table = measure(recipe, tmp_path)
    assert "best by val/rmse: trees\nbest by test/rmse: ridge\n" in table
    assert json.loads((tmp_path / "baseline.json").read_text())["best"] == "trees"


def test_a_difference_by_chance_is_level(tmp_path, monkeypatch):
    found, run = baselines_of_two_sets(count=4)
    monkeypatch.setattr("edgewise.app.cli.baseline.baselines", lambda *_, **__: iter(found[:1]))
    monkeypatch.setattr("edgewise.app.cli.baseline.runs.per_example_metrics", lambda _: run)
    run["rmse"] = torch.tensor([0.0, 1.0, 0.0, 0.1], dtype=torch.double)
    said = comparison(find("molecules"), {"test/rmse": 0.525}, tmp_path)
    assert "test/rmse 0.5250 is level with trees, 0.5600" in said
    assert "Use " not in said


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("undefined", ["run", "baseline"])
def test_a_metric_that_is_undefined_is_not_compared(undefined, paired, tmp_path, monkeypatch):
    found, run = baselines_of_two_sets()
    monkeypatch.setattr("edgewise.app.cli.baseline.baselines", lambda *_, **__: iter(found[:1]))
    monkeypatch.setattr(
        "edgewise.app.cli.baseline.runs.per_example_metrics", lambda _: run if paired else {}
    )
    if undefined == "baseline":
        found[0].metrics["test/rmse"] = math.nan
    value = math.nan if undefined == "run" else 0.5
    said = comparison(find("molecules"), {"test/rmse": value}, tmp_path)
    assert "cannot be compared with trees" in said
    assert "undefined on this test set" in said
    assert not re.search("WORSE|BEHIND|level|p = |difference|Use ", said)


def test_molecules_that_take_seconds_are_compared():
    run = Preprocessing({}, None, {}, train_examples=1_362)
    assert not train_baseline.is_large_for_trees(run), "1,513 molecules take 11 s"
    assert train_baseline.is_large_for_trees(replace(run, train_examples=30_000))


def test_no_method_is_charged_for_start_up(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(
        "import torch\nfrom edgewise.app.train import Candidate\n"
        "def candidates(*_):\n"
        "    score = lambda batch: torch.zeros(len(batch.target), 10)\n"
        "    yield Candidate('first', '', lambda: score)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    clock, imported = itertools.count(), []

    def process_time():
        imported.append("slow_to_import" in sys.modules)
        return float(next(clock))

    entry = replace(baselines_for(find("digits")), module="slow_to_import")
    monkeypatch.setattr("edgewise.app.runs.baseline_results.baselines_for", lambda _: entry)
    monkeypatch.setattr("edgewise.app.runs.baseline_results.time.process_time", process_time)
    assert list(baselines(find("digits")))
    assert imported
    assert all(imported)


def test_a_setting_without_a_validation_metric_loses():
    recipe = find("digits")
    good, bad = (Baseline("k-NN", "", {"val/accuracy": v}, 0.0) for v in (0.1, math.nan))
    assert best_of(recipe, [bad, good]) is best_of(recipe, [good, bad]) is good


def test_links_are_ranked_for_each_node(tmp_path):
    """Each node of a ring is linked to the six nearest, so common neighbours find links."""
    rows = [f"{i},{(i + step) % 60}" for i in range(60) for step in (1, 2, 3)]
    (tmp_path / "ring.csv").write_text("\n".join(["source,destination", *rows]))
    found = measured("links", **{"data.path": str(tmp_path / "ring.csv")})
    assert set(found) == {"common neighbours", "Adamic–Adar", "resource allocation", "Katz"}
    for baseline in found.values():
        assert baseline.metrics["test/recall@10"] > 0.8
        assert "val/recall@10" not in baseline.metrics


def test_loaded_data_are_not_loaded_again(monkeypatch):
    recipe = find("digits")
    recipe = replace(recipe, data=replace(recipe.data, warp=0.0))
    splits = recipe.data.load()
    expected = [baseline.metrics for baseline in baselines(recipe, quick=True)]

    def load(_):
        raise AssertionError("the data are loaded again")

    monkeypatch.setattr(type(recipe.data), "load", load)
    measured = [baseline.metrics for baseline in baselines(recipe, quick=True, splits=splits)]
    assert measured == expected
    with pytest.raises(AssertionError, match="again"):  # Batches contain encodings for the model.
        next(baselines(recipe, quick=True, splits=replace(splits, codes=object())))
