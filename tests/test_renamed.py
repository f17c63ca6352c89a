"""Old names lead to the new ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from edgewise import data, encodings, layers, models, tasks, training
from edgewise.cli import main
from edgewise.errors import ArgumentError
from edgewise.renamed import CLASSES, RENAMED, new_name, new_parameter_name, with_new_names
from tests.errors import refused


@pytest.mark.parametrize(
    ("old", "known", "new"),
    [
        ("feed_forward", {"ffn_dim", "width"}, "ffn_dim"),
        ("model.feed_forward", {"model.ffn_dim"}, "model.ffn_dim"),
        ("model.hidden", {"model.head_width", "model.heads"}, "model.head_width"),
        ("model.hidden", {"model.width", "model.heads"}, "model.width"),
        ("model.draws", {"model.random_attention"}, "model.random_attention"),
        ("data.path", {"data.path", "data.max_path_length"}, None),  # still a name
        ("model.feed_forward", {"model.width"}, None),  # replaced by nothing that this model has
        ("model.nothing", {"model.width"}, None),
    ],
)
def test_an_old_name_gives_the_new_one_that_is_known(
    old: str, known: set[str], new: str | None
) -> None:
    assert new_name(old, known) == new


def test_keys_are_replaced_and_values_kept() -> None:
    known = {"vocab_size", "width"}
    assert with_new_names({"vocabulary": 7, "width": 8}, known) == {"vocab_size": 7, "width": 8}


def test_parameters_are_renamed_by_whole_parts_of_their_names() -> None:
    assert new_parameter_name("trunk.reader.layers.0.reader_bias") == (
        "trunk.backbone.layers.0.reader_bias"
    )


RENAMED_ARGUMENTS: list[tuple[Callable[..., Any], str, str]] = [
    (models.bert, "vocabulary", "vocab_size"),
    (models.gat, "hidden", "head_width"),
    (models.graphormer, "path", "max_path_length"),
    (layers.FeedForward, "hidden", "ffn_dim"),
    (layers.TextModel, "reader", "backbone"),
    (encodings.Buckets, "most_distant", "max_distance"),
    (encodings.PathEdges, "longest", "max_path_length"),
    (encodings.path_edges, "longest", "max_path_length"),
    (encodings.distance_encoding, "longest", "max_distance"),
    (encodings.intimate_nodes, "most", "num_neighbours"),
    (training.TrainerSettings, "better", "mode"),
    (tasks.Translation, "beams", "num_beams"),
    (data.text_table, "longest", "max_length"),
    (data.sst2, "vocabulary_size", "vocab_size"),  # a subclass
    (data.Splits, "fitted", "preprocessing"),
]


@pytest.mark.parametrize(("function", "old", "new"), RENAMED_ARGUMENTS)
def test_an_old_argument_is_refused_with_the_new_name(
    function: Callable[..., Any], old: str, new: str
) -> None:
    with refused(old, expected=new, got="the old name", remedy=f"write {new}"):
        function(**{old: 1})


@pytest.mark.parametrize("package", ["data", "encodings", "layers", "models", "tasks", "training"])
def test_a_class_or_model_with_a_new_name_refuses_the_old_one(package: str) -> None:
    module = import_module(f"edgewise.{package}")
    values = [getattr(module, name) for name in module.__all__]
    for value in values:
        if package == "models" and inspect.isfunction(value) and hasattr(value, "__wrapped__"):
            known = inspect.signature(value).parameters
        elif inspect.isclass(value) and "__init__" in vars(value):
            known = inspect.signature(value.__init__).parameters
        else:
            continue
        for old in RENAMED:
            if new_name(old, known):
                with pytest.raises(ArgumentError, match=rf"`{old}`: expected the new name, "):
                    value(**{old: 1})


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [(package, *names) for package, known in CLASSES.items() for names in known.items()],
)
def test_an_old_class_is_refused_with_the_new_name(package: str, old: str, new: str) -> None:
    module = import_module(package)
    assert hasattr(module, new)
    assert not hasattr(module, f"{old}Nothing")
    with refused(f"{package}.{old}", expected=new, got="the old name", remedy=f"write {new}"):
        getattr(module, old)
    with pytest.raises(ArgumentError, match=f"write {new}"):
        exec(f"from {package} import {old}")


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("gpt-shakespeare --model.feed_forward 8", "model.feed_forward", "model.ffn_dim"),
        ("gat-cora --model.hidden 8", "model.hidden", "model.head_width"),
        ("gat-cora --trainer.better lower", "trainer.better", "trainer.mode"),
        ("texts --data.longest 8", "data.longest", "data.max_length"),
    ],
)
def test_an_old_field_on_the_command_line_is_refused_with_the_new_name(
    words: str, old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words.split(), "--out", str(tmp_path / "run")]) == 2
    assert f"`{old}`: expected the new name, {new}" in capsys.readouterr().err
