"""Tokens of a recording: pairs of frames of its log-mel spectrogram."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.app.kinds.sounds.files import Recording

FRAME, HOP = 0.025, 0.01
"""Length of a frame, and distance between two frames, in seconds."""
STACK = 2
"""Number of frames in a token."""
TOKEN = STACK * HOP
"""Distance between two tokens in seconds."""
TOKENS_PER_TENTH = round(0.1 / TOKEN)
MOST_PEAKS, FINEST = 1000, 40
"""Approximate maximum number of amplitudes of a drawn waveform, and maximum number in a tenth."""
FLOOR = 1e-4  # Added to the power, relative to the mean power, so that silence is finite.
BLOCK = 4096  # Number of frames transformed at once, to limit memory.


def tokens_of(recording: Recording, bands: int, *, subtract_mean: bool = False) -> Tensor:
    """Return log-mel features ``[N, STACK * bands]``, which do not depend on the loudness."""
    samples, rate = recording
    samples = samples / samples.square().mean().sqrt().clamp(min=1e-12)
    length, hop = round(FRAME * rate), round(HOP * rate)
    count = STACK * math.ceil(len(samples) / (STACK * hop))
    padded = F.pad(samples, (0, (count - 1) * hop + length - len(samples)))
    fft_size = 2 ** math.ceil(math.log2(2 * length))
    filters, window = mel_filters(rate, fft_size, bands), torch.hann_window(length)

    def log_mel(frames: Tensor) -> Tensor:
        power = torch.fft.rfft(frames * window, fft_size).abs().square() / length
        log_power: Tensor = (power @ filters + FLOOR).log()
        return log_power

    blocks = padded.unfold(0, length, hop).split(BLOCK)
    spectrogram = torch.cat([log_mel(block) for block in blocks])
    if subtract_mean:
        spectrogram = spectrogram - spectrogram.mean(0)
    return spectrogram.view(-1, STACK * bands)


@lru_cache(maxsize=8)
def mel_filters(rate: int, fft_size: int, bands: int) -> Tensor:
    """Return triangular filters ``[fft_size // 2 + 1, bands]``, evenly spaced in mel."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2).double() / 2595) - 1)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    frequency = torch.linspace(0, rate / 2, fft_size // 2 + 1).double()[:, None]
    rising, falling = (frequency - low) / (centre - low), (high - frequency) / (high - centre)
    return torch.minimum(rising, falling).clamp(min=0).float()


def times(count: int) -> list[str]:
    """Return the first time of each token, such as ``"0.34 s"``."""
    return [f"{token * TOKEN:.2f} s" for token in range(count)]


def tenths(count: int) -> tuple[Tensor, list[str]]:
    """Return the tenth of a second of each token, ``[count]``, and the names of the tenths."""
    tenth = torch.arange(count) // TOKENS_PER_TENTH
    labels = [f"{i / 10:.1f}-{(i + 1) / 10:.1f} s" for i in range(int(tenth[-1]) + 1)]
    return tenth, labels


def waveform(recording: Recording) -> tuple[list[float], int]:
    """Return the largest amplitude in each of equal short intervals, as a fraction of the largest,
    and the number of intervals in a tenth of a second.
    """
    samples, rate = recording
    tenth = _tenth(rate)
    bins = min(FINEST, max(1, MOST_PEAKS * tenth // len(samples)))
    interval = torch.arange(len(samples)) * bins // tenth
    peaks = samples.new_zeros(int(interval[-1]) + 1)
    peaks.scatter_reduce_(0, interval, samples.abs(), "amax")
    peaks = peaks / peaks.max().clamp(min=1e-12)
    return [round(peak, 3) for peak in peaks.tolist()], bins


def _tenth(rate: int) -> int:
    """Return the number of samples in a tenth of a second, a whole number of tokens."""
    return TOKENS_PER_TENTH * STACK * round(HOP * rate)


def with_background(recording: Recording, tenths: Tensor) -> Recording:
    """Return a recording with the quietest other tenth of a second in place of some tenths, a mask
    ``[T]``; with zeros in place of all.
    """
    samples, rate = recording
    length = _tenth(rate)
    tenth = (torch.arange(len(samples)) // length).clamp(max=len(tenths) - 1)
    if tenths.all():
        return Recording(torch.zeros_like(samples), rate)
    power, count = (
        samples.new_zeros(len(tenths)).index_add(0, tenth, x)
        for x in (samples.square(), torch.ones_like(samples))
    )
    # A short last tenth, repeated, could be another sound.
    is_candidate = ~tenths & (count >= min(length, int(count[~tenths].max())))
    quietest = (power / count).masked_fill(~is_candidate, math.inf).argmin()
    background = samples[tenth == quietest]
    repeated = background.repeat(-(-len(samples) // len(background)))[: len(samples)]
    return Recording(torch.where(tenths[tenth], repeated, samples), rate)
