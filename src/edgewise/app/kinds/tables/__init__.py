"""Tables with keys: columns of a row, predicted from the rows that keys connect with it."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.tables import reasons, recipes
from edgewise.app.kinds.tables.data import RelationalData, Shop, Tables
from edgewise.app.kinds.tables.predict import RowProperties
from edgewise.app.train.tasks.property_prediction import PropertyPrediction

__all__ = ["KIND", "Shop", "Tables"]

KIND = Kind(
    "tables",
    recipes=recipes_in(recipes),
    data={"shop": Shop, "tables": Tables},
    predictors=(RowProperties,),
    baselines=(
        Baselines(
            "tables with keys",
            "shop",
            RelationalData,
            (PropertyPrediction,),
            "edgewise.app.kinds.tables.baseline",
        ),
    ),
    cases={RowProperties: reasons.row_properties},
)


def __dir__() -> list[str]:
    return __all__
