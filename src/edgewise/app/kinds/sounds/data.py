"""Classification of recordings: the user's WAV files, and digits spoken by six speakers.

Source of the digits: Jackson et al., Free spoken digit dataset, 2018 (CC BY-SA 4.0).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import graphs
from edgewise._utils.arguments import check_choice, check_given, check_range, check_splits
from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.limits import check_memory
from edgewise._utils.ragged import ranges, starts
from edgewise.app.files.class_folders import class_folders, class_labels, visible_files
from edgewise.app.files.files import find_raw, naming, not_published, verify
from edgewise.app.files.frames import Source, open_source, take_frames
from edgewise.app.files.read_table import read_table
from edgewise.app.files.split_column import find_split_column, parts_of
from edgewise.app.files.table import Table
from edgewise.app.files.targets import class_counts
from edgewise.app.kinds.sounds.features import STACK, tokens_of
from edgewise.app.kinds.sounds.files import SUFFIXES, Recording, read_recording, resampled
from edgewise.app.train.batches import Batch
from edgewise.app.train.folds import Folds, How
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.app.train.standardisation import Standardisation

SPOKEN = "spoken_digits"
TESTED, VALIDATED = range(5), range(5, 10)
"""Indices of the published test recordings, and of ours for validation, of a digit and speaker."""
SpokenSplit = Literal["published", "speaker"]
FILES = ("path", "file", "filename", "file_name", "recording", "audio", "wav")
CLASSES = ("target", "label", "class", "category")
GROUPS = ("group", "speaker")
"""Usual names of the columns of a table of recordings."""
MEMORY_FACTOR = 8  # Memory for samples and tokens, relative to the size of the files.


class Listing(NamedTuple):
    """Files with class, split ("train", "val", "test") and group, such as the speaker, of each.
    ``column`` names the paths in ``source``.
    """

    files: list[Path]
    classes: list[str]
    splits: list[str]
    groups: list[str]
    source: str
    column: str = "file"


@dataclass(frozen=True)
class SoundData(Data):
    """Base class of recordings, as sequences of tokens of 20 ms.

    A token holds two frames of the log-mel spectrogram, standardised over the training set. The
    edge features are the offset of both tokens, one-hot.

    Attributes:
        bands: number of mel bands of the spectrogram.
        subtract_mean: subtract the mean of each band over each recording, and with it the frequency
            response of the microphone and of the room. For words of new speakers; sounds that do
            not change in time, such as a hum, would lose their features.
        window: number of tokens before and after a token to which it attends.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`; used for splits
            that are not given, stratified by class, or by group if there are groups.
        batch_size: recordings per batch.
    """

    section = "Recordings"

    bands: int = 40
    subtract_mean: bool = False
    window: int = 5
    folds: int = 5
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 32

    provides: ClassVar[tuple[str, ...]] = ("in_width", "edge_width", "out_width")

    def __post_init__(self) -> None:
        usual = {"bands": 40, "window": 5, "batch_size": 32}
        for name, value in usual.items():
            check_range(
                f"data.{name}",
                getattr(self, name),
                f"choose for example {value}",
                least=1,
                integer=True,
            )
        self._folds()

    @abstractmethod
    def listing(self) -> Listing:
        """Return the recordings."""

    def load(self) -> Splits:
        require("scipy", extra="sounds", purpose="reading recordings")
        listing = self.listing()
        labels = class_labels(listing.classes, listing.splits, listing.source, "recordings")
        with naming(listing.source):
            index = self._index(listing)
        total = sum(file.stat().st_size for file in listing.files if file.is_file())
        what = f"{len(listing.files)} recordings"
        check_memory("data.path", MEMORY_FACTOR * total, what, "give fewer recordings")
        recordings = [read_recording(file) for file in listing.files]
        rates = Counter(recordings[i].rate for i in index["train"].tolist())
        rate = max(rates, key=lambda rate: (rates[rate], rate))
        tokens = [self._tokens(recording, rate) for recording in recordings]
        scale = Standardisation.of(torch.cat([tokens[i] for i in index["train"].tolist()]))
        x, sizes = scale.scaled(torch.cat(tokens)), torch.tensor(list(map(len, tokens)))
        number = {label: i for i, label in enumerate(labels)}
        target = torch.tensor([number[name] for name in listing.classes])

        def split(name: str) -> Split:
            members = index[name]

            def make(which: Tensor) -> Batch:
                chosen = members[which]
                batch_tokens = x[ranges(starts(sizes)[chosen], sizes[chosen])]
                return self.batch_of(batch_tokens, sizes[chosen], target[chosen])

            return Split(len(members), make)

        arguments = {
            "in_width": STACK * self.bands,
            "edge_width": 2 * self.window + 1,
            "out_width": len(labels),
        }
        return Splits(
            arguments,
            split("train"),
            split("val"),
            split("test"),
            self.batch_size,
            preprocessing={
                "labels": labels,
                "rate": rate,
                "file": listing.column,
                **scale.record(),
            },
            class_counts=class_counts(target[index["train"]], len(labels)),
        )

    def to_tokens(self, recording: Recording, preprocessing: dict[str, Any]) -> Tensor:
        """Return the standardised tokens ``[N, 2 * bands]`` of a recording of any sample rate."""
        tokens = self._tokens(recording, preprocessing["rate"])
        return Standardisation.read(preprocessing).scaled(tokens)

    def _tokens(self, recording: Recording, rate: int) -> Tensor:
        at_rate = resampled(recording, rate)
        return tokens_of(at_rate, self.bands, subtract_mean=self.subtract_mean)

    def batch_of(self, x: Tensor, sizes: Tensor, target: Tensor) -> Batch:
        """Return the batch of packed tokens ``[N, 2 * bands]``."""
        graph = graphs.batch(graphs.window(self.window), sizes)
        source, target_token = graph.edge_index
        offset = F.one_hot(source - target_token + self.window, 2 * self.window + 1).float()
        keywords = {"batch": graphs.membership(sizes), "edge_attr": offset}
        return Batch((x, graph), target, keywords=keywords)

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def _index(self, listing: Listing) -> dict[str, Tensor]:
        index = {
            name: torch.tensor([i for i, split in enumerate(listing.splits) if split == name])
            for name in ("train", "val", "test")
        }
        listed = {name for name in ("val", "test") if len(index[name])}
        if "test" in listed and self.fold:
            raise ArgumentError(
                "data.fold",
                expected="0, because the test recordings are given",
                got=str(self.fold),
                remedy="omit data.fold, or give no test recordings",
            )
        how: How = "group" if listing.groups else "stratified"
        keys, rest = listing.groups or listing.classes, index["train"]
        folds = self._folds().split(how, [keys[i] for i in rest.tolist()], listed)
        index |= {name: rest[members] for name, members in folds.items()}
        check_splits(**index)
        return index


@dataclass(frozen=True)
class Sounds(SoundData):
    """WAV files in one folder per class, such as ``bark/1.wav``, or listed in a table.

    The files may have 8, 16, 24 or 32 bits or floating point, and several channels, which are
    averaged. All are resampled to the sample rate that most training recordings have.

    Attributes:
        path: folder with one subfolder per class, or with ``train`` and optionally ``val`` and
            ``test``, each with one subfolder per class; or a table with one recording per row.
        file: column of the paths, relative to the folder of the table; "" finds it by its name.
        target: column of the classes; "" finds it by its name.
        group: column of groups that stay in one split, such as the speaker; "" finds a column named
            group or speaker, and "none" uses none.
        split_column: column of the splits; "" finds it, and "none" uses none.

    Example:
        >>> from edgewise.app.kinds.sounds import Sounds
        >>> splits = Sounds(path="recordings").load()  # doctest: +SKIP
    """

    path: Source = ""
    file: str = ""
    target: str = ""
    group: str = ""
    split_column: str = ""

    def __post_init__(self) -> None:
        take_frames(self, "path")
        super().__post_init__()

    def listing(self) -> Listing:
        check_given("data.path", self.path, "a folder with one subfolder per class, or a table")
        source = open_source(self.path)
        if isinstance(source, Path) and (source.is_dir() or not source.suffix):
            files, classes, splits = class_folders(source, find_recordings)
            return Listing(files, classes, splits, [], str(source))
        table = read_table(source)
        column = _column(table, "data.file", self.file, FILES)
        target = _column(table, "data.target", self.target, CLASSES, (column,))
        group = "" if self.group == "none" else self.group
        if not self.group:
            usual = [name for name in table.columns if name.lower() in GROUPS and name != target]
            group = usual[0] if len(usual) == 1 else ""
        groups = table.texts("data.group", group) if group else []
        by = find_split_column(table, self.split_column)
        splits = ["train"] * len(table)
        for name, rows in parts_of(table, by).items() if by else ():
            for row in rows.tolist():
                splits[row] = name
        above = source.parent if isinstance(source, Path) else Path()
        files = [above / cell for cell in table.texts("data.file", column)]
        return Listing(files, table.columns[target], splits, groups, source.name, column)


@dataclass(frozen=True)
class SpokenDigits(SoundData):
    """3,000 recordings of the digits 0 to 9, by six speakers.

    Attributes:
        split: ``"published"`` tests on 300 recordings of all six speakers, those with the index 0
            to 4, and validates on 300 others, those with the index 5 to 9. ``"speaker"`` tests on
            one speaker and validates on another.
        fold: index of the test speaker; only for ``"speaker"``.
        folds, val: number of speakers, and fraction of the other five for validation.
    """

    folders = (SPOKEN,)

    folds: int = 6
    val: float = 0.2
    split: SpokenSplit = "published"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.split", self.split, get_args(SpokenSplit))

    def listing(self) -> Listing:
        refuse = not_published(SPOKEN, ["recordings"])
        folder = find_raw(SPOKEN, [], refuse) / "recordings"
        if not folder.is_dir():
            refuse(folder)
        verify(SPOKEN, folder)
        files = find_recordings(folder)
        names = [file.stem.split("_") for file in files]  # DIGIT_SPEAKER_INDEX
        classes = [digit for digit, _, _ in names]
        splits, groups = ["train"] * len(files), [speaker for _, speaker, _ in names]
        if self.split == "published":
            split_of = dict.fromkeys(TESTED, "test") | dict.fromkeys(VALIDATED, "val")
            splits, groups = [split_of.get(int(index), "train") for _, _, index in names], []
        return Listing(files, classes, splits, groups, SPOKEN)


def find_recordings(folder: Path) -> list[Path]:
    """Return the sorted WAV files in a folder and its subfolders, except hidden files."""
    return visible_files(folder, SUFFIXES)


def _column(
    table: Table, argument: str, name: str, usual: Sequence[str], taken: Sequence[str] = ()
) -> str:
    """Return the named column, or the first column of a usual name."""
    candidates = [column for word in usual for column in table.columns if column.lower() == word]
    what = f"a column such as {usual[0]!r}"
    return table.choose(argument, name, candidates[:1], what, taken, of_words=True)
