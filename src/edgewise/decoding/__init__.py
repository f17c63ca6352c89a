"""Text generation: greedy decoding, sampling and beam search with cached keys and values."""

from __future__ import annotations

from edgewise.decoding.beam import beam_search
from edgewise.decoding.choose import Choose, Greedy, Sample
from edgewise.decoding.continuation import Continuation
from edgewise.decoding.generation import generate

__all__ = ["Choose", "Continuation", "Greedy", "Sample", "beam_search", "generate"]


def __dir__() -> list[str]:
    return __all__
