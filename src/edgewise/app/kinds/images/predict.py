"""Predictor for image files: classes and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.class_folders import input_files
from edgewise.app.kinds.images.data import SUFFIXES, ImageData, open_image
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.train.tasks.classification import Classification


class OnImages(Predictor):
    """Base of predictors on image files, folders of images, and Pillow images."""

    ordered = True

    input = "an image file"

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        for word in words:
            yield from _images_at(Path(word))

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read an image, a folder of images, or a list or table of file names."""
        if path.is_dir() or path.suffix.lower() in SUFFIXES:
            for image in _images_at(path):
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
                    got=f"{value}, which does not exist",
                    remedy="give an existing file",
                ) from error
        elif not hasattr(value, "convert"):
            raise ArgumentError(
                "input",
                expected="the path of an image, or a Pillow image",
                got=type(value).__name__,
                remedy="give a path, or PIL.Image.fromarray(array)",
            )
        return data.to_input(value, self.preprocessing.values)

    def show(self, value: Any) -> str:
        if isinstance(value, str | Path):
            return str(value)
        return f"image of {value.width} × {value.height} pixels"


class ImageClasses(OnImages):
    """Most probable classes of an image."""

    data, task = ImageData, Classification

    def answer(self, examples: list[Tensor], *, top: int = 1) -> list[Answer]:
        scores = self.model(torch.stack(examples))
        return top_labels(scores.softmax(-1), self.preprocessing.values["labels"], top)


def _images_at(path: Path) -> list[Path]:
    return input_files(path, SUFFIXES, "images", "give another folder, or image files")
