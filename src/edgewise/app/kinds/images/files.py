"""Image classification with one folder per class: the user's files, and a part of CIFAR-10.

Source of CIFAR-10: Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import (
    check_choice,
    check_given,
    check_range,
    check_shares,
    check_splits,
)
from edgewise._utils.errors import require
from edgewise._utils.limits import check_memory
from edgewise.app.files.class_folders import class_folders, class_labels
from edgewise.app.files.files import find_raw, not_published, verify
from edgewise.app.files.targets import class_counts
from edgewise.app.kinds.images.data import (
    ImageData,
    find_images,
    flipped,
    open_image,
    pixels,
    warped,
)
from edgewise.app.train.batches import Batch
from edgewise.app.train.folds import fill_splits
from edgewise.app.train.splits import Split, Splits

if TYPE_CHECKING:
    from PIL.Image import Image

Colors = Literal["rgb", "gray"]
CIFAR10 = "cifar10_12k"


@dataclass(frozen=True)
class ImageFolder(ImageData):
    """Images in one folder per class: ``cat/1.png``, or ``train/cat/1.png`` if splits are given.

    Images may have any size and format. They are cropped to their centre, resized, and kept in
    memory as bytes. Batches are standardised per channel over the training images.

    Attributes:
        path: folder with one subfolder per class, or with ``train`` and optionally ``val`` and
            ``test``, each with one subfolder per class.
        image_size: height and width in pixels to which images are resized.
        colors: ``"rgb"`` or ``"gray"``.
        flip: mirror each training image with probability 1/2.
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.
        val, test: fractions of images for the splits without a folder, stratified by class.
        split_seed: random seed of the split.
        batch_size: images per batch.
    """

    path: str = ""
    image_size: int = 32
    colors: Colors = "rgb"
    flip: bool = False
    warp: float = 0.0
    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0
    batch_size: int = 64

    def __post_init__(self) -> None:
        check_choice("data.colors", self.colors, get_args(Colors))
        for name in ("image_size", "batch_size"):
            check_range(f"data.{name}", getattr(self, name), "choose for example 32", least=1)
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        check_range("data.warp", self.warp, "choose for example 0.1", least=0, below=1)

    def load(self) -> Splits:
        require("PIL", extra="images", purpose="reading images")
        check_given("data.path", self.path, "a folder with one subfolder per class")
        files, keys, file_splits = class_folders(Path(self.path), find_images)
        labels = class_labels(keys, file_splits, self.path, "images")
        needed = len(files) * self._channels * self.image_size**2
        remedy = "choose a smaller --data.image_size, or fewer images"
        check_memory("data.image_size", needed, f"{len(files)} images", remedy)
        # Decoders release the GIL, so threads run in parallel.
        with ThreadPoolExecutor() as readers:
            images = torch.stack(list(readers.map(self._read, files)))
        number = {label: index for index, label in enumerate(labels)}
        target = torch.tensor([number[key] for key in keys])
        indices = fill_splits(file_splits, keys, val=self.val, test=self.test, seed=self.split_seed)
        check_splits(**indices)
        mean, std = _mean_and_std(images[indices["train"]])
        preprocessing = {"labels": labels, "mean": mean.tolist(), "std": std.tolist()}

        def split(name: str) -> Split:
            index, varied = indices[name], name == "train"
            return Split(
                len(index),
                lambda batch: Batch(
                    (self._batch(images[index[batch]], mean, std, varied),), target[index[batch]]
                ),
            )

        sizes = {
            "image_size": self.image_size,
            "channels": self._channels,
            "out_width": len(labels),
        }
        return Splits(
            sizes,
            split("train"),
            split("val"),
            split("test"),
            self.batch_size,
            preprocessing=preprocessing,
            class_counts=class_counts(target[indices["train"]], len(labels)),
        )

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:
        values = pixels(image, self.image_size, self.image_size, color=self.colors == "rgb")
        mean, std = torch.tensor(preprocessing["mean"]), torch.tensor(preprocessing["std"])
        return self._batch(values[None], mean, std, varied=False)[0]

    @property
    def _channels(self) -> int:
        return 3 if self.colors == "rgb" else 1

    def _read(self, path: Path) -> Tensor:
        image = open_image(path, self.image_size)
        return pixels(image, self.image_size, self.image_size, color=self.colors == "rgb")

    def _batch(self, images: Tensor, mean: Tensor, std: Tensor, varied: bool) -> Tensor:
        values = (images / 255 - mean[:, None, None]) / std[:, None, None]
        if varied and self.flip:
            values = flipped(values)
        return warped(values, self.warp) if varied and self.warp else values


def _mean_and_std(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel of bytes, scaled to 0 to 1."""
    counts = [torch.bincount(channel.flatten(), minlength=256) for channel in images.unbind(1)]
    count = torch.stack(counts).double()
    fraction, value = count / count.sum(1, keepdim=True), torch.arange(256).double() / 255
    mean = fraction @ value
    std = ((fraction @ value.square()) - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 1e-3, std, 1.0).float()


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

    folders = (CIFAR10,)

    flip: bool = False
    warp: float = 0.0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 64

    def __post_init__(self) -> None:
        check_range("data.val", self.val, "choose for example 0.1", least=0, below=1)
        check_range("data.warp", self.warp, "choose for example 0.1", least=0, below=1)
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)

    def load(self) -> Splits:
        raw = find_raw(CIFAR10, [], not_published(CIFAR10, ["train", "test"]))
        splits = self._folder(str(raw)).load()
        verify(CIFAR10, raw)
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
