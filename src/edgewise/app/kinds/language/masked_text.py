"""Unlabelled texts for pre-training: the base class, and masked language modelling."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from edgewise._utils.arguments import check_choice, check_given
from edgewise.app.files.reading import read_own_text
from edgewise.app.kinds.language.files import WikiText2
from edgewise.app.kinds.language.masking import held_out_masked_windows, mask_tokens, masked_windows
from edgewise.app.train.splits import Splits, TextSplits
from edgewise.app.train.text.text_data import TextData, check_some
from edgewise.app.train.text.tokenizer import Kind, Special, encode_all, special_id, special_ids

Source = Literal["wikitext2", "sst2", "ewt", "multi30k", "war_and_peace"]
SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep", "mask")


@dataclass(frozen=True)
class UnlabelledTexts(TextData):
    """Base class of data for pre-training on lines of text.

    Attributes:
        sources: public data sets to use, without their test texts.
        paths: your own text files, with one text per line.
        test_paths: your own text files for the test set, by default the test file of WikiText-2.
        val: fraction of the lines used for validation, evenly spaced.
    """

    folders = ("wikitext-2", "SST2", "UD_English-EWT", "multi30k", "war_and_peace")

    kind: Kind = "wordpiece"
    vocab_size: int | None = 8000
    lowercase: bool = True
    sources: tuple[str, ...] = field(default=get_args(Source))
    paths: tuple[str, ...] = ()
    test_paths: tuple[str, ...] = ()
    val: float = 0.02

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shares("val")
        for source in self.sources:
            check_choice("data.sources", source, get_args(Source))

    def lines(self) -> list[str]:
        """Return the texts for training and validation, without empty lines."""
        lines = [line for source in self.sources for line in lines_of(source)]
        remedy = (
            f"name sources with --data.sources ({', '.join(get_args(Source))}), or text files with "
            "--data.paths"
        )
        texts = _stripped(lines + _lines(self.paths))
        return check_given("data.sources, data.paths", texts, "training texts", remedy)

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of each split."""
        train, val = _apart(self.lines(), self.val)
        test = _lines(self.test_paths) or WikiText2().read_splits()[2].splitlines()
        return {"train": train, "val": val, "test": _stripped(test)}


@dataclass(frozen=True)
class MaskedText(UnlabelledTexts):
    """Lines of text joined by ``<sep>`` and cut into windows that begin with ``<cls>``.

    Attributes:
        mask_fraction: fraction of tokens to predict, as in
            :func:`edgewise.app.kinds.language.masking.mask_tokens`.
        context: tokens per window, including ``<cls>``.
        windows: training windows sampled per epoch; 0 for as many as fit without overlap.
    """

    mask_fraction: float = 0.15
    context: int = 64
    windows: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("context", 2, 64)
        self.at_least("windows", 0, 1000)
        self.shares("mask_fraction")

    def load(self) -> Splits:
        texts = self.texts()
        tokenizer = self.make_tokenizer(texts["train"], SPECIAL)
        size, first = tokenizer.get_vocab_size(), special_id(tokenizer, "cls")
        hide = partial(
            mask_tokens,
            fraction=self.mask_fraction,
            mask=special_id(tokenizer, "mask"),
            special=special_ids(tokenizer),
            vocab_size=size,
        )
        streams = {}
        for name, lines in texts.items():
            streams[name], _ = encode_all(tokenizer, lines, last="sep")
            check_some(name, streams[name])
        held_out = partial(held_out_masked_windows, context=self.context, first=first, hide=hide)
        return TextSplits(
            {"vocab_size": size, "longest_text": self.context},
            masked_windows(streams["train"], self.context, self.windows, first=first, hide=hide),
            held_out(streams["val"]),
            held_out(streams["test"]),
            self.batch_size,
            tokenizer,
        )


def _apart(lines: list[str], held_out: float) -> tuple[list[str], list[str]]:
    """Split off a fraction ``held_out`` of the lines, evenly spaced: for 0.02, every 50th."""
    # The fraction is exact, because rounding of floats would shift the lines.
    fraction = Fraction(str(held_out))
    is_held_out = [int((i + 1) * fraction) > int(i * fraction) for i in range(len(lines))]
    train = [line for line, held in zip(lines, is_held_out, strict=True) if not held]
    return train, [*compress(lines, is_held_out)]


def _stripped(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _lines(paths: tuple[str, ...]) -> list[str]:
    return [line for path in paths for line in read_own_text(Path(path)).splitlines()]


def lines_of(source: str) -> list[str]:
    """Return the training texts of a public data set."""
    from edgewise.app.kinds import DATA  # The registry imports this module.

    data: Any = DATA[source]
    return list(data().training_texts())
