"""Classes of images."""

from __future__ import annotations

from edgewise.app.kinds.images import reasons, recipes
from edgewise.app.kinds.images.data import ImageData
from edgewise.app.kinds.images.digits import Digits, Mnist
from edgewise.app.kinds.images.files import Cifar10, ImageFolder
from edgewise.app.kinds.images.predict import ImageClasses, OnImages
from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.tasks.classification import Classification

__all__ = ["KIND", "Cifar10", "Digits", "ImageFolder", "Mnist"]

QUICK = 1_000_000
"""Maximum number of training pixels with which ``edgewise train`` evaluates baselines."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    size = run.model_arguments["image_size"]
    height, width = size if isinstance(size, tuple) else (size, size)
    pixels = height * width * run.model_arguments["channels"]
    return bool(run.train_examples * pixels > QUICK)


KIND = Kind(
    "images",
    recipes=recipes_in(recipes),
    data={"cifar10": Cifar10, "digits": Digits, "image_folder": ImageFolder, "mnist": Mnist},
    predictors=(ImageClasses,),
    baselines=(
        Baselines(
            "images",
            "digits",
            ImageData,
            (Classification,),
            "edgewise.app.kinds.images.baseline",
            is_large=is_large,
        ),
    ),
    cases={ImageClasses: reasons.image_class},
    explanations={OnImages: reasons.explain_image},
)


def __dir__() -> list[str]:
    return __all__
