"""Links by relation: triples of a head, a relation and a tail."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.triples import reasons, recipes
from edgewise.app.kinds.triples.data import WN18RR, TripleFiles, Triples, is_large
from edgewise.app.kinds.triples.predict import TripleAnswers
from edgewise.app.kinds.triples.task import TriplePrediction

__all__ = ["KIND", "WN18RR", "TripleFiles", "TriplePrediction"]

KIND = Kind(
    "triples",
    recipes=recipes_in(recipes),
    data={"wn18rr": WN18RR, "triple_files": TripleFiles},
    tasks={"triple_prediction": TriplePrediction},
    predictors=(TripleAnswers,),
    baselines=(
        Baselines(
            "links by relation",
            "rgcn-wn18rr",
            Triples,
            (TriplePrediction,),
            "edgewise.app.kinds.triples.baseline",
            is_large=is_large,
        ),
    ),
    cases={TripleAnswers: reasons.answered_triples},
)


def __dir__() -> list[str]:
    return __all__
