"""Classes of graphs."""

from __future__ import annotations

from edgewise.app.kinds.graphs import reasons, recipes
from edgewise.app.kinds.graphs.data import GraphData
from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.kinds.graphs.tu import TU
from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.train.baseline import is_large_for_trees
from edgewise.app.train.tasks.classification import Classification

__all__ = ["KIND", "TU"]

KIND = Kind(
    "graphs",
    recipes=recipes_in(recipes),
    data={"tu": TU},
    predictors=(GraphClasses,),
    baselines=(
        Baselines(
            "classes of graphs",
            "gin-mutag",
            GraphData,
            (Classification,),
            "edgewise.app.train.tree_baselines",
            is_large=is_large_for_trees,
        ),
    ),
    cases={GraphClasses: reasons.graph_class},
)


def __dir__() -> list[str]:
    return __all__
