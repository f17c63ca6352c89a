"""Causal language modelling on the user's own text files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.arguments import check_given
from edgewise.data.reading import read_own_text
from edgewise.data.text.text_stream import TextStream


@dataclass(frozen=True)
class TextFiles(TextStream):
    """The user's own text files, concatenated.

    Attributes:
        paths: text files in UTF-8, plain or gzipped.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
        context, windows, stride, consecutive, val, test: see :class:`TextStream`.
    """

    paths: tuple[str, ...] = ()

    def files(self) -> tuple[str, ...]:
        return self.paths

    def text(self) -> str:
        expected = "text files, separated by commas"
        check_given("data.paths", self.paths, expected, "name the text files with --data.paths")
        *others, last = (read_own_text(Path(path)) for path in self.paths)
        # Without a final newline, the last line would be joined to the next file.
        return "".join(text if text.endswith("\n") else f"{text}\n" for text in others) + last
