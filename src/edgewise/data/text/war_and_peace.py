"""War and Peace as one long stream of tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgewise.data.reading import raw_texts
from edgewise.data.text.text_stream import TextStream
from edgewise.errors import ArgumentError

FILE = "2600-0.txt.gz"
COMMIT = "fa22ab90f00f627e83d14acabe32d91602d2365d"
ADDRESS = f"https://raw.githubusercontent.com/GITenberg/War-and-Peace_2600/{COMMIT}/2600-0.txt"
BOOK = re.compile(r"\*\*\* START OF[^\n]*\n(.*?)End of the Project Gutenberg", re.DOTALL)


@dataclass(frozen=True)
class WarAndPeace(TextStream):
    """Tolstoy's novel in English, 3.2 million characters, without Project Gutenberg's notes."""

    def files(self) -> tuple[str, ...]:
        return (FILE,)

    def text(self) -> str:
        text = raw_texts("war_and_peace", {FILE: ADDRESS})[FILE]
        book = BOOK.search(text)
        if book is None:
            raise ArgumentError(
                FILE,
                expected="a text between Project Gutenberg's marks *** START OF and End of the",
                got="none",
                remedy="copy or download it again",
            )
        return book[1].strip() + "\n"
