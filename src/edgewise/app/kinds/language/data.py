"""Causal language modelling on one long text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.files import naming
from edgewise.app.kinds.language.windows import StreamSplit, held_out_windows, training_windows
from edgewise.app.train.splits import Split, Splits, TextSplits
from edgewise.app.train.text.text_data import TextData, check_some
from edgewise.app.train.text.tokenizer import Special, encode_all

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EOS = "<eos>"


@dataclass(frozen=True)
class TextStream(TextData):
    """Base class of long texts: the beginning is for validation, the end for test.

    A batch is a set of windows ``[B, context]``. In validation and test every token is predicted
    exactly once, except for the first ``context`` tokens of the text. The context of the first test
    windows is the end of the training text. A vocabulary of characters is built from all splits,
    other vocabularies from the training text.

    Attributes:
        context: maximum number of tokens that a prediction depends on.
        windows: training windows per epoch; 0 for as many as fit without overlap.
        stride: number of tokens at the end of a window that are predicted in validation and test;
            0 for all.
        consecutive: whether each row of a batch continues in the next batch, for models that carry
            a state. The training text is cut into ``batch_size`` rows; validation and test have
            one.
        val, test: fractions of the text used for validation (from its beginning) and test (from
            its end).
    """

    context: int = 64
    windows: int = 0
    stride: int = 0
    consecutive: bool = False
    val: float = 0.02
    test: float = 0.1

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("context", 1, 64)
        self.at_least("windows", 0, 1000)
        self.at_least("stride", 0, self.context)
        if self.stride > self.context:
            raise ArgumentError(
                "data.stride",
                expected=f"at most {self.context}, the value of data.context",
                got=str(self.stride),
                remedy="choose a smaller stride, or 0 for the whole context",
            )
        if self.consecutive and self.stride not in (0, self.context):
            raise ArgumentError(
                "data.stride",
                expected="0 with data.consecutive, because consecutive windows do not overlap",
                got=str(self.stride),
                remedy="choose 0, or data.consecutive false",
            )
        self.shares("val", "test")

    def encode(self, tokenizer: Tokenizer, text: str) -> Tensor:
        """Encode a text to token ids ``[N]``."""
        return encode_all(tokenizer, [self._line_ends(text)])[0]

    def decode(self, tokenizer: Tokenizer, ids: Tensor) -> str:
        """Decode token ids ``[N]`` to a text; the inverse of :meth:`encode`."""
        rows: list[list[int]] = [[]]
        end = tokenizer.token_to_id(EOS) if self.kind == "words" else None
        for token in ids.tolist():
            if token == end:
                rows.append([])
            else:
                rows[-1].append(token)
        return "\n".join(tokenizer.decode_batch(rows))

    def _line_ends(self, text: str) -> str:
        """Replace line breaks by ``<eos>`` if texts are split at white space, which is lost."""
        return text.replace("\n", f" {EOS} ") if self.kind == "words" else text

    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Return the names of the files."""

    @abstractmethod
    def text(self) -> str:
        """Return the whole text."""

    def read_splits(self) -> tuple[str, str, str]:
        """Return the training, validation and test text."""
        text = self.text()
        first, last = int(len(text) * self.val), int(len(text) * (1 - self.test))
        return text[first:last], text[:first], text[last:]

    def load(self) -> Splits:
        with naming(*self.files()):
            return self._load()

    def _load(self) -> Splits:
        texts = self.read_splits()
        special: tuple[Special, ...] = ("unk", "eos") if self.kind == "words" else ()
        learned = texts if self.kind == "characters" else texts[:1]
        tokenizer = self.make_tokenizer(map(self._line_ends, learned), special)
        train, val, test = (self.encode(tokenizer, text) for text in texts)
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
            expected = "tokens after the first data.context ones" if name == "val" else "tokens"
            check_some(name, stream, expected)
        return TextSplits(
            {"vocab_size": tokenizer.get_vocab_size(), "longest_text": self.context},
            train=windows,
            val=held_out(opening, val),
            test=held_out(train, test),
            batch_size=self.batch_size,
            tokenizer=tokenizer,
        )
