"""CIFAR-10: a selection of 12,000 images, in one folder per class.

Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009. The selection has
the first 1,000 training images and 200 test images of each class, so accuracies are not comparable
with published accuracies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from edgewise.arguments import check_least, check_share
from edgewise.data.files import find_raw, not_published, verify
from edgewise.data.images.image_data import ImageData
from edgewise.data.images.image_folder import ImageFolder
from edgewise.data.splits import Splits

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "cifar10_12k"


@dataclass(frozen=True)
class Cifar10(ImageData):
    """Images ``[B, 3, 32, 32]`` of ten classes, read by :class:`ImageFolder`.

    Attributes:
        flip: mirror each training image with probability 1/2.
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.
        val: fraction of the 10,000 training images used for validation, stratified by class.
        split_seed: random seed of the validation split.
        batch_size: images per batch.
    """

    flip: bool = False
    warp: float = 0.0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 64

    def __post_init__(self) -> None:
        check_share("data.val", self.val, "choose for example 0.1")
        check_share("data.warp", self.warp, "choose for example 0.1")
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")

    def load(self) -> Splits:
        raw = find_raw(NAME, [], not_published(NAME, ["train", "test"]))
        splits = self._folder(str(raw)).load()
        verify(NAME, raw)
        return splits

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:
        return self._folder("").to_input(image, preprocessing)

    def _folder(self, path: str) -> ImageFolder:
        return ImageFolder(
            path,
            flip=self.flip,
            warp=self.warp,
            val=self.val,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )
