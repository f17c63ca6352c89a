"""Long texts for causal language modelling: public texts, and the files of the user."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgewise._utils.arguments import check_given
from edgewise.app.files.reading import raw_texts, read_own_text
from edgewise.app.kinds.language.data import TextStream

GITHUB = "https://raw.githubusercontent.com"
BOOK = re.compile(r"\*\*\* START OF[^\n]*\n(.*?)End of the Project Gutenberg", re.DOTALL)


@dataclass(frozen=True)
class Shakespeare(TextStream):
    """Tiny Shakespeare: 1,115,394 characters of plays (Karpathy, 2015).

    Example:
        >>> from edgewise.app.kinds.language import Shakespeare
        >>> Shakespeare(context=64).load().model_arguments  # doctest: +SKIP
        {'vocab_size': 65}
    """

    folders = ("tinyshakespeare",)

    def files(self) -> tuple[str, ...]:
        return ("input.txt",)

    def text(self) -> str:
        at = "karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare"
        return _texts("tinyshakespeare", at, self)[0]


@dataclass(frozen=True)
class WarAndPeace(TextStream):
    """Tolstoy's novel in English: 3.2 million characters, without Project Gutenberg's notes.

    Example:
        >>> from edgewise.app.kinds.language import WarAndPeace
        >>> splits = WarAndPeace(context=256).load()  # doctest: +SKIP
    """

    folders = ("war_and_peace",)

    def files(self) -> tuple[str, ...]:
        return ("2600-0.txt.gz",)

    def text(self) -> str:
        at = "GITenberg/War-and-Peace_2600/fa22ab90f00f627e83d14acabe32d91602d2365d"
        book = BOOK.search(_texts("war_and_peace", at, self)[0])
        assert book is not None  # The checksum has verified the file.
        return book[1].strip() + "\n"

    def training_texts(self) -> list[str]:
        """Return the paragraphs of the novel."""
        return [paragraph.replace("\n", " ") for paragraph in self.text().split("\n\n")]


@dataclass(frozen=True)
class WikiText2(TextStream):
    """Wikipedia articles (Merity et al., 2016), with the *validation* file for training.

    The published training file is not used, so perplexities are not comparable with published
    perplexities. The test set is the published test file.

    Example:
        >>> from edgewise.app.kinds.language import WikiText2
        >>> splits = WikiText2(kind="bpe", vocab_size=4000).load()  # doctest: +SKIP
    """

    folders = ("wikitext-2",)

    def files(self) -> tuple[str, ...]:
        return ("valid.txt", "test.txt")

    def text(self) -> str:
        return "".join(self._read())

    def read_splits(self) -> tuple[str, str, str]:
        valid, test = self._read()
        first = int(len(valid) * self.val)
        return valid[first:], valid[:first], test

    def _read(self) -> list[str]:
        commit = "77f55b912142e11fcfdf5b530231fb9c52f181e8"
        return _texts(
            "wikitext-2", f"pytorch/examples/{commit}/word_language_model/data/wikitext-2", self
        )

    def training_texts(self) -> list[str]:
        """Return the texts of the training set."""
        return self.read_splits()[0].splitlines()


def _texts(name: str, at: str, stream: TextStream) -> list[str]:
    """Return the text of each file of a public data set, whose folder on GitHub is ``at``."""
    addresses = {file: f"{GITHUB}/{at}/{file.removesuffix('.gz')}" for file in stream.files()}
    return list(raw_texts(name, addresses).values())


@dataclass(frozen=True)
class TextFiles(TextStream):
    """The user's own text files, concatenated.

    Attributes:
        paths: text files in UTF-8, plain or gzipped.

    Example:
        >>> from edgewise.app.kinds.language import TextFiles
        >>> splits = TextFiles(paths=("book.txt",), context=64).load()  # doctest: +SKIP
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
