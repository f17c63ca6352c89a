"""Initialisation of a model with the backbone weights of a finished run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.runs.hugging_face import load_hf_weights
from edgewise.app.runs.pretrained import is_hugging_face
from edgewise.app.runs.recipe_fields import model_fields, with_values
from edgewise.app.runs.vocabulary import check_vocabulary
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.folder import RECIPE, WEIGHTS, RunFolder, differing, disagreements
from edgewise.app.train.parsing import show_value
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits, TextSplits
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.layers import MultiHeadAttention
from edgewise.models import KINDS

OF_THE_RECIPE = ("graph", "pool", "drop")
"""Fine-tuning keeps the recipe's values of model fields with one of these words in their name."""
LM_HEAD = "head."
"""Prefix of the weights of the language-model head in a backbone; classifiers do not use them."""


def with_architecture(recipe: Recipe, run: RunFolder) -> Recipe:
    """Return the recipe with the model fields of a run of this model, except graph, pooling and
    dropout; unchanged for other folders.
    """
    if not run.has(RECIPE) or _model_name(run) != recipe.model.func.__name__:
        return recipe
    fields = model_fields(recipe.model, recipe.data.provides)
    values = {
        f"model.{name}": value
        for name, value in _model_record(run).items()
        if name in fields and not any(word in name for word in OF_THE_RECIPE)
    }
    return with_values(recipe, values)


def check_start(recipe: Recipe) -> None:
    """Check, before data are loaded, that the run in ``recipe.start`` has a model that fits."""
    if is_hugging_face(recipe.start):  # with_hf_model has checked it.
        return
    run = RunFolder(Path(recipe.start))
    if not run.has(WEIGHTS):
        run.refuse_several()
        raise MissingDataError(
            f"{run.weights}: no such file. Remedy: name the folder of a finished run."
        )
    model, run_model = recipe.model.func.__name__, _model_name(run)
    inputs, run_inputs = _input_kind(model), _input_kind(run_model)
    # If a model is not listed, load_backbone compares the weights.
    if inputs and run_inputs and inputs != run_inputs:
        raise ArgumentError(
            "--from",
            expected=f"a run of a model for {inputs}, like the model {model} of the recipe "
            f"{recipe.name}",
            got=f"{_description(run)} for {run_inputs}",
            remedy=f"name a run of a model for {inputs}, or omit --from",
        )
    if model == run_model:
        _check_positions(recipe, run)


def load_start(model: nn.Module, recipe: Recipe, splits: Splits) -> None:
    """Initialise a model with the weights in ``recipe.start``, a run or a Hugging Face folder."""
    if is_hugging_face(recipe.start):
        unscaled = model.model if isinstance(model, TargetScaling) else model
        labels = splits.preprocessing.get("labels") or [target.name for target in splits.targets]
        load_hf_weights(unscaled, recipe.start, labels)
        return
    run = RunFolder(Path(recipe.start))
    tokenizer = splits.tokenizer if isinstance(splits, TextSplits) else None
    check_vocabulary(run, tokenizer, "data.tokenizer")
    load_backbone(model, recipe, run)


def load_backbone(model: nn.Module, recipe: Recipe, run: RunFolder) -> None:
    """Load the backbone weights of a finished run, which may have been trained on another task."""
    state = model.state_dict()
    run_weights, weights = _backbone(run.read_tensors(WEIGHTS)), _backbone(state)
    if not run_weights or not weights:
        raise ArgumentError(
            "--from",
            expected="a run and a recipe whose models have a backbone and a head",
            got=f"{_description(run)}, and {recipe.model.func.__name__} in the recipe "
            f"{recipe.name}; the model of {'the recipe' if run_weights else 'the run'} has no "
            "separate head",
            remedy="omit --from, or name another run",
        )
    if not any(name.startswith(LM_HEAD) for name in weights):
        run_weights = {n: tensor for n, tensor in run_weights.items() if not n.startswith(LM_HEAD)}
    mismatches = disagreements(run_weights, weights)
    if mismatches:
        raise _other_model(recipe, run, mismatches)
    _check_heads(model, run)
    full_names = trunk_names(state).items()
    model.load_state_dict({name: run_weights[short] for name, short in full_names}, strict=False)


def _description(run: RunFolder) -> str:
    recipe = run.read_json(RECIPE).get("recipe")
    return f"{run.path}, a run of the recipe {recipe} with the model {_model_name(run)}"


def _model_record(run: RunFolder) -> dict[str, Any]:
    """Return the name and the arguments of a run's model; empty if ``recipe.json`` has none."""
    record = run.read_json(RECIPE).get("model")
    return record if isinstance(record, dict) else {}


def _model_name(run: RunFolder) -> str:
    return str(_model_record(run).get("use"))


def _input_kind(model: str) -> str:
    """Return the kind of input of a model, such as "text"; "" if unknown."""
    return next((kind for kind, names in KINDS.items() if model in names), "")


def _other_model(recipe: Recipe, run: RunFolder, mismatches: list[str]) -> ArgumentError:
    """Return the error for a finished run whose weights do not fit the model of a recipe."""
    model, run_model = recipe.model.func.__name__, _model_name(run)
    recorded = _model_record(run)
    sizes = {
        name: (recorded[name], field.value)
        for name, field in model_fields(recipe.model, recipe.data.provides).items()
        if isinstance(recorded.get(name), int) and recorded[name] != field.value
    }
    if model != run_model:
        got = f"{model} in the recipe {recipe.name}"
        remedy = f"choose --model {shlex.quote(run_model)}"
    elif sizes:
        got = ", ".join(f"model.{name} {size}" for name, (_, size) in sizes.items())
        remedy = f"choose {' '.join(f'--model.{name} {size}' for name, (size, _) in sizes.items())}"
    else:
        got = differing(mismatches)
        remedy = (
            f"use the same model fields as the run in {run.path}, and data with the same number "
            "of features, tokens or classes"
        )
    expected = f"the model of {_description(run)}"
    return ArgumentError("--from", expected=expected, got=got, remedy=remedy)


def _check_heads(model: nn.Module, run: RunFolder) -> None:
    """Raise ArgumentError if the numbers of heads differ, which the weights do not show."""
    run_heads = _model_record(run).get("heads")
    heads = {layer.heads for layer in model.modules() if isinstance(layer, MultiHeadAttention)}
    if run_heads is not None and heads - {run_heads}:
        raise ArgumentError(
            "model.heads",
            expected=f"{run_heads}, the number of heads of the run in {run.path}",
            got=" and ".join(map(str, sorted(heads - {run_heads}))),
            remedy=f"choose --model.heads {shlex.quote(str(run_heads))}",
        )


def _check_positions(recipe: Recipe, run: RunFolder) -> None:
    """Raise ArgumentError if the position encodings differ; many of them have no weights."""
    field = model_fields(recipe.model, recipe.data.provides).get("positions")
    run_positions = _model_record(run).get("positions")
    if field is not None and run_positions not in (None, show_value(field.value)):
        raise ArgumentError(
            "model.positions",
            expected=f"{run_positions}, the position encoding of the run in {run.path}",
            got=str(field.value),
            remedy=f"choose --model.positions {shlex.quote(str(run_positions))}",
        )


def _backbone(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {short: weights[name] for name, short in trunk_names(weights).items()}
