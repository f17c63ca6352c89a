"""Plain text as one long stream of tokens, to learn which comes next."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from edgewise.data.files import naming
from edgewise.data.splits import Splits, TextSplits
from edgewise.data.text_data import TextData
from edgewise.data.text_files import raw_texts, read_text
from edgewise.data.tokenizer import Special, encode_all
from edgewise.data.windows import held_out_windows, training_windows
from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EOS = "<eos>"
FILE = "input.txt"
BOOK = re.compile(r"\*\*\* START OF[^\n]*\n(.*?)End of the Project Gutenberg", re.DOTALL)
RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class TextStream(TextData):
    """One text in three parts: its beginning to validate on, its end to test on, the rest to train.

    A batch is windows ``[B, context]``. In training they begin anywhere; of the other two parts
    every token is predicted exactly once, but for the text's first ``context`` ones, which are
    only read. The first windows of the test part read the end of the training text.

    Attributes:
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`. Of
            characters all three parts make up the vocabulary, of other tokens the first alone.
        context: the most tokens that are read.
        windows: how many windows an epoch draws; as many as fit side by side where it is 0.
        stride: in validation and test a window predicts its last ``stride`` tokens; all of them
            where it is 0.
        val, test: shares of the text, from its beginning and from its end.

    """

    context: int = 64
    windows: int = 0
    stride: int = 0
    val: float = 0.02
    test: float = 0.1

    provides: ClassVar[tuple[str, ...]] = ("vocabulary", "longest")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("context", 1, 64)
        self.at_least("windows", 0, 1000)
        self.at_least("stride", 0, self.context)
        if self.stride > self.context:
            raise ArgumentError(
                "data.stride",
                expected=f"at most the context, {self.context}",
                got=str(self.stride),
                remedy="choose 0 for the whole context",
            )
        self.shares("val", "test")

    def encode(self, tokenizer: Tokenizer, text: str) -> Tensor:
        """Ids ``[N]`` of a text, in which lines of words end with ``<eos>``."""
        return encode_all(tokenizer, [self._line_ends(text)])[0]

    def decode(self, tokenizer: Tokenizer, ids: Tensor) -> str:
        """The text of ids ``[N]``: where :meth:`encode` makes a line end a token, back again."""
        rows: list[list[int]] = [[]]
        end = tokenizer.token_to_id(EOS) if self.kind == "words" else None
        for token in ids.tolist():
            if token == end:
                rows.append([])
            else:
                rows[-1].append(token)
        return "\n".join(tokenizer.decode_batch(rows))

    def _line_ends(self, text: str) -> str:
        """Of words white space, and so the end of a line, would be lost."""
        return text.replace("\n", f" {EOS} ") if self.kind == "words" else text

    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The files that it is read from."""

    @abstractmethod
    def text(self) -> str:
        """All of it."""

    def parts(self) -> tuple[str, str, str]:
        """The text to train on, to validate on and to test on."""
        text = self.text()
        first, last = int(len(text) * self.val), int(len(text) * (1 - self.test))
        return text[first:last], text[:first], text[last:]

    def load(self) -> Splits:
        with naming(*self.files()):
            return self._load()

    def _load(self) -> Splits:
        parts = self.parts()
        special: tuple[Special, ...] = ("unk", "eos") if self.kind == "words" else ()
        learned = parts if self.kind == "characters" else parts[:1]
        tokenizer = self.make_tokenizer(map(self._line_ends, learned), special)
        train, val, test = (self.encode(tokenizer, part) for part in parts)
        windows = training_windows(train, self.context, self.windows)
        opening, val = val[: self.context], val[self.context :]
        for name, stream in (("val", val), ("test", test)):
            check_some(name, stream)
        stride = self.stride or self.context
        return TextSplits(
            {"vocabulary": tokenizer.get_vocab_size(), "longest": self.context},
            train=windows,
            val=held_out_windows(opening, val, self.context, stride),
            test=held_out_windows(train, test, self.context, stride),
            batch_size=self.batch_size,
            tokenizer=tokenizer,
        )


def check_some(name: str, stream: Tensor) -> None:
    """A part of a text has tokens."""
    if not len(stream):
        raise ArgumentError(
            f"data.{name}",
            expected="a share that holds some text, and of the beginning more than one context",
            got="none",
            remedy="raise it, or give more text",
        )


@dataclass(frozen=True)
class TextFiles(TextStream):
    """Your own text.

    Attributes:
        paths: files in UTF-8, plain or gzipped, one after the other.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
        context, windows, stride, val, test: see :class:`TextStream`.

    """

    paths: tuple[str, ...] = ()

    def files(self) -> tuple[str, ...]:
        return self.paths

    def text(self) -> str:
        if not self.paths:
            raise ArgumentError(
                "data.paths",
                expected="text files, separated by commas",
                got="none",
                remedy="name them with --data.paths",
            )
        *others, last = (read_text(Path(path)) for path in self.paths)
        # A file whose last line has no end would be glued to the next.
        return "".join(text if text.endswith("\n") else f"{text}\n" for text in others) + last


@dataclass(frozen=True)
class Shakespeare(TextStream):
    """Tiny Shakespeare: 1,115,394 characters of plays (Karpathy, 2015)."""

    def files(self) -> tuple[str, ...]:
        return (FILE,)

    def text(self) -> str:
        at = f"{RAW}/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data"
        return raw_texts("tinyshakespeare", {FILE: f"{at}/tinyshakespeare/{FILE}"})[FILE]


@dataclass(frozen=True)
class WarAndPeace(TextStream):
    """Tolstoy's novel in English, 3.2 million characters, without Project Gutenberg's notes."""

    def files(self) -> tuple[str, ...]:
        return ("2600-0.txt.gz",)

    def text(self) -> str:
        (name,), at = self.files(), "fa22ab90f00f627e83d14acabe32d91602d2365d"
        address = f"{RAW}/GITenberg/War-and-Peace_2600/{at}/2600-0.txt"
        text = raw_texts("war_and_peace", {name: address})[name]
        book = BOOK.search(text)
        if book is None:
            raise ArgumentError(
                name,
                expected="a text between Project Gutenberg's marks *** START OF and End of the",
                got="none",
                remedy="copy or download it again",
            )
        return book[1].strip() + "\n"


@dataclass(frozen=True)
class WikiText2(TextStream):
    """Wikipedia articles (Merity et al., 2016); trained on the *validation* file, tested on test.

    The published training file is not part of it, so that published perplexities do not compare.
    """

    def files(self) -> tuple[str, ...]:
        return ("valid.txt", "test.txt")

    def text(self) -> str:
        return "".join(self._texts())

    def parts(self) -> tuple[str, str, str]:
        whole, test = self._texts()
        first = int(len(whole) * self.val)
        return whole[first:], whole[:first], test

    def _texts(self) -> tuple[str, str]:
        at = "pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8"
        where = f"{RAW}/{at}/word_language_model/data/wikitext-2"
        texts = raw_texts("wikitext-2", {name: f"{where}/{name}" for name in self.files()})
        return texts["valid.txt"], texts["test.txt"]
