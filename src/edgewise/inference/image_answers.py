"""Answers on image files: classes with their probabilities, and captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgewise.data.images.caption_digits import CaptionDigits
from edgewise.data.images.image_data import SUFFIXES, ImageData, find_images, open_image
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.inference.predictor import Answer, Predictor
from edgewise.inference.sentences import labelled
from edgewise.tasks import Captioning, Classification


class OnImages(Predictor):
    """What answers on image files, folders with them, or images of Pillow have in common."""

    input = "an image file"

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        for word in words:
            path = Path(word)
            yield from _images_in(path) if path.is_dir() else [path]

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """An image, a folder of images, or a list or table that names files."""
        if path.is_dir() or path.suffix.lower() in SUFFIXES:
            for image in _images_in(path) if path.is_dir() else [path]:
                yield None, {"input": str(image)}, image
        else:
            yield from super().from_file(path)

    def columns(self) -> tuple[str, ...]:
        return ("file",)

    def prepare(self, value: Any) -> Tensor:
        data = self.recipe.data
        assert isinstance(data, ImageData)
        if isinstance(value, (str, Path)):
            try:
                value = open_image(Path(value))
            except MissingDataError as error:
                raise ArgumentError(
                    "input",
                    expected="an image file",
                    got=f"{value}, and there is no such file",
                    remedy="name one that is there",
                ) from error
        elif not hasattr(value, "convert"):
            raise ArgumentError(
                "input",
                expected="the path of an image, or an image of Pillow",
                got=type(value).__name__,
                remedy="give a path, or PIL.Image.fromarray(array)",
            )
        return data.to_input(value, self.fitted.values)


class ImageClasses(OnImages):
    """The likeliest classes of an image."""

    data, task = ImageData, Classification

    def answer(self, examples: list[Tensor], *, top: int = 1) -> list[Answer]:
        scores = self.model(torch.stack(examples))
        return labelled(scores.softmax(-1), self.fitted.values["labels"], top)


class Captions(OnImages):
    """The caption of an image."""

    data, task = CaptionDigits, Captioning

    def answer(self, examples: list[Tensor]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, CaptionDigits)
        found = self.recipe.task.generate(self.model, data.asked(torch.stack(examples)))
        return [{"caption": text} for text in found]


def _images_in(folder: Path) -> list[Path]:
    found = find_images(folder)
    if not found:
        raise ArgumentError(
            "input",
            expected=f"a folder with images ({', '.join(SUFFIXES)})",
            got=str(folder),
            remedy="name another folder, or files",
        )
    return found
