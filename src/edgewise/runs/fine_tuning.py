"""Fine-tuning: a training that starts from the weights of another run."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.errors import ArgumentError, MissingDataError
from edgewise.layers import MultiHeadAttention
from edgewise.training import RunFolder
from edgewise.training.trunk import trunk_names

OWN = "head."
"""Scores of tokens below a text model's trunk, which a model for labels does without."""


def load_trunk(model: nn.Module, run: RunFolder) -> None:
    """Take the weights of a trunk, by name, from a finished run; its task may be another.

    Raises:
        MissingDataError: there is no such run, or it has not finished.
        ArgumentError: a weight is missing, or has another shape; all of them are listed. Or its
            weights were trained as another number of heads.
    """
    if not run.weights.is_file():
        run.refuse_several()
        raise MissingDataError(
            f"{run.weights}: no such file. Remedy: name the folder of a run that has finished."
        )
    found, wanted = _trunk(run.read_weights()), _trunk(model.state_dict())
    if not found or not wanted:
        raise ArgumentError(
            "--from",
            expected="a run and a recipe of models of one kind with a head, of texts or graphs",
            got=f"no trunk in {run.weights if not found else 'the recipe'}",
            remedy="leave it out, or name another run",
        )
    wrong = _disagreements(found, wanted)
    if wrong:
        raise ArgumentError(
            "--from",
            expected=f"the model of {run.path}",
            got=f"{len(wrong)} weights that differ: {'; '.join(wrong)}",
            remedy="choose the model's fields as in its recipe.json",
        )
    _check_heads(model, run)
    own = trunk_names(model.state_dict())
    weights = {name: found[short] for name, short in own.items()}
    model.load_state_dict(weights, strict=False)


def _check_heads(model: nn.Module, run: RunFolder) -> None:
    """The weights of eight heads have the shapes of those of two, and mean something else."""
    heads = run.read_json("recipe.json").get("model", {}).get("heads")
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
