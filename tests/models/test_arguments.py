"""Every size and share of every model is refused out of its range, by its name."""

from __future__ import annotations

import inspect
import math
import pickle
import re
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

from edgewise import graphs
from edgewise.app.runs.field_docs import field_meanings
from edgewise.models import MODELS
from tests.errors import case, refused

GIVEN = {
    "in_width": 5,
    "out_width": 3,
    "edge_width": 2,
    "whole_width": 2,
    "image_size": 8,
    "image_height": 14,
    "image_width": 28,
    "channels": 1,
    "vocab_size": 20,
    "max_length": 8,
    "history": 24,
    "horizon": 6,
    "season": 12,
    "num_nodes": 10,
    "num_users": 5,
    "num_items": 6,
    "num_columns": 3,
    "num_values": 5,
    "width": 64,
}


def needed(name: str) -> dict[str, int]:
    parameters = inspect.signature(MODELS[name]).parameters.values()
    return {p.name: GIVEN[p.name] for p in parameters if p.default is p.empty}


def arguments(name: str, *kinds: str) -> list[str]:
    parameters = inspect.signature(MODELS[name]).parameters.values()
    return [p.name for p in parameters if p.annotation in kinds]


@pytest.mark.parametrize("name", MODELS)
def test_integers_and_numbers_out_of_range(name: str) -> None:
    wrong = dict.fromkeys(arguments(name, "int", "int | None"), (-1, 8.5, "8"))
    wrong |= {
        one: (-0.5, math.nan, *([1.5] if "drop" in one or one == "alpha" else []))
        for one in arguments(name, "float")
    }
    assert wrong
    for argument, values in wrong.items():
        expected = "an integer of at least" if values[0] == -1 else ""
        for bad in values:
            with (
                case(f"{argument}={bad!r}"),
                refused(argument, expected=expected, got=repr(bad), remedy=f"set {argument}"),
            ):
                MODELS[name](**{**needed(name), argument: bad})


@pytest.mark.parametrize("name", MODELS)
def test_no_layer_is_no_width_and_none_at_all_only_where_that_is_a_model(name: str) -> None:
    """A stack of Transformer layers may be empty; ``depth`` convolutions are at least one."""
    told: dict[str, Any] = needed(name)
    for argument in ("width", "head_width", "heads", "patch", "ffn_dim"):
        if argument in inspect.signature(MODELS[name]).parameters:
            with refused(argument, expected="at least 1", got="0", remedy=""):
                MODELS[name](**{**told, argument: 0})


def test_numbers_of_numpy_are_sizes() -> None:
    ours, plain = MODELS["gcn"](np.int64(5), 3, width=np.int32(4)), MODELS["gcn"](5, 3, width=4)
    ours.load_state_dict(plain.state_dict())
    x, graph = torch.randn(6, 5), graphs.window(1)
    assert ours.eval()(x, graph).equal(plain.eval()(x, graph))


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_takes_by_default_it_takes_by_name(name: str) -> None:
    """A run records all of its fields, and is loaded with them."""
    parameters = inspect.signature(MODELS[name]).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    sizes = needed(name)
    if "patch" in defaults and "image_size" in sizes:
        sizes["image_size"] = 8 * defaults["patch"]
    MODELS[name](**sizes, **defaults)


@pytest.mark.parametrize("name", MODELS)
def test_each_argument_is_described_once(name: str) -> None:
    arguments = list(inspect.signature(MODELS[name]).parameters)
    assert set(arguments) <= set(field_meanings(MODELS[name]))
    doc = MODELS[name].__doc__ or ""
    assert all(len(re.findall(rf"^ +{a}: ", doc, re.MULTILINE)) <= 1 for a in arguments)


def test_a_preset_states_only_what_differs_from_its_base() -> None:
    torch.manual_seed(0)
    preset = MODELS["roberta"](20, width=8)
    torch.manual_seed(0)
    model = MODELS["bert"](20, width=8, max_length=514, types=0, epsilon=1e-5, padding=1)
    weights, same = preset.state_dict(), model.state_dict()
    assert list(weights) == list(same)
    assert all(weights[key].equal(same[key]) for key in weights)


@pytest.mark.parametrize("name", ["graphormer", "lstm", "mae"])
def test_a_factory_of_a_class_declares_the_arguments_of_the_class(name: str) -> None:
    factory, model = MODELS[name], MODELS[name](**needed(name))
    signature = inspect.signature(type(model))
    declared = signature.replace(return_annotation=type(model).__name__)
    assert inspect.signature(factory) == declared
    assert list(get_type_hints(factory)) == [*signature.parameters, "return"]
    assert get_type_hints(factory)["return"] is type(model)
    assert factory.__doc__ == type(model).__doc__
    assert (factory.__module__, factory.__qualname__) == (type(model).__module__, name)
    assert pickle.loads(pickle.dumps(factory)) is factory


@pytest.mark.parametrize(
    ("name", "argument"),
    [("swin", "image_size"), ("swin", "heads"), ("longformer", "radius")],
)
def test_one_number_in_place_of_a_tuple_may_be_of_numpy(name: str, argument: str) -> None:
    sizes: dict[str, Any] = needed(name) | ({"image_size": 32} if name == "swin" else {})
    number = sizes.get(argument, 2)
    models = [MODELS[name](**sizes | {argument: kind(number)}) for kind in (int, np.int64)]
    first, second = ({n: p.shape for n, p in m.named_parameters()} for m in models)
    assert first == second
