"""Choice of the predictor for a run."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds import kinds
from edgewise.app.predict.predictor import Predictor
from edgewise.app.train.recipe import Recipe


def all_predictors() -> Iterator[type[Predictor]]:
    """Yield the predictors of all kinds."""
    for kind in kinds():
        yield from kind.predictors


def predictor_of(recipe: Recipe) -> type[Predictor]:
    """Return the first predictor that supports runs of a recipe.

    Raises:
        ArgumentError: no predictor supports the recipe's data and task.

    Example:
        >>> from edgewise.app.runs import predictor_of
        >>> from edgewise.app.kinds import find
        >>> predictor_of(find("molecules")).__name__
        'MoleculeProperties'
    """
    for predictor in all_predictors():
        if predictor.serves(recipe):
            return predictor
    raise ArgumentError(
        "run",
        expected=f"a run on {', '.join(sorted({p.input for p in all_predictors()}))}",
        got=f"a run of {recipe.name}: {type(recipe.data).__name__}, {type(recipe.task).__name__}",
        remedy="load its weights with edgewise.app.train.RunFolder(path).load_weights(model), or "
        "add a Predictor in a package, as docs/howto/own_recipes.md shows",
    )
