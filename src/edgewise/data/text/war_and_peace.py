"""War and Peace, for causal language modelling."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgewise.data.reading import raw_texts
from edgewise.data.text.text_stream import TextStream

FILE = "2600-0.txt.gz"
COMMIT = "fa22ab90f00f627e83d14acabe32d91602d2365d"
ADDRESS = f"https://raw.githubusercontent.com/GITenberg/War-and-Peace_2600/{COMMIT}/2600-0.txt"
BOOK = re.compile(r"\*\*\* START OF[^\n]*\n(.*?)End of the Project Gutenberg", re.DOTALL)


@dataclass(frozen=True)
class WarAndPeace(TextStream):
    """Tolstoy's novel in English: 3.2 million characters, without Project Gutenberg's notes."""

    def files(self) -> tuple[str, ...]:
        return (FILE,)

    def text(self) -> str:
        book = BOOK.search(raw_texts("war_and_peace", {FILE: ADDRESS})[FILE])
        assert book is not None  # The checksum has verified the file.
        return book[1].strip() + "\n"
