"""Items recommended to users."""

from __future__ import annotations

from edgewise.app.kinds.items import reasons, recipes
from edgewise.app.kinds.items.data import Gowalla, Interactions
from edgewise.app.kinds.items.files import InteractionFiles
from edgewise.app.kinds.items.predict import Recommendations
from edgewise.app.kinds.items.task import Recommendation
from edgewise.app.kinds.kind import Baselines, Kind, recipes_in

__all__ = ["KIND", "Gowalla", "InteractionFiles", "Recommendation"]

KIND = Kind(
    "items",
    recipes=recipes_in(recipes),
    data={"gowalla": Gowalla, "interactions": InteractionFiles},
    tasks={"recommendation": Recommendation},
    predictors=(Recommendations,),
    baselines=(
        Baselines(
            "users and items",
            "lightgcn-gowalla",
            Interactions,
            (Recommendation,),
            "edgewise.app.kinds.items.baseline",
            "train,graphs",
        ),
    ),
    cases={Recommendations: reasons.recommended_items},
)


def __dir__() -> list[str]:
    return __all__
