"""Image files: listing, decoding, resizing and random augmentation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.errors import MissingDataError, reading, require
from edgewise._utils.limits import LIMITS, check_memory
from edgewise.app.files.class_folders import visible_files
from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Data, Split

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""Extensions of image files; other files in a folder are ignored."""
BYTES_PER_PIXEL = 16  # Memory for decoding and converting an image.


@dataclass(frozen=True)
class ImageData(Data):
    """Base class of image data, with batches ``[B, C, H, W]``."""

    section = "Images"

    provides: ClassVar[tuple[str, ...]] = ("image_size", "channels", "out_width")

    @abstractmethod
    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:
        """Convert an image of any size and mode to the model input ``[C, H, W]``."""


def find_images(folder: Path) -> list[Path]:
    """Return the sorted image files in a folder and its subfolders, except hidden files."""
    return visible_files(folder, SUFFIXES)


def open_image(path: Path, size: int = 0) -> Image:
    """Decode an image, apply its EXIF orientation, and place transparent images on white."""
    require("PIL", extra="images", purpose="reading images")
    from PIL import Image, ImageOps

    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: give the path of an image file.")
    limit = LIMITS["image_pixels"]
    if Image.MAX_IMAGE_PIXELS is not None:  # Pillow's own limit must not be below a raised limit.
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, limit.value)
    with (
        reading(
            path,
            expected="an image, such as PNG or JPEG",
            remedy="save the image again, or remove this file",
        ),
        Image.open(path) as image,
    ):
        if size:
            image.draft(None, (2 * size, 2 * size))
        limit.check(image.width * image.height, path)
        needed = BYTES_PER_PIXEL * image.width * image.height
        check_memory(str(path), needed, path.name, "reduce the size of this image")
        turned = ImageOps.exif_transpose(image)
        # Images with these modes are grey, with more than 8 bits.
        if turned.mode.startswith(("I", "F")):
            return _of_8_bits(turned)
        if turned.has_transparency_data:
            turned = turned.convert("RGBA")
            white = Image.new("RGBA", turned.size, "white")
            return Image.alpha_composite(white, turned).convert("RGB")
        return turned.convert("L" if turned.mode in ("1", "L", "LA") else "RGB")


def _of_8_bits(image: Image) -> Image:
    from PIL import Image

    grey = np.asarray(image, dtype=np.float64)
    top = 65535.0 if grey.max() > 255 else 255.0 if grey.max() > 1 else 1.0
    return Image.fromarray((grey / top * 255).clip(0, 255).astype(np.uint8))


def pixels(image: Image, height: int, width: int, *, color: bool) -> Tensor:
    """Crop the centre of an image and resize it, to bytes ``[3, H, W]`` or ``[1, H, W]``."""
    from PIL import Image, ImageOps

    shown = image.convert("RGB" if color else "L")
    if shown.size != (width, height):
        # For reduction, use the mean over each output pixel; a bilinear filter would blur.
        smaller = shown.width >= width and shown.height >= height
        how = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
        shown = ImageOps.fit(shown, (width, height), how)
    values = torch.from_numpy(np.array(shown)).view(height, width, -1)
    return values.permute(2, 0, 1).contiguous()


def bright_on_dark(values: Tensor) -> Tensor:
    """Invert a grey image ``[1, H, W]`` if the border is bright, as in photos of handwriting."""
    rim = torch.cat([values[:, 0], values[:, -1], values[:, :, 0], values[:, :, -1]], dim=1)
    return 1 - values if float(rim.mean()) > 0.5 else values


def affine_maps(count: int, strength: float) -> Tensor:
    """Return affine maps ``[count, 2, 3]``: identity plus noise, for coordinates from -1 to 1."""
    identity = torch.eye(2, 3).repeat(count, 1, 1)
    return identity + strength * (2 * torch.rand_like(identity) - 1)


def warped(images: Tensor, strength: float) -> Tensor:
    """Apply a random affine map (:func:`affine_maps`) to each image of ``[B, C, H, W]``."""
    maps = affine_maps(len(images), strength)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def flipped(images: Tensor) -> Tensor:
    """Mirror each image of ``[B, C, H, W]`` with probability 1/2."""
    mirrored = torch.rand(len(images)) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def warped_split(images: Tensor, labels: Tensor, strength: float = 0.0) -> Split:
    """Return a split of images ``[N, C, H, W]``, from 0 to 1 or bytes, warped in every batch."""

    def make(index: Tensor) -> Batch:
        chosen = images[index]
        chosen = chosen / 255 if chosen.dtype == torch.uint8 else chosen
        return Batch((warped(chosen, strength) if strength else chosen,), labels[index])

    return Split(len(labels), make)
