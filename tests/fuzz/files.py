"""Fuzz of data files: a loader names the file that was damaged, or reads what the file holds.

    EDGEWISE_DATA=<folder> python -m tests.fuzz.files --files 500 --seed 0

Each step damages one file of one data set and loads the data set. A load passes if it

- raises an :class:`EdgewiseError` that names a file,
- returns the same data as before (the damage is in bytes that are not read, such as the date in the
  header of a gzip file), or
- for the user's own files: returns other data with as many examples as the files hold, and with the
  labels that they hold.

It fails on any other exception, a warning, NaN, lost examples, more than a minute, or more than
4 GiB. Public data sets have checksums, so other data of them is a failure too.

Public data sets are cut to their first lines, and the checksums of the cut files are registered, so
that a load takes a fraction of a second. Data sets that ``EDGEWISE_DATA`` lacks are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import dataclasses
import gzip
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pandas
import torch
from edgewise_examples import data as example_data
from torch import Tensor

from edgewise._utils.errors import EdgewiseError
from edgewise.app.files.checksums import SHA256
from edgewise.app.files.table import MISSING
from edgewise.app.kinds.graphs import TU
from edgewise.app.kinds.items import Gowalla, InteractionFiles
from edgewise.app.kinds.language import MaskedText, Shakespeare, TextFiles, WarAndPeace, WikiText2
from edgewise.app.kinds.links import EdgeList, EgoFacebook
from edgewise.app.kinds.molecules import ESOL, ZINC, IonicLiquids, MoleculeTable
from edgewise.app.kinds.nodes import NodeFiles, Planetoid
from edgewise.app.kinds.series import TimeSeries
from edgewise.app.kinds.tags import EWT as EWT_
from edgewise.app.kinds.tags import TagFile
from edgewise.app.kinds.texts import SST2 as SST2_
from edgewise.app.kinds.texts import TextTable
from edgewise.app.kinds.translation import Multi30k, Parallel
from edgewise.app.kinds.triples import TripleFiles
from edgewise.app.train import Data, Splits
from edgewise.graphs import Graph
from tests.fuzz.damage import damage

SECONDS = 60
MEMORY = 4 * 2**30


@dataclass(frozen=True)
class Case:
    """A data set with files to damage.

    Attributes:
        make: the data set, from the folder of its raw files.
        folders: the folders of these files.
        count: Function that counts the examples in the files without the loader; ``None`` if the
            format does not determine the number.
        public: The files have checksums.
        labels: Function that reads the labels of the training file without the loader; ``None`` if
            there are none.

    """

    make: Callable[[Path], Data]
    folders: tuple[str, ...]
    count: Callable[[Path], int] | None = None
    public: bool = False
    labels: Callable[[Path], set[str]] | None = None


def column_of(name: str, delimiter: str, column: int, header: bool) -> Callable[[Path], set[str]]:
    """Return a function that reads the distinct cells of a column."""

    def read(raw: Path) -> set[str]:
        text = text_of(raw / name)
        if "\ufffd" in text:  # The encoding is another one.
            return set()
        named = text.lower().startswith("sep=")
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        lines = io.StringIO(text, newline="")
        rows = [row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting) if row]
        cells = {row[column] for row in rows[named + header :] if len(row) > abs(column)}
        return {cell for cell in cells if cell.strip()}

    return read


def lines(count: int) -> Callable[[bytes], bytes]:
    return lambda content: b"\n".join(content.split(b"\n")[:count]) + b"\n"


def head(count: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:count].rsplit(b"\n", 1)[0] + b"\n"


def sentences(count: int) -> Callable[[bytes], bytes]:
    return lambda content: b"\n\n".join(content.split(b"\n\n")[:count]) + b"\n\n"


def images(count: int) -> Callable[[bytes], bytes]:
    def cut(content: bytes) -> bytes:
        start = 4 + 4 * content[3]
        size = 28 * 28 if content[3] == 3 else 1
        return content[:4] + count.to_bytes(4, "big") + content[8 : start + count * size]

    return cut


def novel(content: bytes) -> bytes:
    start = content.index(b"*** START OF")
    return content[start : start + 30_000] + b"\nEnd of the Project Gutenberg\n"


def text_of(path: Path) -> str:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return content.decode("utf-8-sig", errors="replace")  # own tables may be of another encoding


def lines_of(path: Path) -> int:
    text = text_of(path)
    return len(text.rstrip().split("\n")) - text.lower().startswith("sep=")


def rows_of(name: str) -> Callable[[Path], int]:
    return lambda raw: lines_of(raw / name) - 1


def lines_in(*names: str) -> Callable[[Path], int]:
    return lambda raw: sum(lines_of(raw / name) for name in names)


def sentences_in(raw: Path) -> int:
    texts = map(text_of, raw.iterdir())
    return sum(
        len([s for s in text.replace("\r", "").split("\n\n") if s.strip()]) for text in texts
    )


SMALL: dict[str, Any] = {"vocab_size": 400, "batch_size": 8}
SST2 = ("train.tsv", "dev.tsv", "test.tsv")
EWT = {"train": 300, "dev": 20, "test": 20}
MULTI30K = {"train": 120, "val": 30, "test_2016_flickr": 30}
MUTAG = ("A", "graph_indicator", "graph_labels", "node_labels")
ENZYMES = (*MUTAG, "node_attributes")
FILES: dict[str, dict[str, Callable[[bytes], bytes] | None]] = {
    "Cora": dict.fromkeys(Planetoid().files),
    "ENZYMES": dict.fromkeys(f"ENZYMES_{part}.txt" for part in ENZYMES),
    "MNIST": {
        f"{part}-{kind}-ubyte.gz": images(60)
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    },
    "MUTAG": dict.fromkeys(f"MUTAG_{part}.txt" for part in MUTAG),
    "SST2": dict.fromkeys(SST2, lines(60)),
    "UD_English-EWT": {
        f"en_ewt-ud-{name}.conllu.gz": sentences(count) for name, count in EWT.items()
    },
    "ZINC_jtvae12k": dict.fromkeys(f"{part}.npz" for part in ("train", "val", "test")),
    "ego_facebook": {"facebook_combined.txt.gz": lines(3000)},
    "esol": {"delaney-processed.csv": lines(60)},
    "gowalla": dict.fromkeys(("train.txt", "test.txt"), lines(60)),
    "hollywood_actors": {"actor.dat.gz": lines(300)},
    "ionic_liquids": {"co2_solubility_chen2024.csv.gz": lines(900)},
    "multi30k": {
        f"{name}.{end}.gz": lines(count) for name, count in MULTI30K.items() for end in ("en", "de")
    },
    "tinyshakespeare": {"input.txt": head(30_000)},
    "war_and_peace": {"2600-0.txt.gz": novel},
    "wikitext-2": {"valid.txt": head(60_000), "test.txt": head(30_000)},
}
"""What is kept of the files of each data set; all of a file where it is ``None``."""

KNOWN: dict[str, Case] = {
    "planetoid": Case(lambda _: Planetoid(), ("Cora",), lambda _: 3),
    "mutag": Case(lambda _: TU(), ("MUTAG",), lambda _: 188),
    "enzymes": Case(lambda _: TU(name="ENZYMES"), ("ENZYMES",), lambda _: 600),
    "esol": Case(lambda _: ESOL(), ("esol",), rows_of("delaney-processed.csv")),
    "ionic_liquids": Case(
        lambda _: IonicLiquids(folds=3, val=0.4),
        ("ionic_liquids",),
        rows_of("co2_solubility_chen2024.csv.gz"),
    ),
    "gowalla": Case(lambda _: Gowalla(val_users=10), ("gowalla",)),
    "ego_facebook": Case(lambda _: EgoFacebook(), ("ego_facebook",)),
    "hollywood_actors": Case(lambda _: example_data.hollywood_actors(), ("hollywood_actors",)),
    "shakespeare": Case(lambda _: Shakespeare(), ("tinyshakespeare",)),
    "war_and_peace": Case(lambda _: WarAndPeace(), ("war_and_peace",)),
    "wikitext2": Case(lambda _: WikiText2(kind="words", val=0.1, **SMALL), ("wikitext-2",)),
    "wiki_summaries": Case(lambda _: example_data.wiki_summaries(**SMALL), ("wikitext-2",)),
    "masked_text": Case(
        lambda _: MaskedText(sources=("multi30k",), val=0.1, **SMALL),
        ("multi30k", "wikitext-2"),
    ),
    "multi30k": Case(
        lambda _: Multi30k(vocab_size=400, batch_size=400),
        ("multi30k",),
        lines_in(*(f"{name}.en.gz" for name in MULTI30K)),
    ),
    "sst2": Case(lambda _: SST2_(**SMALL), ("SST2",), lines_in(*SST2)),
    "ewt": Case(lambda _: EWT_(**SMALL), ("UD_English-EWT",), sentences_in),
    "mnist": Case(
        lambda _: example_data.caption_digits(count=8, tested=8, batch_size=4),
        ("MNIST",),
        lambda _: 24,
    ),
    "zinc": Case(lambda _: ZINC(), ("ZINC_jtvae12k",), lambda _: 12_000),
}


def known(root: Path, folder: Path) -> dict[str, Case]:
    """Write the cut files of the public data sets of ``root`` into ``folder``, with checksums."""
    for name, files in FILES.items():
        if not all((root / name / "raw" / file).is_file() for file in files):
            continue
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        for file, cut in files.items():
            content = (root / name / "raw" / file).read_bytes()
            content = gzip.decompress(content) if file.endswith(".gz") else content
            content = cut(content) if cut else content
            SHA256[name][file] = hashlib.sha256(content).hexdigest()
            packed = gzip.compress(content, mtime=0) if file.endswith(".gz") else content
            (raw / file).write_bytes(packed)
    there = {path.name for path in folder.iterdir()}
    return {
        name: dataclasses.replace(case, public=True)
        for name, case in KNOWN.items()
        if set(case.folders) <= there
    }


def made(folder: Path) -> dict[str, Case]:
    """Data sets of a user's own, whose files are written into ``folder/NAME/raw``."""
    random = Random(0)
    people = [f"{name} {i}" for i in range(12) for name in ("Anna", "Bert", "Carl")]
    films = [f"film {i}" for i in range(30)]
    pairs = [(a, b) for a in people for b in films if random.random() < 0.5]
    words = ["a", "dog", "runs", "on", "grass", "two", "men", "sleep", "near", "water"]

    def sentence() -> str:
        return " ".join(random.choices(words, k=random.randint(3, 9)))

    texts = {
        "edge_list/edges.csv": ["source,target", *(f"{a},{b}" for a, b in pairs)],
        "large_ids/edges.tsv": [
            f"{31 * i * 10**8}\t{31 * j * 10**8}" for i in range(30) for j in range(i // 2)
        ],
        "triples/triples.csv": [
            "head,relation,tail",
            *(f"{a},{'saw' if i % 3 else 'liked'},{b}" for i, (a, b) in enumerate(pairs)),
        ],
        "nodes/nodes.csv": [
            "id,label,age,size",
            *(f"n{i},{'xyz'[i % 3]},{i % 7},{i / 3:.2f}" for i in range(60)),
        ],
        "nodes/edges.csv": ["source,target", *(f"n{i},n{i * 7 % 60}" for i in range(60))],
        "ratings/ratings.csv": [
            "user;item;time",
            *(f"{a};{b};2024-01-{i % 28 + 1:02}" for i, (a, b) in enumerate(pairs)),
        ],
        "interactions/train.txt": ["user\titem", *(f"{a}\t{b}" for a, b in pairs[:-40])],
        "interactions/test.txt": ["user\titem", *(f"{a}\t{b}" for a, b in pairs[-40:])],
        "series/series.csv.gz": ["value", *(f"{random.gauss(3, 1):.4f}" for _ in range(300))],
        "text_table/train.tsv": [f"{sentence()}\t{i % 2}" for i in range(80)],
        "text_table/val.tsv.gz": [f"{sentence()}\t{i % 2}" for i in range(20)],
        "text_table/test.tsv": [f"{sentence()}\t{i % 2}" for i in range(20)],
        "molecules/molecules.csv": [
            "smiles,metal",
            *(f"{'C' * (i % 9 + 1)}{'O' * (i // 9)},{('Na', 'K', 'Li')[i % 3]}" for i in range(60)),
        ],
        "tags/words.tsv": [
            line
            for i in range(40)
            for line in (*(f"{word}\t{word[:1]}" for word in words[: i % 8 + 2]), "")
        ],
        "text_files/one.txt": [sentence() for _ in range(100)],
        "text_files/two.txt.gz": [sentence() for _ in range(100)],
    }
    for name in ("train", "val", "test"):
        for end in ("en", "de"):
            texts[f"parallel/{name}.{end}"] = [sentence() for _ in range(40)]
    shuffled = random.sample(pairs, len(pairs))
    tables = {
        "parquet/edges.parquet": lambda frame, path: frame.to_parquet(path),
        "excel/edges.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    }
    for name, write in tables.items():
        data_set, file = name.split("/")
        raw = folder / data_set / "raw"
        raw.mkdir(parents=True)
        write(pandas.DataFrame(shuffled, columns=["source", "target"]), raw / file)
    texts["json_lines/edges.jsonl"] = [json.dumps({"source": a, "target": b}) for a, b in pairs]
    for name, rows in texts.items():
        data_set, file = name.split("/")
        path = folder / data_set / "raw" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = ("\n".join(rows) + "\n").encode()
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    labelled = {"path": "train.tsv", "val_path": "val.tsv.gz", "test_path": "test.tsv"}
    cases: dict[str, Callable[[Path], Data]] = {
        "edge_list": lambda raw: EdgeList(path=str(raw / "edges.csv")),
        "large_ids": lambda raw: EdgeList(path=str(raw / "edges.tsv")),
        "parquet": lambda raw: EdgeList(path=str(raw / "edges.parquet")),
        "excel": lambda raw: EdgeList(path=str(raw / "edges.xlsx")),
        "json_lines": lambda raw: EdgeList(path=str(raw / "edges.jsonl")),
        "triples": lambda raw: TripleFiles(path=str(raw / "triples.csv")),
        "nodes": lambda raw: NodeFiles(nodes=str(raw / "nodes.csv"), edges=str(raw / "edges.csv")),
        "ratings": lambda raw: InteractionFiles(path=str(raw / "ratings.csv")),
        "interactions": lambda raw: InteractionFiles(
            path=str(raw / "train.txt"), test_path=str(raw / "test.txt")
        ),
        "series": lambda raw: TimeSeries(
            path=str(raw / "series.csv.gz"), season=7, history=14, horizon=7
        ),
        "text_table": lambda raw: TextTable(
            **{k: str(raw / v) for k, v in labelled.items()}, **SMALL
        ),
        "molecules": lambda raw: MoleculeTable(
            path=str(raw / "molecules.csv"), target="metal", smiles="smiles"
        ),
        "tags": lambda raw: TagFile(path=str(raw / "words.tsv"), **SMALL),
        "text_files": lambda raw: TextFiles(
            paths=(str(raw / "one.txt"), str(raw / "two.txt.gz")), context=16, val=0.1
        ),
        "parallel": lambda raw: Parallel(folder=str(raw), vocab_size=60, batch_size=200),
    }
    counts = {
        "text_table": lines_in(*labelled.values()),
        "parallel": lines_in("train.en", "val.en", "test.en"),
    }
    labels = {
        "nodes": column_of("nodes.csv", ",", 1, header=True),
        "text_table": column_of("train.tsv", "\t", 1, header=False),
        "molecules": column_of("molecules.csv", ",", 1, header=True),
        "tags": column_of("words.tsv", "\t", -1, header=False),
    }
    return {
        name: Case(make, (name,), counts.get(name), labels=labels.get(name))
        for name, make in cases.items()
    }


def parts_of(value: object) -> Iterator[Tensor]:
    """The tensors that a batch is made of."""
    if isinstance(value, Tensor):
        yield value.to_dense() if value.layout != torch.strided else value
    elif isinstance(value, Graph):
        yield value.edge_index
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from parts_of(part)


@dataclass(frozen=True)
class Loaded:
    """What became of a data set: a digest of its first batches and sizes, and its examples."""

    digest: str
    examples: int
    labels: frozenset[str] = frozenset()


def load(case: Case, root: Path) -> Loaded:
    """Load a data set, and make the first batch of each split.

    Raises:
        AssertionError: a number is NaN or infinite.

    """
    torch.manual_seed(0)
    splits: Splits = case.make(root / case.folders[0] / "raw").load()
    digest = hashlib.sha256(repr(sorted(splits.model_arguments.items())).encode())
    for loader in splits.loaders(0).values():
        for part in parts_of(next(iter(loader))):
            assert part.is_floating_point() <= bool(part.isfinite().all()), "NaN or infinity"
            digest.update(part.contiguous().numpy().tobytes())
    examples = sum(part.count for part in (splits.train, splits.val, splits.test))
    digest.update(str(examples).encode())
    labels = [name for target in splits.targets for name in target.classes]
    labels += splits.preprocessing.get("labels", [])
    return Loaded(digest.hexdigest(), examples, frozenset(map(str, labels)))


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """An error where something takes too long or too much memory, and for every warning."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # PyTorch says so of every sparse tensor.
            warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
            # It names the damage, and reads all of it.
            warnings.filterwarnings("ignore", ".* is not UTF-8: it is read as", UserWarning)
            # They name what is read as classes, and what has a single class.
            warnings.filterwarnings("ignore", ".* is read as classes, because", UserWarning)
            warnings.filterwarnings("ignore", ".*expected at least two classes of", UserWarning)
            yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def outcome(case: Case, root: Path, names: list[str], before: Loaded) -> str:
    """What a load of damaged files came to: ``refused``, ``the same`` or ``other data``.

    Raises:
        Exception: anything else.

    """
    try:
        with limits():
            after = load(case, root)
    except EdgewiseError as error:
        if not any(name in str(error) for name in names):
            raise AssertionError("an error that names no file") from error
        return "refused"
    if case.count:
        held = case.count(root / case.folders[0] / "raw")
        assert after.examples == held, f"{after.examples} examples of {held}"
    written = case.labels(root / case.folders[0] / "raw") if case.labels else set()
    if written and after.labels:
        numbers = {label for label in written if label.strip().lower() in MISSING}
        assert after.labels in (written, written - numbers), f"labels {written ^ after.labels}"
    if case.public:
        assert after == before, "other data in a public data set"
    return "the same" if after == before else "other data"


def run(files: int, seed: int, root: Path | None, only: str = "") -> tuple[Counter[str], list[str]]:
    """Damage this many files.

    Returns:
        how often each outcome was seen, and what was bad: data set, file, damage and traceback.

    """
    seen: Counter[str] = Counter()
    bad: list[str] = []
    named = os.environ.get("EDGEWISE_DATA")
    published = copy.deepcopy(SHA256)
    with tempfile.TemporaryDirectory() as temporary:
        whole, damaged = Path(temporary) / "whole", Path(temporary) / "damaged"
        whole.mkdir()
        cases = ({} if root is None else known(root, whole)) | made(whole)
        cases = {name: case for name, case in cases.items() if only in name}
        try:
            os.environ["EDGEWISE_DATA"] = str(whole)
            before = {name: load(case, whole) for name, case in cases.items()}
            os.environ["EDGEWISE_DATA"] = str(damaged)
            for number in range(files):
                name, case = list(cases.items())[number % len(cases)]
                random = Random(f"{seed} {number}")
                shutil.rmtree(damaged, ignore_errors=True)
                for folder in case.folders:
                    shutil.copytree(whole / folder, damaged / folder)
                paths = [p for f in case.folders for p in sorted((damaged / f / "raw").iterdir())]
                path = random.choice(paths)
                how = damage(path, random)
                try:
                    result = outcome(case, damaged, [p.name for p in paths], before[name])
                except Exception:
                    result = "bad"
                    bad.append(f"{number}: {name}, {path.name}, {how}\n{traceback.format_exc()}")
                seen[result] += 1
        finally:
            SHA256.update(published)
            os.environ.pop("EDGEWISE_DATA")
            if named is not None:
                os.environ["EDGEWISE_DATA"] = named
    return seen, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=500, help="how many to damage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="data sets with this in their name")
    given = parser.parse_args()
    root = os.environ.get("EDGEWISE_DATA")
    start = time.perf_counter()
    seen, bad = run(given.files, given.seed, Path(root) if root else None, given.only)
    for report in bad:
        print(report)
    counts = ", ".join(f"{count} {result}" for result, count in sorted(seen.items()))
    print(f"{sum(seen.values())} damaged files in {time.perf_counter() - start:.0f} s: {counts}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
