"""Fields by dotted names: found, read by their type, refused with the nearest name, recorded."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from edgewise import graphs, models
from edgewise.app.cli.parser import parse
from edgewise.app.kinds import RECIPES, find
from edgewise.app.runs import fields_of, from_record, to_record, with_values
from edgewise.app.runs.recipe_fields import model_fields
from edgewise.app.runs.record import differences
from edgewise.app.runs.train_recipe import build_model
from edgewise.app.train.parsing import read_value, show_value
from edgewise.app.train.preprocessing import Preprocessing
from tests.errors import refused

DIGITS, LLAMA = find("digits"), find("gpt-shakespeare-best")


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", RECIPES)
def test_a_record_has_every_field_and_alone_rebuilds_a_recipe(name):
    record = to_record(RECIPES[name])
    rebuilt = from_record(json.loads(json.dumps(record)))
    assert to_record(rebuilt) == record
    assert fields_of(rebuilt) == fields_of(RECIPES[name])
    assert type(rebuilt.schedule) is type(RECIPES[name].schedule)
    for field in fields_of(RECIPES[name]):
        part, _, key = field.rpartition(".")
        assert key in (record[part] if part else record), field


def test_what_the_data_decide_is_no_field():
    assert not {"model.image_size", "model.channels", "model.out_width"} & set(fields_of(DIGITS))


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("model.heads", "8", 8),
        ("optimizer.lr", "1e-2", 0.01),
        ("optimizer.lr", "1", 1.0),
        ("model.pool", "class", "class"),
        ("model.graph", "window(4) | hubs([0])", graphs.window(4) | graphs.hubs([0])),
        ("seed", "3", 3),
        ("trainer.mode", "min", "min"),
        ("from", "runs/before", "runs/before"),
    ],
)
def test_values_are_read_by_their_type(field, text, value):
    changed = with_values(DIGITS, {field: text})
    found = fields_of(changed)[field].value
    assert (found, type(found)) == (value, type(value))
    others = {k: f for k, f in fields_of(changed).items() if k != field}
    assert others == {k: f for k, f in fields_of(DIGITS).items() if k != field}
    again = from_record(json.loads(json.dumps(to_record(changed))))
    assert fields_of(again)[field].value == value


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("1", True)])
def test_words_for_true_and_false(text, value):
    assert with_values(find("gcn-cora"), {"data.normalize": text}).data.normalize is value


def test_optional_values():
    assert read_value("x", "none", int | None) is None
    assert read_value("x", "3", int | None) == 3
    with refused("x", expected="a whole number", got="'three'", remedy="fields"):
        read_value("x", "three", int | None)


def test_whole_numbers_separated_by_commas():
    kind = int | tuple[int, ...]
    assert read_value("x", "3", kind) == 3
    assert read_value("x", "3,-4", kind) == (3, -4)
    assert read_value("x", [1], tuple[int, ...]) == (1,)
    assert read_value("x", "", tuple[int, ...]) == ()
    with refused("x", expected="a whole number", got="'a'", remedy="fields"):
        read_value("x", "1,a", tuple[int, ...])


@pytest.mark.parametrize(
    ("field", "text", "argument", "near"),
    [
        ("model.head", "4", "field", "model.heads"),
        ("trainer.epoch", "4", "field", "trainer.epochs"),
        ("model.image_size", "4", "field", ""),
        ("model.heads", "3.5", "model.heads", "`edgewise show"),
        ("model.heads", "many", "model.heads", ""),
        ("model.pool", "meen", "model.pool", "mean"),
        ("model.graph", "windw(3)", "graph", "window"),
        ("optimizer.lr", "-1", "optimizer.lr", ""),
        ("optimizer.lr", "inf", "optimizer.lr", "`edgewise show"),
    ],
)
def test_bad_fields(field, text, argument, near):
    with refused(argument, expected="", got="", remedy=near):
        with_values(DIGITS, {field: text})


def test_a_llama_of_a_record_has_its_heads_and_biases():
    told = {"key_heads": 2, "head_width": 8, "bias": True}
    record = json.loads(json.dumps(to_record(replace(LLAMA, model=partial(LLAMA.model, **told)))))
    assert {name: record["model"][name] for name in told} == told
    rebuilt = from_record(record).model(vocab_size=9)
    assert rebuilt.backbone.stack.layers[0].attention.sublayer.qkv.widths == (32, 16, 16)
    assert rebuilt.backbone.stack.layers[0].attention.sublayer.qkv.bias is not None


def test_the_record_of_an_older_llama_is_the_same_recipe():
    record = to_record(LLAMA)
    for name in ("key_heads", "head_width", "bias"):
        del record["model"][name]
    assert differences(from_record(record), LLAMA) == []


def test_the_numbers_that_a_model_begins_with_can_be_recorded():
    for name, model in models.MODELS.items():
        for key, field in model_fields(partial(model), ()).items():
            if field.value is not inspect.Parameter.empty:
                shown = json.loads(json.dumps(show_value(field.value)))
                assert read_value(key, shown, field.kind) == field.value, (name, key)


def unnamed(image_size: int, channels: int, out_width: int, **options: int) -> None:
    """A model that hides its arguments."""


@pytest.mark.parametrize(
    ("recipe", "argument", "expected", "got", "remedy"),
    [
        (
            replace(DIGITS, model=partial(unnamed, depth=2)),
            "model.depth",
            "a named parameter of unnamed",
            "depth=2",
            "a named parameter",
        ),
        (
            replace(LLAMA, model=partial(models.llama, rates=torch.ones(3))),
            "model.rates",
            "",
            "tensor",
            "",
        ),
    ],
)
def test_what_a_record_cannot_have_is_refused(recipe, argument, expected, got, remedy):
    with refused(argument, expected=expected, got=got, remedy=remedy):
        to_record(recipe)


@pytest.mark.parametrize("seed", [-1, 2**32, 10**23, float("nan")])
def test_seeds_that_no_generator_takes(seed):
    with refused("seed", expected="from 0 to 4294967295", got=repr(seed), remedy="such as 0"):
        replace(DIGITS, seed=seed)
    with_values(DIGITS, {"seed": str(2**32 - 1)})


def as_typed(value):
    """As one would write it on the command line."""
    shown = show_value(value)
    if isinstance(shown, list):
        return ",".join(str(item) for item in shown)
    return "none" if shown is None else str(shown)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", RECIPES)
def test_every_field_can_be_given_on_the_command_line(name):
    fields = fields_of(RECIPES[name])
    typed = {field: as_typed(about.value) for field, about in fields.items() if "." in field}
    pairs = [word for field, text in typed.items() for word in (f"--{field}", text)]
    joined = [f"--{field}={text}" for field, text in typed.items()]
    for options in (pairs, joined):
        given = parse(["train", name, *options]).fields
        assert given == typed
        assert fields_of(with_values(RECIPES[name], given)) == fields


def test_another_model_keeps_the_fields_that_both_have():
    recipe = find("sst2")
    other = with_values(recipe, {"model": "lstm", "model.depth": "3"})
    kept = {name: field.value for name, field in fields_of(other).items() if "model" in name}
    assert kept["model"] == "lstm"
    assert kept["model.width"] == recipe.model.keywords["width"]
    assert kept["model.depth"] == 3
    assert "model.heads" not in kept
    assert other.data == recipe.data
    rebuilt = from_record(json.loads(json.dumps(to_record(other))))
    assert fields_of(rebuilt) == fields_of(other)
    assert differences(recipe, other)[0] == "model: bert in the run, lstm now"
    named = with_values(find("nodes"), {"data.nodes": "nodes.csv"})
    assert differences(named, find("nodes")) == ["data.nodes: nodes.csv in the run, '' now"]
    assert fields_of(with_values(recipe, {"model": "bert"})) == fields_of(recipe)


@pytest.mark.parametrize(
    ("name", "expected", "got", "remedy"),
    [
        ("gat", "roberta", "gat, a model for other inputs", "another model"),
        ("berta", "bert", "'berta'", "did you mean"),
        ("transformer", "lstm", "other inputs", "another recipe"),
    ],
)
def test_a_model_of_another_kind_is_refused(name, expected, got, remedy):
    with refused("model", expected=expected, got=got, remedy=remedy):
        with_values(find("sst2"), {"model": name})


def test_kinds_of_models_are_all_of_them():
    assert sorted(name for kind in models.KINDS.values() for name in kind) == sorted(models.MODELS)


def test_unknown_recipe():
    with refused("recipe", expected="gat-cora", got="'gatcora'", remedy="gat-cora"):
        find("gatcora")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.pop("model"),
        lambda r: r["data"].update(use="digit"),
        lambda r: r["model"].update(use="vitt"),
        lambda r: r["model"].update(head=3),
        lambda r: r["optimizer"].update(lr="fast"),
        lambda r: r["model"].update(heads=[3]),
        lambda r: r["model"].update(heads=float("inf")),
        lambda r: r.update(trainer=None),
    ],
)
def test_bad_records(spoil):
    record = json.loads(json.dumps(to_record(DIGITS)))
    spoil(record)
    with pytest.raises(ValueError, match="Remedy"):
        from_record(record)


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (models.exphormer, "does not use: --data.descriptors false"),
        (models.graph_gin, "does not use: --data.bonds false --data.descriptors false"),
    ],
)
def test_a_model_says_how_molecules_are_read_without_what_it_lacks(model, remedy):
    recipe = replace(find("molecules"), model=partial(model))
    sizes = {"in_width": 4, "out_width": 1, "edge_width": 3, "descriptor_width": 5}
    with refused("model", expected="descriptor_width", got=model.__name__, remedy=remedy):
        build_model(recipe, Preprocessing(sizes, None, {}))


def test_conditions_have_no_switch_that_leaves_them_out():
    recipe = replace(find("molecules"), model=partial(models.graph_gin))
    sizes = {"in_width": 4, "out_width": 1, "edge_width": 3, "global_width": 2}
    with refused("model", expected="global_width", got="graph_gin", remedy="another model"):
        build_model(recipe, Preprocessing(sizes, None, {}))
