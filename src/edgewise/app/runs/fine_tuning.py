"""Initialisation of a model with the backbone weights of a finished run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.runs.recipe_fields import model_fields, with_values
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.folder import RECIPE, RunFolder, differing, disagreements
from edgewise.app.train.parsing import show_value
from edgewise.app.train.recipe import Recipe
from edgewise.layers import MultiHeadAttention
from edgewise.models import KINDS

OF_THE_RECIPE = ("graph", "pool", "drop")
"""Fine-tuning keeps the recipe's values of model fields with one of these words in their name."""
OWN = "head."
"""Prefix of the weights of the language-model head in a backbone; classifiers do not use them."""


def with_architecture(recipe: Recipe, run: RunFolder) -> Recipe:
    """Return the recipe with the model fields of a run, such as its width and positions.

    The recipe keeps its graph, pooling and dropout. If the folder is not a run folder, or its run
    has another model, the recipe is returned unchanged.

    Args:
        recipe: recipe for fine-tuning.
        run: folder of the run with which fine-tuning starts.

    Raises:
        ArgumentError: ``recipe.json`` in the folder has an invalid value.
    """
    if not run.has(RECIPE) or _model_of(run) != recipe.model.func.__name__:
        return recipe
    known = model_fields(recipe.model, recipe.data.provides)
    values = {
        f"model.{name}": value
        for name, value in _model_record(run).items()
        if name in known and not any(word in name for word in OF_THE_RECIPE)
    }
    return with_values(recipe, values)


def check_start(recipe: Recipe) -> None:
    """Check that the run in ``recipe.start`` has a model for the same inputs as the recipe.

    This check is made before data are loaded.

    Raises:
        MissingDataError: the run does not exist or has not finished.
        ArgumentError: the run has a model for other inputs, such as texts instead of graphs, or
            with another position encoding.
    """
    run = RunFolder(Path(recipe.start))
    if not run.has(run.weights.name):
        run.refuse_several()
        raise MissingDataError(
            f"{run.weights}: no such file. Remedy: name the folder of a finished run."
        )
    ours, theirs = recipe.model.func.__name__, _model_of(run)
    reads, read = _kind_of(ours), _kind_of(theirs)
    # If a model is not listed, load_trunk compares the weights.
    if reads and read and reads != read:
        raise ArgumentError(
            "--from",
            expected=f"a run of a model for {reads}, like the model {ours} of the recipe "
            f"{recipe.name}",
            got=f"{_about(run)} for {read}",
            remedy=f"name a run of a model for {reads}, or omit --from",
        )
    if ours == theirs:
        _check_positions(recipe, run)


def load_trunk(model: nn.Module, recipe: Recipe, run: RunFolder) -> None:
    """Load the backbone weights of a finished run, which may have been trained on another task.

    Args:
        model: model to train.
        recipe: recipe of the model, checked by :func:`check_start`.
        run: folder of the finished run.

    Raises:
        ArgumentError: the model of the run is another one, or has other sizes or another number of
            heads.
    """
    state = model.state_dict()
    found, wanted = _trunk(run.read_weights()), _trunk(state)
    if not found or not wanted:
        raise ArgumentError(
            "--from",
            expected="a run and a recipe whose models have a backbone and a head",
            got=f"{_about(run)}, and {recipe.model.func.__name__} in the recipe {recipe.name}; the "
            f"model of {'the recipe' if found else 'the run'} has no separate head",
            remedy="omit --from, or name another run",
        )
    if not any(name.startswith(OWN) for name in wanted):
        found = {name: weight for name, weight in found.items() if not name.startswith(OWN)}
    wrong = disagreements(found, wanted)
    if wrong:
        raise _other_model(recipe, run, wrong)
    _check_heads(model, run)
    weights = {name: found[short] for name, short in trunk_names(state).items()}
    model.load_state_dict(weights, strict=False)


def _about(run: RunFolder) -> str:
    recipe = run.read_json(RECIPE).get("recipe")
    return f"{run.path}, a run of the recipe {recipe} with the model {_model_of(run)}"


def _model_record(run: RunFolder) -> dict[str, Any]:
    """Return the name and the arguments of a run's model; empty if ``recipe.json`` has none."""
    found = run.read_json(RECIPE).get("model")
    return found if isinstance(found, dict) else {}


def _model_of(run: RunFolder) -> str:
    return str(_model_record(run).get("use"))


def _kind_of(name: str) -> str:
    """Return the kind of input of a model with this name, such as "text"; "" if unknown."""
    return next((kind for kind, known in KINDS.items() if name in known), "")


def _other_model(recipe: Recipe, run: RunFolder, wrong: list[str]) -> ArgumentError:
    """Return the error for a finished run whose weights do not fit the model of a recipe.

    Args:
        recipe: recipe to train.
        run: folder of the finished run.
        wrong: descriptions of the weights whose shapes differ.
    """
    ours, theirs = recipe.model.func.__name__, _model_of(run)
    fields = _differing_fields(recipe, _model_record(run))
    if ours != theirs:
        got, remedy = f"{ours} in the recipe {recipe.name}", f"choose --model {shlex.quote(theirs)}"
    elif fields:
        got = ", ".join(f"model.{name} {shown}" for name, (_, shown) in fields.items())
        remedy = f"choose {' '.join(f'--model.{name} {one}' for name, (one, _) in fields.items())}"
    else:
        got = differing(wrong)
        remedy = (
            f"use the same model fields as the run in {run.path}, and data with the same number "
            "of features, tokens or classes"
        )
    return ArgumentError("--from", expected=f"the model of {_about(run)}", got=got, remedy=remedy)


def _differing_fields(recipe: Recipe, recorded: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the integer arguments of a model, such as width, that differ from a finished run.

    Args:
        recipe: recipe to train.
        recorded: content of ``recipe.json`` of the finished run.

    Returns:
        For each such argument, its value in the run and its value in ``recipe``.
    """
    fields = model_fields(recipe.model, recipe.data.provides)
    pairs = {name: (recorded.get(name), field.value) for name, field in fields.items()}
    return {
        name: pair
        for name, pair in pairs.items()
        if isinstance(pair[0], int) and pair[0] != pair[1]
    }


def _check_heads(model: nn.Module, run: RunFolder) -> None:
    """Raise ArgumentError if a model and a finished run differ in the number of heads.

    The shapes of the weights do not show this.

    Args:
        model: model to train.
        run: folder of the finished run.
    """
    heads = _model_record(run).get("heads")
    found = {layer.heads for layer in model.modules() if isinstance(layer, MultiHeadAttention)}
    others = sorted(found - {heads})
    if heads is not None and others:
        raise ArgumentError(
            "model.heads",
            expected=f"{heads}, the number of heads of the run in {run.path}",
            got=" and ".join(map(str, others)),
            remedy=f"choose --model.heads {shlex.quote(str(heads))}",
        )


def _check_positions(recipe: Recipe, run: RunFolder) -> None:
    """Raise ArgumentError if a recipe and a finished run have different position encodings.

    Many position encodings have no weights, so the weights do not show this.

    Args:
        recipe: recipe to train.
        run: folder of the finished run.
    """
    field = model_fields(recipe.model, recipe.data.provides).get("positions")
    theirs = _model_record(run).get("positions")
    if field is not None and theirs not in (None, show_value(field.value)):
        raise ArgumentError(
            "model.positions",
            expected=f"{theirs}, the position encoding of the run in {run.path}",
            got=str(field.value),
            remedy=f"choose --model.positions {shlex.quote(str(theirs))}",
        )


def _trunk(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {short: weights[name] for name, short in trunk_names(weights).items()}
