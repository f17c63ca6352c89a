"""Language modelling on plain text as one long stream of tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from edgewise.data.files import naming
from edgewise.data.splits import Split, Splits, TextSplits
from edgewise.data.text.text_data import TextData
from edgewise.data.text.tokenizer import Special, encode_all
from edgewise.data.text.windows import StreamSplit, held_out_windows, training_windows
from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EOS = "<eos>"


@dataclass(frozen=True)
class TextStream(TextData):
    """One text in three parts: its beginning to validate on, its end to test on, the rest to train.

    A batch is windows ``[B, context]``. In training they begin anywhere; of the other two parts
    every token is predicted exactly once, but for the text's first ``context`` ones, which are
    only read. The first windows of the test part read the end of the training text.

    Where ``consecutive``, each row of a batch goes on in the next, for a model that carries
    something from one to the other: in training the text is cut into ``batch_size`` rows, which
    are read from their beginning to their end, and an epoch goes on where the last one ended; the
    other two parts are read in one row.

    Attributes:
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`. Of
            characters all three parts make up the vocabulary, of other tokens the first alone.
        context: the most tokens that are read.
        windows: how many windows an epoch draws; as many as fit side by side where it is 0.
        stride: in validation and test a window predicts its last ``stride`` tokens; all of them
            where it is 0.
        consecutive: whether batches go on where the one before ended.
        val, test: shares of the text, from its beginning and from its end.

    """

    context: int = 64
    windows: int = 0
    stride: int = 0
    consecutive: bool = False
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
        if self.consecutive and self.stride not in (0, self.context):
            raise ArgumentError(
                "data.stride",
                expected="0 where windows are consecutive, as each token is read once",
                got=str(self.stride),
                remedy="choose 0, or data.consecutive false",
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
        held_out: Callable[..., Split]
        if self.consecutive:
            windows: Split = StreamSplit.to_train(train, self.context, self.windows)
            held_out = partial(StreamSplit.to_test, context=self.context)
        else:
            windows = training_windows(train, self.context, self.windows)
            stride = self.stride or self.context
            held_out = partial(held_out_windows, context=self.context, stride=stride)
        opening, val = val[: self.context], val[self.context :]
        for name, stream in (("val", val), ("test", test)):
            check_some(name, stream)
        return TextSplits(
            {"vocabulary": tokenizer.get_vocab_size(), "longest": self.context},
            train=windows,
            val=held_out(opening, val),
            test=held_out(train, test),
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
