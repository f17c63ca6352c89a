"""Pairs of source and target texts, such as for translation.

Line i of one parallel file is the translation of line i of the other. Both sides share one
byte-pair vocabulary (Sennrich et al., 2016), so that names and numbers have the same tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import starts
from edgewise.app.files.files import find_files, unreadable
from edgewise.app.files.reading import raw_texts, read_lines
from edgewise.app.kinds.translation.buckets import TokenSplit
from edgewise.app.train.batches import Batch, WritingBatch
from edgewise.app.train.splits import TextSplits
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import Kind, Special, encode_all, special_id
from edgewise.layers import Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MULTI30K = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
)
SPECIAL: tuple[Special, ...] = ("pad", "bos", "eos", "unk")
Lines = tuple[list[str], list[str]]


class PairSplits(NamedTuple):
    """Sources and targets of each split, and the column of the sources in a table."""

    texts: dict[str, Lines]
    column: str = "text"


@dataclass(frozen=True)
class TextPairs(TextData):
    """Base class of sequence-to-sequence data.

    Batches: inputs ``(source, target)``, both :class:`edgewise.layers.Tokens` packed without
    padding. The source ends with ``<eos>``; the target begins with ``<bos>``. The targets ``[M]``
    are the target tokens shifted by one, ending with ``<eos>``.

    Attributes:
        batch_size: maximum number of tokens per batch, source and target together.
    """

    kind: Kind = "bpe"
    vocab_size: int | None = 10_000
    batch_size: int = 4096

    provides: ClassVar[tuple[str, ...]] = ("vocab_size",)

    @abstractmethod
    def read_splits(self) -> PairSplits:
        """Return the pairs of each split."""

    def load(self) -> TextSplits:
        texts, column = self.read_splits()
        tokenizer = self.make_tokenizer([*texts["train"][0], *texts["train"][1]], SPECIAL)
        splits = {}
        for split, (sources, targets) in texts.items():
            pairs = Pairs.of(tokenizer, sources_of(tokenizer, sources), targets)
            lengths = torch.stack([pairs.source.sizes, pairs.target.sizes - 1], 1)
            splits[split] = TokenSplit(len(sources), pairs.take, lengths=lengths)
        data_sizes = {"vocab_size": tokenizer.get_vocab_size()}
        train, val, test = (splits[name] for name in ("train", "val", "test"))
        assert train.lengths is not None
        preprocessing = {"text": column, "longest": int(train.lengths[:, 0].max())}
        return TextSplits(
            data_sizes, train, val, test, self.batch_size, tokenizer, preprocessing=preprocessing
        )


@dataclass(frozen=True)
class Parallel(TextPairs):
    """Parallel files ``FOLDER/SPLIT.LANGUAGE``, plain or gzipped.

    Attributes:
        folder: folder of the files.
        source, target: file extensions of the source and target language.
        train, val, test: names of the files without extension.

    Example:
        >>> from edgewise.app.kinds.translation import Parallel
        >>> splits = Parallel(folder="europarl", source="en", target="fi").load()  # doctest: +SKIP
    """

    folder: str = "."
    source: str = "en"
    target: str = "de"
    train: str = "train"
    val: str = "val"
    test: str = "test"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ArgumentError(
                "data.source, data.target",
                expected="two different languages",
                got=f"{self.source} twice",
                remedy="give two file extensions, such as en and de",
            )

    def find_folder(self) -> Path:
        """Return the folder of the files."""
        return Path(self.folder)

    def read_splits(self) -> PairSplits:
        folder = self.find_folder()
        names = {"train": self.train, "val": self.val, "test": self.test}
        texts = {
            split: read_parallel(*(_file(folder, name, end) for end in (self.source, self.target)))
            for split, name in names.items()
        }
        return PairSplits(texts)


@dataclass(frozen=True)
class Pairs:
    """Encoded source and target texts; each target is ``<bos> ... <eos>``."""

    source: PackedTexts
    target: PackedTexts
    references: Sequence[str]
    tokenizer: Tokenizer

    @classmethod
    def of(cls, tokenizer: Tokenizer, source: PackedTexts, targets: Sequence[str]) -> Pairs:
        """Create pairs from encoded sources and their target texts."""
        target = PackedTexts(*encode_all(tokenizer, targets, first="bos", last="eos"))
        normalizer = tokenizer.normalizer
        if normalizer is not None and normalizer.normalize_str("A") == "a":
            targets = [text.lower() for text in targets]
        return cls(source, target, targets, tokenizer)

    def take(self, which: Tensor) -> Batch:
        """Return the batch of the pairs with the indices ``which``."""
        source, source_sizes = self.source.take(which)
        target, target_sizes = self.target.take(which)
        first = starts(target_sizes)
        is_input, is_predicted = torch.ones((2, len(target)), dtype=torch.bool)
        is_input[first + target_sizes - 1] = is_predicted[first] = False
        return WritingBatch(
            (Tokens(source, source_sizes), Tokens(target[is_input], target_sizes - 1)),
            target[is_predicted],
            prompt=torch.full((len(which), 1), special_id(self.tokenizer, "bos")),
            end=special_id(self.tokenizer, "eos"),
            padding=special_id(self.tokenizer, "pad"),
            references=tuple(self.references[i] for i in which.tolist()),
            decode=decoder(self.tokenizer),
        )


def sources_of(tokenizer: Tokenizer, texts: Sequence[str]) -> PackedTexts:
    """Encode source texts; each ends with ``<eos>``."""
    return PackedTexts(*encode_all(tokenizer, texts, last="eos"))


def decoder(tokenizer: Tokenizer) -> Callable[[Tensor], list[str]]:
    """Return a function that decodes ids ``[B, T]`` to texts, up to ``<eos>``."""
    end = special_id(tokenizer, "eos")

    def decode(ids: Tensor) -> list[str]:
        rows = [row[: row.index(end)] if end in row else row for row in ids.tolist()]
        return [text.strip() for text in tokenizer.decode_batch(rows)]

    return decode


def read_parallel(
    source: Path, target: Path, *, read: Callable[[Path], list[str]] = read_lines
) -> Lines:
    """Read two parallel files, of which line i of one is the translation of line i of the other."""
    lines = _texts(source, read), _texts(target, read)
    if len(lines[0]) != len(lines[1]):
        raise ArgumentError(
            f"{source.name}, {target.name}",
            expected="the same number of lines, where line i translates line i",
            got=f"{len(lines[0])} and {len(lines[1])} lines",
            remedy="find the first line that does not match, or take both files from one release",
        )
    return lines


def _texts(path: Path, read: Callable[[Path], list[str]]) -> list[str]:
    lines = [line.strip() for line in read(path)]
    empty = [number for number, line in enumerate(lines, 1) if not line]
    if empty:
        raise unreadable(
            path,
            expected="a text in each line",
            got=f"{len(empty)} of {len(lines)} lines empty, the first is line {empty[0]}",
            remedy="remove the empty lines, and the same lines of the other file",
        )
    return lines


def _file(folder: Path, name: str, language: str) -> Path:
    zipped = folder / f"{name}.{language}.gz"
    return zipped if zipped.is_file() else zipped.with_suffix("")


@dataclass(frozen=True)
class Multi30k(Parallel):
    """Image captions in English, German, French and Czech: 29,000 training pairs.

    ``test`` is ``"test_2016_flickr"`` or ``"test_2017_flickr"``; ``folder`` is ignored.

    Paper: Elliott et al., Multi30K: multilingual English-German image descriptions, 2016

    Example:
        >>> from edgewise.app.kinds.translation import Multi30k
        >>> splits = Multi30k(target="fr").load()  # doctest: +SKIP
    """

    folders = ("multi30k",)

    test: str = "test_2016_flickr"

    def find_folder(self) -> Path:
        splits, languages = (self.train, self.val, self.test), (self.source, self.target)
        names = [f"{split}.{language}.gz" for split in splits for language in languages]
        return find_files("multi30k", {name: f"{MULTI30K}/{name}" for name in names})

    def training_texts(self) -> list[str]:
        """Return the English texts of the training set."""
        name = "train.en.gz"
        return raw_texts("multi30k", {name: f"{MULTI30K}/{name}"})[name].splitlines()
