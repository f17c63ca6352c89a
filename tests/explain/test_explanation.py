"""Explanations of answers: names, positions and texts of each kind of run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import explain, models
from edgewise.app.kinds import find
from edgewise.app.kinds.language import LanguageModeling, TextFiles
from edgewise.app.runs import train, with_values
from edgewise.explain.explanation import grid_positions
from tests.errors import refused
from tests.explain import small_runs

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")
SMALL = {"model.width": 8, "model.depth": 2, "model.heads": 2}
SMALL |= {"trainer.epochs": 1, "trainer.accelerator": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("explained")


def assert_named(found: explain.Explanation) -> None:
    for layer in found.recorded:
        targets, sources = found.labels_of(layer)
        assert (len(targets), len(sources)) == (layer.graph.num_targets, layer.graph.num_sources)


def test_a_sentence_has_its_tokens(folder: Path) -> None:
    run = edgewise.load(small_runs.sentences(folder / "sentences"))
    found = explain.explanation(run, "a big film")
    assert found.kind == "sequence"
    assert found.labels == ["<cls>", "a", "big", "film", "<sep>"]
    assert found.answer.startswith("label praise, probability 0.")
    assert len(found.recorded) == 2
    assert_named(found)
    assert "praise" in repr(found)
    named = explain.explanation(run, "a big film", labels="vwxyz", kind="graph", heads=[1])
    assert named.labels == [*"vwxyz"]
    assert named.kind == "graph"
    assert named.recorded[0].heads == [1]
    with refused("input", expected="a sentence", got="3", remedy="sentence"):
        explain.explanation(run, 3)


@pytest.mark.slow
def test_a_beginning_is_continued(folder: Path) -> None:
    (folder / "mine.txt").write_text("the cat sat on the mat .\n" * 200)
    source = TextFiles(paths=(str(folder / "mine.txt"),), kind="words", context=12, batch_size=4)
    sizes = {"width": 8, "depth": 1, "heads": 2, "ffn_dim": 8, "max_length": 12, "dropout": 0.0}
    path = small_runs.trained(folder / "gpt", models.gpt, source, LanguageModeling(), **sizes)
    found = explain.explanation(edgewise.load(path), "the cat sat")
    assert found.kind == "sequence"
    assert [label.strip() for label in found.labels] == ["the", "cat", "sat"]
    assert found.answer.startswith("the cat sat")
    assert_named(found)


@pytest.mark.slow
def test_a_translation_has_two_texts(folder: Path) -> None:
    run = edgewise.load(small_runs.translations(folder / "translations", epochs=40))
    found = explain.explanation(run, "the cat sat")
    assert found.kind == "pair of sequences"
    assert [label.strip() for label in found.labels] == ["the", "cat", "sat", "<eos>"]
    assert found.target_labels[0] == "<bos>"
    assert found.answer == run.predict(["the cat sat"])[0]["translation"] != ""
    encoder, decoder, cross = found.recorded
    assert found.labels_of(encoder) == (found.labels, found.labels)
    assert found.labels_of(decoder) == (found.target_labels, found.target_labels)
    assert found.labels_of(cross) == (found.target_labels, found.labels)
    assert_named(found)


def test_a_molecule_has_atoms_with_places(folder: Path) -> None:
    pytest.importorskip("rdkit")
    smiles = ["CCO", "CCN", "c1ccccc1O", "CC(=O)O", "CCCl", "CCCC", "COC", "CC#N"]
    rows = [f"{one};{number}" for number, one in enumerate(smiles)]
    (folder / "mine.csv").write_text("\n".join(["structure;y", *rows]))
    values = {"data.path": str(folder / "mine.csv"), "data.val": 0.25, "data.target": "y"}
    train(with_values(find("molecules"), values | SMALL), folder / "molecules")
    found = explain.explanation(edgewise.load(folder / "molecules"), "CC(=O)O")
    assert found.kind == "molecule"
    assert found.labels == ["C1", "C2", "O3", "O4"]
    assert found.positions is not None
    assert found.positions.shape == (4, 2)
    assert len(found.positions.unique(dim=0)) == 4
    assert found.details["smiles"] == found.details["input"] == "CC(=O)O"
    assert found.details["bonds"] == [[0, 1], [1, 2], [1, 3]]
    assert found.details["orders"] == [1.0, 2.0, 1.0]
    assert found.answer.startswith("y ")
    assert_named(found)


def test_a_model_without_a_run_has_numbers() -> None:
    model = models.vit(8, 3, 4, width=8, depth=1, heads=2).eval()
    found = explain.explanation(model, torch.randn(1, 3, 8, 8))
    assert found.kind == "image"
    assert found.labels[:5] == [*(f"row 1, column {i}" for i in range(1, 5)), "row 2, column 1"]
    assert found.details["image"].shape == (3, 8, 8)
    positions = found.positions_of(found.recorded[0])
    assert positions is not None
    assert positions[:5].tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [0, -1]]
    text = explain.explanation(
        models.gpt(9, width=8, depth=1, heads=2).eval(), torch.arange(3)[None]
    )
    assert (text.kind, text.labels) == ("sequence", ["1", "2", "3"])
    named: Any = explain.explanation(
        models.gpt(9, width=8, depth=1, heads=2).eval(), {"input_ids": torch.arange(3)[None]}
    )
    assert named.kind == "sequence"
    with refused("model", expected="Module", got="str", remedy="load"):
        explain.explanation("runs/mine", "a")


def test_positions_of_patches() -> None:
    with_token = grid_positions(5)
    assert with_token is not None
    assert with_token.tolist() == [[-1, 1], [0, 0], [1, 0], [0, -1], [1, -1]]
    assert grid_positions(7) is None
