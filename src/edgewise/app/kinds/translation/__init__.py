"""Texts generated from texts."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.translation import reasons, recipes
from edgewise.app.kinds.translation.data import Multi30k, Parallel, TextPairs
from edgewise.app.kinds.translation.files import PairTable
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.kinds.translation.task import Translation
from edgewise.app.train.preprocessing import Preprocessing

__all__ = ["KIND", "Multi30k", "PairTable", "Parallel", "Translation"]

QUICK = 50_000
"""Maximum size of the training data with which ``edgewise train`` evaluates baselines.

The size is the number of texts times the number of tokens of the longest source text.
"""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    return bool(run.train_examples * run.values.get("longest", 1) > QUICK)


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
            is_large=is_large,
        ),
    ),
    cases={Translations: reasons.translation},
    explanations={Translations: reasons.explain_translation},
)


def __dir__() -> list[str]:
    return __all__
