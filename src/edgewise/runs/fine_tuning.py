"""Fine-tuning: a training that starts from the weights of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise.errors import ArgumentError, MissingDataError
from edgewise.layers import MultiHeadAttention
from edgewise.models import KINDS
from edgewise.recipes.recipe import Recipe
from edgewise.runs.recipe_fields import model_fields
from edgewise.training import RunFolder
from edgewise.training.folder import RECIPE
from edgewise.training.trunk import trunk_names

OWN = "head."
"""Scores of tokens below a text model's trunk, which a model for labels does without."""
SHOWN = 3
"""Weights that an error lists before it only counts them."""


def check_start(recipe: Recipe) -> None:
    """Refuse, before any data are read, a run whose model reads something else.

    Raises:
        MissingDataError: there is no such run, or it has not finished.
        ArgumentError: its model is of another kind, such as of texts where ours is of graphs.

    """
    run = RunFolder(Path(recipe.start))
    if not run.weights.is_file():
        run.refuse_several()
        raise MissingDataError(
            f"{run.weights}: no such file. Remedy: name the folder of a run that has finished."
        )
    ours, theirs = recipe.model.func.__name__, _model_of(run)
    reads, read = _kind_of(ours), _kind_of(theirs)
    if reads and read and reads != read:  # of somebody's own model the weights will tell
        raise ArgumentError(
            "--from",
            expected=f"a run of a model for {reads}, as the recipe {recipe.name} has in {ours}",
            got=f"{_about(run)}, which is for {read}",
            remedy="name a run of that kind, or leave --from out",
        )


def load_trunk(model: nn.Module, recipe: Recipe, run: RunFolder) -> None:
    """Take the weights of a trunk, by name, from a finished run; its task may be another.

    Args:
        model: what is to be trained.
        recipe: which it is of; :func:`check_start` has passed it.
        run: where the weights are.

    Raises:
        ArgumentError: it is another model or one of other sizes, which are named, or its weights
            were trained as another number of heads.

    """
    found, wanted = _trunk(run.read_weights()), _trunk(model.state_dict())
    if not found or not wanted:
        raise ArgumentError(
            "--from",
            expected="a run and a recipe of models of one kind with a head, of texts or graphs",
            got=f"{_about(run)}, and {recipe.model.func.__name__} in the recipe {recipe.name}: "
            f"{'the recipe' if found else 'the run'} has no head apart from what carries over",
            remedy="leave it out, or name another run",
        )
    wrong = _disagreements(found, wanted)
    if wrong:
        raise _other_model(recipe, run, wrong)
    _check_heads(model, run)
    own = trunk_names(model.state_dict())
    weights = {name: found[short] for name, short in own.items()}
    model.load_state_dict(weights, strict=False)


def _about(run: RunFolder) -> str:
    return f"{run.path}, a run of {run.read_json(RECIPE).get('recipe')}: {_model_of(run)}"


def _model_of(run: RunFolder) -> str:
    return str(run.read_json(RECIPE).get("model", {}).get("use"))


def _kind_of(name: str) -> str:
    """What a model is for, in words; nothing of one that is not listed."""
    return next((kind for kind, known in KINDS.items() if name in known), "")


def _other_model(recipe: Recipe, run: RunFolder, wrong: list[str]) -> ArgumentError:
    """By its name, by the fields that differ, or, where none does, by the weights themselves."""
    ours, theirs = recipe.model.func.__name__, _model_of(run)
    fields = _differing_fields(recipe, run.read_json(RECIPE).get("model", {}))
    if ours != theirs:
        got, remedy = f"{ours} in the recipe {recipe.name}", f"choose --model {theirs}"
    elif fields:
        got = ", ".join(f"model.{name} {shown}" for name, (_, shown) in fields.items())
        remedy = f"choose {' '.join(f'--model.{name} {one}' for name, (one, _) in fields.items())}"
    else:
        got = differing(wrong)
        remedy = "bring data of the sizes that it was trained on"
    return ArgumentError("--from", expected=f"the model of {_about(run)}", got=got, remedy=remedy)


def differing(wrong: list[str]) -> str:
    """The first few of the weights that differ, and how many there are."""
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return f"{len(wrong)} weights that differ: {'; '.join(wrong[:SHOWN])}{more}"


def _differing_fields(recipe: Recipe, recorded: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Its value and ours of each whole number, by name: widths and depths, not dropout or pool."""
    fields = model_fields(recipe.model, recipe.data.provides)
    pairs = {name: (recorded.get(name), field.value) for name, field in fields.items()}
    return {
        name: pair
        for name, pair in pairs.items()
        if isinstance(pair[0], int) and pair[0] != pair[1]
    }


def _check_heads(model: nn.Module, run: RunFolder) -> None:
    """The weights of eight heads have the shapes of those of two, and mean something else."""
    heads = run.read_json(RECIPE).get("model", {}).get("heads")
    found = {layer.heads for layer in model.modules() if isinstance(layer, MultiHeadAttention)}
    others = sorted(found - {heads})
    if heads is not None and others:
        raise ArgumentError(
            "model.heads",
            expected=f"{heads}, as the run in {run.path} was trained with",
            got=" and ".join(map(str, others)),
            remedy=f"choose --model.heads {heads}",
        )


def _trunk(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {short: weights[name] for name, short in trunk_names(weights).items()}


def _disagreements(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> list[str]:
    heads = any(name.startswith(OWN) for name in wanted)
    wrong = []
    for name in {**wanted, **found}:  # in the order of the model
        if name.startswith(OWN) and not heads:
            continue
        shapes = [
            "none" if name not in weights else str(list(weights[name].shape))
            for weights in (found, wanted)
        ]
        if shapes[0] != shapes[1]:
            wrong.append(f"{name} is {shapes[0]} there and {shapes[1]} here")
    return wrong
