"""Links between the nodes of one graph."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.links import reasons, recipes
from edgewise.app.kinds.links.data import EdgeList, EgoFacebook, Links
from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.kinds.links.task import LinkPrediction

__all__ = ["KIND", "EdgeList", "EgoFacebook", "LinkPrediction"]

KIND = Kind(
    "links",
    recipes=recipes_in(recipes),
    data={"edge_list": EdgeList, "ego_facebook": EgoFacebook},
    tasks={"link_prediction": LinkPrediction},
    predictors=(LinkSuggestions,),
    baselines=(
        Baselines(
            "links",
            "sage-facebook",
            Links,
            (LinkPrediction,),
            "edgewise.app.kinds.links.baseline",
            "graphs",
        ),
    ),
    cases={LinkSuggestions: reasons.suggested_links},
)


def __dir__() -> list[str]:
    return __all__
