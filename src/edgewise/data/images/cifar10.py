"""Twelve thousand images of CIFAR-10, from files: a folder a class.

Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009; of each class the
first 1,000 training and 200 test images, so that published accuracies are not of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from edgewise.arguments import check_least, check_share
from edgewise.data.files import find_raw, not_published
from edgewise.data.images.image_data import ImageData
from edgewise.data.images.image_folder import ImageFolder
from edgewise.data.splits import Splits

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "cifar10_12k"


@dataclass(frozen=True)
class Cifar10(ImageData):
    """Images ``[B, 3, 32, 32]`` of ten classes; see :class:`ImageFolder`, which reads them.

    Attributes:
        flip: whether training images are mirrored, half of them, differently every time.
        warp: how much training images are turned, stretched, sheared and moved; at 0.1 by up to a
            tenth of their size.
        val: the share of the 10,000 training images to validate on; each class has its share.
        split_seed: which images these are.
        batch_size: images in a batch.

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
        return self._folder(str(find_raw(NAME, [], not_published(NAME, ["train", "test"])))).load()

    def to_input(self, image: Image, fitted: dict[str, Any]) -> Tensor:
        return self._folder("").to_input(image, fitted)

    def _folder(self, path: str) -> ImageFolder:
        return ImageFolder(
            path,
            flip=self.flip,
            warp=self.warp,
            val=self.val,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )
