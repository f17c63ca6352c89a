"""Classes and numbers for the nodes of one graph."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.nodes import reasons, recipes
from edgewise.app.kinds.nodes.data import NodeData
from edgewise.app.kinds.nodes.files import NodeFiles
from edgewise.app.kinds.nodes.planetoid import Planetoid
from edgewise.app.kinds.nodes.predict import NodeClasses, NodeProperties
from edgewise.app.kinds.nodes.reasons import NodeCases
from edgewise.app.kinds.nodes.task import Consistency
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.tasks.classification import Classification

__all__ = ["KIND", "Consistency", "NodeCases", "NodeFiles", "Planetoid"]

QUICK = 20_000
"""Maximum number of nodes with which ``edgewise train`` evaluates baselines."""
QUICK_FEATURES = 15_000_000
"""Maximum number of entries of the feature matrix with which ``edgewise train`` evaluates
baselines; averaging over neighbours makes it dense."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    count = len(run.values.get("ids", ()))
    return bool(count > QUICK or count * run.model_arguments["in_width"] > QUICK_FEATURES)


KIND = Kind(
    "nodes",
    recipes=recipes_in(recipes),
    data={"node_files": NodeFiles, "planetoid": Planetoid},
    tasks={"consistency": Consistency},
    predictors=(NodeClasses, NodeProperties),
    baselines=(
        Baselines(
            "classes of nodes",
            "gcn-cora",
            NodeData,
            (Classification, Consistency),
            "edgewise.app.kinds.nodes.baseline",
            "train,graphs",
            is_large=is_large,
        ),
    ),
    cases={NodeClasses: reasons.node_class, NodeProperties: reasons.node_class},
)


def __dir__() -> list[str]:
    return __all__
