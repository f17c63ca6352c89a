"""Predictor for recordings: classes and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.class_folders import input_files
from edgewise.app.kinds.sounds.data import SoundData
from edgewise.app.kinds.sounds.features import times, waveform
from edgewise.app.kinds.sounds.files import SUFFIXES, read_recording
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.train.tasks.classification import Classification


class SoundClasses(Predictor):
    """Most probable classes of a recording: a WAV file, or a folder or table of WAV files."""

    ordered = True

    data, task, input = SoundData, Classification, "a WAV file"

    def from_words(self, words: Sequence[str]) -> Iterator[Path]:
        for word in words:
            yield from _recordings_at(Path(word))

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read a recording, a folder, or a list or table of paths relative to its folder."""
        if path.is_dir() or path.suffix.lower() in SUFFIXES:
            for file in _recordings_at(path):
                yield None, {"input": str(file)}, file
        else:
            for line, row, value in super().from_file(path):
                yield line, row, path.parent / value

    def columns(self) -> tuple[str, ...]:
        return (str(self.preprocessing.values["file"]),)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return times(len(self.prepare(value))), None

    def details(self, value: Any) -> dict[str, Any]:
        peaks, bins = waveform(read_recording(Path(value)))
        return {"waveform": {"peaks": peaks, "bins": bins}}

    def prepare(self, value: Any) -> Tensor:
        data = self.recipe.data
        assert isinstance(data, SoundData)
        if not isinstance(value, (str, Path)):
            raise _no_file(type(value).__name__)
        try:
            recording = read_recording(Path(value))
        except MissingDataError as error:
            raise _no_file(f"{value}, which does not exist") from error
        return data.to_tokens(recording, self.preprocessing.values)

    def answer(self, examples: list[Tensor], *, top: int = 1) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, SoundData)
        sizes = torch.tensor([len(tokens) for tokens in examples])
        batch = data.batch_of(torch.cat(examples), sizes, torch.empty(0))
        scores = self.model(*batch.inputs, **batch.keywords)
        return top_labels(scores.softmax(-1), self.preprocessing.values["labels"], top)


def _recordings_at(path: Path) -> list[Path]:
    return input_files(path, SUFFIXES, "recordings", "give another folder, or WAV files")


def _no_file(got: str) -> ArgumentError:
    return ArgumentError("input", expected="a WAV file", got=got, remedy="give an existing file")
