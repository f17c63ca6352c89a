"""Texts generated from texts."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.translation import reasons, recipes
from edgewise.app.kinds.translation.data import Multi30k, Parallel, TextPairs
from edgewise.app.kinds.translation.files import PairTable
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.kinds.translation.task import Translation

__all__ = ["KIND", "Multi30k", "PairTable", "Parallel", "Translation"]

KIND = Kind(
    "translation",
    recipes=recipes_in(recipes),
    data={"multi30k": Multi30k, "pair_table": PairTable, "parallel": Parallel},
    tasks={"translation": Translation},
    predictors=(Translations,),
    baselines=(
        Baselines(
            "pairs of texts",
            "transformer-multi30k",
            TextPairs,
            (Translation,),
            "edgewise.app.kinds.translation.baseline",
        ),
    ),
    cases={Translations: reasons.translation},
    explanations={Translations: reasons.explain_translation},
)


def __dir__() -> list[str]:
    return __all__
