"""Classes of images."""

from __future__ import annotations

from edgewise.app.kinds.images import reasons, recipes
from edgewise.app.kinds.images.data import ImageData
from edgewise.app.kinds.images.digits import Digits, Mnist
from edgewise.app.kinds.images.files import Cifar10, ImageFolder
from edgewise.app.kinds.images.predict import ImageClasses, OnImages
from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.train.tasks.classification import Classification

__all__ = ["KIND", "Cifar10", "Digits", "ImageFolder", "Mnist"]

KIND = Kind(
    "images",
    recipes=recipes_in(recipes),
    data={"cifar10": Cifar10, "digits": Digits, "image_folder": ImageFolder, "mnist": Mnist},
    predictors=(ImageClasses,),
    baselines=(
        Baselines(
            "images", "digits", ImageData, (Classification,), "edgewise.app.kinds.images.baseline"
        ),
    ),
    cases={ImageClasses: reasons.image_class},
    explanations={OnImages: reasons.explain_image},
)


def __dir__() -> list[str]:
    return __all__
