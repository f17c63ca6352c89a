"""Creation of a :class:`Case` for each prediction (answer) of a run, for each kind of run."""

from __future__ import annotations

from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds import entry_for, kinds
from edgewise.app.predict.predictor import Predictor
from edgewise.explain.attribution import Case


def cases(predictor: Predictor, value: Any, *, top: int = 1) -> list[Case]:
    """Return a case for each part of the answer to an input, such as each word of a sentence.

    Args:
        predictor: predictor of a run.
        value: an input, as given to :meth:`edgewise.app.predict.Predictor.prepare`.
        top: number of recommended items or links to explain.

    Raises:
        ArgumentError: the input is invalid, or answers of this kind of run cannot be explained.
    """
    for module in predictor.model.modules():
        # Removing a node from the graph does not remove it from a recurrent network.
        if isinstance(module, torch.nn.RNNBase):
            raise ArgumentError(
                "run",
                expected="a model without recurrent layers, which would still read a removed token",
                got=f"a model with {type(module).__name__}",
                remedy="choose a run of a Transformer or graph network",
            )
    make = entry_for(predictor, "cases")
    if make is None:
        names = [predictor_class.__name__ for kind in kinds() for predictor_class in kind.cases]
        raise ArgumentError(
            "run",
            expected=f"a run with one of the predictors {', '.join(sorted(names))}",
            got=f"the predictor {type(predictor).__name__}",
            remedy="pass a Case of your own to edgewise.explain.contributions",
        )
    return list(make(predictor, value, top))
