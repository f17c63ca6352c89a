"""WAV files: listing, reading and resampling."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError, reading, require
from edgewise._utils.limits import LIMITS, check_memory

SUFFIXES = (".wav", ".wave")
"""Extensions of recordings; other files in a folder are ignored."""
RATES = (1_000, 400_000)
"""Lowest and highest sample rate in Hz, which bound the work of resampling."""
MEMORY_FACTOR = 16  # Memory for converting a recording, relative to the size of its file.
REMEDY = "save the recording again as WAV, or remove this file"


class Recording(NamedTuple):
    """Samples ``[T]`` (float32, mean of all channels), and the sample rate in Hz."""

    samples: Tensor
    rate: int


def read_recording(path: Path) -> Recording:
    """Read a WAV file of 8, 16, 24 or 32 bits or floating point, with any number of channels."""
    wavfile = require("scipy.io.wavfile", extra="sounds", purpose="reading recordings")
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: give the path of a WAV file.")
    size = path.stat().st_size
    LIMITS["sound_bytes"].check(size, path)
    check_memory(str(path), MEMORY_FACTOR * size, path.name, "give a shorter recording")
    expected = "a WAV file of 8, 16, 24 or 32 bits or floating point"
    with reading(path, expected=expected, remedy=REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Other chunks, such as names of artists, are skipped.
        warnings.filterwarnings("error", "Reached EOF prematurely")
        rate, values = wavfile.read(path)
    if not RATES[0] <= rate <= RATES[1]:
        raise ArgumentError(
            str(path),
            expected=f"a sample rate from {RATES[0]:,} to {RATES[1]:,} Hz",
            got=f"{rate:,} Hz",
            remedy=REMEDY,
        )
    if not len(values) or not np.isfinite(values).all():
        got = "a sample that is not a number" if len(values) else "no samples"
        raise ArgumentError(str(path), expected="a recording", got=got, remedy=REMEDY)
    return Recording(torch.from_numpy(_numbers(values)), int(rate))


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return the mean of the channels, from -1 to 1 and with mean 0."""
    mono = values.astype(np.float64).reshape(len(values), -1).mean(1)
    # Resampling would turn the offset of samples without a sign (8 bits) into noise at both ends.
    mono -= mono.mean()
    return np.asarray(mono / (np.abs(mono).max() or 1), np.float32)


def resampled(recording: Recording, rate: int) -> Recording:
    """Return a recording at another sample rate; higher frequencies are filtered out."""
    if rate == recording.rate:
        return recording
    signal = require("scipy.signal", extra="sounds", purpose="resampling recordings")
    common = math.gcd(rate, recording.rate)
    values = signal.resample_poly(
        recording.samples.numpy(), rate // common, recording.rate // common
    )
    return Recording(torch.from_numpy(values.astype(np.float32)), rate)
