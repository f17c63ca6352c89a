"""Measured fidelity of each method of explanation, for the page of a run."""

from __future__ import annotations

from math import isnan, nan

from edgewise.app.kinds import kinds
from edgewise.app.predict.predictor import Predictor

METHODS = (
    "removed",
    "left_out",
    "gradient",
    "relevance",
    "integrated_gradients",
    "attention",
    "rollout",
    "random",
)
FIDELITIES: dict[str, tuple[float, ...]] = {
    "gat-cora": (0.224, 0.213, -0.046, nan, nan, 0.028, 0.034, -0.011),
    "sst2": (0.528, 0.528, 0.518, nan, nan, 0.017, 0.011, -0.100),
    "tag-ewt": (0.139, 0.122, 0.099, nan, nan, -0.064, -0.009, -0.085),
    "digits": (0.717, 0.147, -0.180, nan, nan, -0.145, 0.034, -0.614),
    "attentive-esol": (0.449, -0.061, -0.318, nan, nan, 0.293, 0.360, -0.564),
    "gcn-cora": (0.350, 0.350, 0.350, nan, nan, 0.004, 0.313, -0.353),
    "gat-enzymes": (-0.202, -0.233, -0.278, nan, nan, -0.378, -0.374, -0.452),
    "gin-esol": (-1.040, -0.946, -0.946, nan, nan, -2.598, -2.607, -2.044),
    "transformer-multi30k": (0.549, 0.383, 0.308, nan, nan, -0.315, -0.379, -0.323),
    "bert-wikitext": (0.300, 0.153, 0.097, nan, nan, -0.105, 0.231, -0.216),
    "masked-molecules": (0.155, 0.153, 0.097, nan, nan, 0.031, 0.052, -0.012),
    "series": (-0.269, -0.279, -0.191, nan, nan, -0.047, -0.049, -0.181),
    "sage-facebook": (0.034, -0.566, -0.619, nan, nan, -0.610, -0.667, -0.845),
    "interactions": (-0.023, -0.034, -0.034, nan, nan, -0.086, -0.078, -0.095),
}
"""Mean fidelity by recipe (``python -m benchmarks.fidelity``); the table of docs/howto/explain.md
has the same numbers. Methods that were not measured are nan."""


def fidelities_for(predictor: Predictor) -> tuple[str, dict[str, float]]:
    """Return a measured recipe and its fidelities by method: that of the run, or else one of the
    same kind, if possible with the same model. The table is empty if none was measured.
    """
    name = predictor.recipe.name
    if name not in FIDELITIES:
        kind = next(k for k in kinds() if isinstance(predictor, tuple(k.predictors)))
        measured = [r for r in kind.recipes if r.name in FIDELITIES and type(predictor).serves(r)]
        model = predictor.recipe.model.func
        measured.sort(key=lambda recipe: recipe.model.func is not model)
        name = next((recipe.name for recipe in measured), "")
    fidelities = dict(zip(METHODS, FIDELITIES.get(name, ()), strict=False))
    return name, {method: value for method, value in fidelities.items() if not isnan(value)}
