"""Measured fidelity of each method of explanation, for the page of a run."""

from __future__ import annotations

from math import isnan, nan
from typing import get_args

from edgewise.app.kinds import kinds
from edgewise.app.predict.predictor import Predictor
from edgewise.explain.attribution import Method

OTHERS = tuple(name for name in get_args(Method) if name not in {"auto", "removed"})
METHODS = ("removed", *OTHERS, "random")
FIDELITIES: dict[str, tuple[float, ...]] = {
    "gat-cora": (0.224, 0.213, -0.046, 0.113, 0.116, 0.028, 0.034, -0.011),
    "gcn-cora": (0.383, 0.226, 0.226, 0.226, 0.181, 0.071, 0.084, 0.004),
    "sage-facebook": (-0.232, -0.231, -0.757, -0.757, -0.764, -0.678, -0.599, -0.833),
    "gat-enzymes": (0.003, -0.048, -0.081, -0.136, -0.110, -0.156, -0.150, -0.194),
    "attentive-esol": (0.194, -0.307, -0.278, 0.210, -0.095, 0.138, 0.076, -0.391),
    "gin-esol": (-1.078, -1.211, -1.211, -1.211, -1.219, -1.867, -1.841, -1.678),
    "interactions": (-0.006, -0.015, -0.015, -0.019, 0.000, -0.074, -0.070, -0.091),
    "sst2": (0.445, 0.414, 0.405, 0.445, 0.422, -0.075, -0.069, -0.160),
    "tag-ewt": (0.103, 0.090, 0.042, 0.089, 0.072, -0.039, 0.014, -0.045),
    "bert-wikitext": (0.300, 0.153, 0.097, nan, nan, -0.105, 0.231, -0.216),
    "transformer-multi30k": (0.549, 0.383, 0.308, nan, nan, -0.315, -0.379, -0.323),
    "pairs": (0.804, -0.030, 0.149, 0.804, 0.804, 0.269, 0.289, -0.238),
    "digits": (0.691, 0.077, -0.047, 0.317, -0.369, -0.070, 0.238, -0.605),
    "series": (1.123, -1.409, -1.770, 1.267, 1.059, -2.147, -2.184, -2.291),
    "spoken-digits": (-0.021, -0.110, -0.179, -0.139, -0.079, -0.203, -0.120, -0.440),
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
