"""Every size and share of every model is refused out of its range, by its name."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch

from edgewise import graphs
from edgewise.models import MODELS
from tests.errors import refused

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
    "width": 64,
}


def needed(name: str) -> dict[str, int]:
    parameters = inspect.signature(MODELS[name]).parameters.values()
    return {p.name: GIVEN[p.name] for p in parameters if p.default is p.empty}


def of_kind(*kinds: str) -> list[tuple[str, str]]:
    return [
        (name, parameter.name)
        for name, model in MODELS.items()
        for parameter in inspect.signature(model).parameters.values()
        if parameter.annotation in kinds
    ]


@pytest.mark.parametrize(("name", "argument"), of_kind("int", "int | None"))
def test_sizes(name: str, argument: str) -> None:
    for bad in (-1, 8.5, "8"):
        with refused(argument, expected="an integer of at least", got=repr(bad), remedy="choose"):
            MODELS[name](**{**needed(name), argument: bad})


@pytest.mark.parametrize(("name", "argument"), of_kind("float"))
def test_shares_and_other_numbers(name: str, argument: str) -> None:
    for bad in (-0.5, math.nan, *([1.5] if argument.startswith("drop") else [])):
        with refused(argument, expected="", got=repr(bad), remedy="choose"):
            MODELS[name](**{**needed(name), argument: bad})


@pytest.mark.parametrize("name", MODELS)
def test_no_layer_is_no_width_and_none_at_all_only_where_that_is_a_model(name: str) -> None:
    """A stack of Transformer layers may be empty; ``depth`` convolutions are at least one."""
    told: dict[str, Any] = needed(name)
    for argument in ("width", "hidden", "heads", "patch", "ffn_dim"):
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
