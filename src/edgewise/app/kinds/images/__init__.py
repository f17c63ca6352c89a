"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.images.digits import Digits, Mnist
from edgewise.app.kinds.images.files import Cifar10, ImageFolder

__all__ = ["Cifar10", "Digits", "ImageFolder", "Mnist"]


def __dir__() -> list[str]:
    return __all__
