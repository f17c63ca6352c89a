"""Tiny Shakespeare, for causal language modelling."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.data.reading import raw_texts
from edgewise.data.text.text_stream import TextStream

FILE = "input.txt"
COMMIT = "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e"
ADDRESS = f"https://raw.githubusercontent.com/karpathy/char-rnn/{COMMIT}/data/tinyshakespeare"


@dataclass(frozen=True)
class Shakespeare(TextStream):
    """Tiny Shakespeare: 1,115,394 characters of plays (Karpathy, 2015)."""

    def files(self) -> tuple[str, ...]:
        return (FILE,)

    def text(self) -> str:
        return raw_texts("tinyshakespeare", {FILE: f"{ADDRESS}/{FILE}"})[FILE]
