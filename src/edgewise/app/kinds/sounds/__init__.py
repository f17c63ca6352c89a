"""Classes of recordings."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.sounds import reasons, recipes
from edgewise.app.kinds.sounds.data import SoundData, Sounds, SpokenDigits
from edgewise.app.kinds.sounds.predict import SoundClasses
from edgewise.app.train.tasks.classification import Classification

__all__ = ["KIND", "Sounds", "SpokenDigits"]

KIND = Kind(
    "sounds",
    recipes=recipes_in(recipes),
    data={"sounds": Sounds, "spoken_digits": SpokenDigits},
    predictors=(SoundClasses,),
    baselines=(
        Baselines(
            "recordings",
            "spoken-digits",
            SoundData,
            (Classification,),
            "edgewise.app.kinds.sounds.baseline",
        ),
    ),
    cases={SoundClasses: reasons.sound_class},
)


def __dir__() -> list[str]:
    return __all__
