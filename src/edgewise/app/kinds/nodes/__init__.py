"""Classes and numbers for the nodes of one graph."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.nodes import reasons, recipes
from edgewise.app.kinds.nodes.aifb import Aifb
from edgewise.app.kinds.nodes.arrays import ArrayNodes, ArrayNumbers, NodeArrays, node_reasons
from edgewise.app.kinds.nodes.data import NodeData, is_large
from edgewise.app.kinds.nodes.files import NodeFiles
from edgewise.app.kinds.nodes.heterophilous import Heterophilous
from edgewise.app.kinds.nodes.planetoid import Planetoid
from edgewise.app.kinds.nodes.predict import NodeClasses, NodeProperties
from edgewise.app.kinds.nodes.reasons import NodeCases
from edgewise.app.kinds.nodes.task import Consistency
from edgewise.app.train.tasks.classification import Classification

__all__ = [
    "KIND",
    "Aifb",
    "Consistency",
    "Heterophilous",
    "NodeArrays",
    "NodeCases",
    "NodeFiles",
    "Planetoid",
]

KIND = Kind(
    "nodes",
    recipes=recipes_in(recipes),
    data={
        "aifb": Aifb,
        "heterophilous": Heterophilous,
        "node_arrays": NodeArrays,
        "node_files": NodeFiles,
        "planetoid": Planetoid,
    },
    tasks={"consistency": Consistency},
    predictors=(NodeClasses, NodeProperties, ArrayNodes, ArrayNumbers),
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
        Baselines(
            "nodes on disk",
            "nodes-on-disk",
            NodeArrays,
            (Classification,),
            "edgewise.app.kinds.nodes.arrays_baseline",
            is_large=lambda _: True,
        ),
    ),
    cases={
        NodeClasses: reasons.node_class,
        NodeProperties: reasons.node_class,
        ArrayNodes: node_reasons,
        ArrayNumbers: node_reasons,
    },
)


def __dir__() -> list[str]:
    return __all__
