"""Decoding: texts from a language model, token by token.

A step is attention from one target on the same causal pattern, with what was computed before kept
in a cache.
"""

from __future__ import annotations

from edgewise.decoding.beam import beam_search
from edgewise.decoding.choose import Choose, Greedy, Sample
from edgewise.decoding.continuation import Continuation
from edgewise.decoding.generation import generate

__all__ = ["Choose", "Continuation", "Greedy", "Sample", "beam_search", "generate"]


def __dir__() -> list[str]:
    return __all__
