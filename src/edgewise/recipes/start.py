"""Fine-tuning: a training that starts from the weights of another run."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.errors import ArgumentError, MissingDataError
from edgewise.training import RunFolder

TRUNK = "trunk."
OWN = "trunk.head."
"""Scores of tokens, which a model for labels does without."""


def load_trunk(model: nn.Module, run: RunFolder) -> None:
    """Take the weights of a text model, by name, from a finished run; its task may be another.

    Raises:
        MissingDataError: there is no such run, or it has not finished.
        ArgumentError: a weight is missing, or has another shape; all of them are listed.
    """
    from safetensors.torch import load_file

    if not run.weights.is_file():
        raise MissingDataError(
            f"{run.weights}: no such file. Remedy: name the folder of a run that has finished."
        )
    found, wanted = _trunk(load_file(run.weights)), _trunk(model.state_dict())
    if not found or not wanted:
        raise ArgumentError(
            "--from",
            expected="a run and a recipe of text models, whose weights carry over",
            got=f"no weight of one in {run.weights if not found else 'the recipe'}",
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
    model.load_state_dict({name: found[name] for name in wanted}, strict=False)


def _trunk(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights.items() if name.startswith(TRUNK)}


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
            wrong.append(f"{name.removeprefix(TRUNK)} is {shapes[0]} there and {shapes[1]} here")
    return wrong
