"""Properties of molecules."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.molecules import reasons, recipes, zinc_recipes
from edgewise.app.kinds.molecules.data import MoleculeTable
from edgewise.app.kinds.molecules.predict import MoleculeProperties, PenalisedLogP
from edgewise.app.kinds.molecules.solubility import ESOL, IonicLiquids
from edgewise.app.kinds.molecules.zinc import ZINC
from edgewise.app.train.baseline import is_large_for_trees
from edgewise.app.train.tasks.property_prediction import PropertyPrediction
from edgewise.app.train.tasks.regression import Regression

__all__ = ["ESOL", "KIND", "ZINC", "IonicLiquids", "MoleculeTable"]

KIND = Kind(
    "molecules",
    recipes=recipes_in(recipes, zinc_recipes),
    data={
        "esol": ESOL,
        "ionic_liquids": IonicLiquids,
        "molecule_table": MoleculeTable,
        "zinc": ZINC,
    },
    predictors=(MoleculeProperties, PenalisedLogP),
    baselines=(
        Baselines(
            "molecules",
            "gin-esol",
            (ZINC, MoleculeTable),
            (PropertyPrediction, Regression),
            "edgewise.app.train.tree_baselines",
            is_large=is_large_for_trees,
        ),
    ),
    cases={
        MoleculeProperties: reasons.molecule_properties,
        PenalisedLogP: reasons.penalised_logp,
    },
    explanations={
        MoleculeProperties: reasons.explain_molecule,
        PenalisedLogP: reasons.explain_molecule,
    },
)


def __dir__() -> list[str]:
    return __all__
