"""Two files, line by line: what a batch holds, and files that do not fit together."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.translation import Multi30k, Parallel
from edgewise.app.kinds.translation.data import read_parallel
from edgewise.app.train import WritingBatch
from tests.errors import refused
from tests.places import needs

pytest.importorskip("tokenizers")
EN = ["a dog runs", "two dogs", "the man and the dog run", "a man"]
DE = ["ein Hund läuft", "zwei Hunde", "der Mann und der Hund laufen", "ein Mann"]


def write(folder: Path, **texts: list[str]) -> None:
    for name, lines in texts.items():
        (folder / name.replace("_", ".")).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def files(tmp_path: Path) -> Parallel:
    for split in ("train", "val", "test"):
        write(tmp_path, **{f"{split}_en": EN, f"{split}_de": DE})
    return Parallel(folder=str(tmp_path), vocab_size=60, batch_size=24)


def test_a_batch_is_packed_and_asks_for_the_next_token(files: Parallel) -> None:
    splits = files.load()
    batch = splits.train.make(torch.tensor([2, 0]))
    (source, sizes), (target, target_sizes) = ((t.ids, t.sizes) for t in batch.inputs)
    assert batch.references == (DE[2], DE[0])
    assert (len(source), len(target)) == (int(sizes.sum()), int(target_sizes.sum()))
    assert len(batch.target) == len(target)
    begin = int(batch.prompt[0])
    for read, asked in zip(target.split(target_sizes.tolist()), _asked(batch), strict=True):
        assert (int(read[0]), int(asked[-1])) == (begin, batch.end)
        assert read[1:].tolist() == asked[:-1].tolist()
    padded = torch.nn.utils.rnn.pad_sequence(_asked(batch), batch_first=True)
    assert batch.decode(padded) == list(batch.references)
    assert all(int(part[-1]) == batch.end for part in source.split(sizes.tolist()))
    assert splits.model_arguments == {"vocab_size": 60}


def test_a_lowercasing_tokenizer_gives_references_in_lower_case(files: Parallel) -> None:
    """Otherwise BLEU would count each German noun as wrong."""
    batch = replace(files, lowercase=True).load().train.make(torch.arange(4))
    assert list(batch.references) == [text.lower() for text in DE]
    padded = torch.nn.utils.rnn.pad_sequence(_asked(batch), batch_first=True)
    assert batch.decode(padded) == list(batch.references)


def _asked(batch: WritingBatch) -> list[torch.Tensor]:
    return list(batch.target.split(batch.inputs[1].sizes.tolist()))


def test_gzipped_files_are_the_same(files: Parallel, tmp_path: Path) -> None:
    plain = files.load().val.make(torch.arange(4))
    for path in list(tmp_path.iterdir()):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = files.load().val.make(torch.arange(4))
    assert torch.equal(plain.target, packed.target)


def test_batches_hold_so_many_tokens(files: Parallel) -> None:
    loaders = files.load().loaders(0)
    for batch in loaders["train"]:
        assert sum(len(text.ids) for text in batch.inputs) <= 24 or len(batch.references) == 1
    assert sum(len(batch.references) for batch in loaders["train"]) == 4


def test_files_that_part_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a_en=EN, a_de=DE[:3])
    with refused("a.en, a.de", expected="line i", got="4 and 3 lines", remedy="does not match"):
        read_parallel(tmp_path / "a.en", tmp_path / "a.de")


@pytest.mark.parametrize("end", [".en", ".en.gz"])
def test_a_line_feed_alone_ends_a_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"a{end}"
    text = "\ufeffa dog\r\ntwo\rdogs\u2028run\r\n\r\n".encode()
    path.write_bytes(gzip.compress(text) if end.endswith(".gz") else text)
    assert read_parallel(path, path) == (["a dog", "two\rdogs\u2028run"],) * 2


def test_an_empty_line_is_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path, a_en=EN, a_de=[*DE[:2], "  ", DE[3]])
    with refused(
        str(tmp_path / "a.de"), expected="text in each line", got="line 3", remedy="remove"
    ):
        read_parallel(tmp_path / "a.en", tmp_path / "a.de")


def test_a_line_separator_of_unicode_is_no_new_line(tmp_path: Path) -> None:
    write(tmp_path, a_en=["one\u2028two", "three"], a_de=["eins\x85zwei", "drei"])
    assert read_parallel(tmp_path / "a.en", tmp_path / "a.de")[0][0] == "one\u2028two"


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    write(tmp_path, a_en=EN)
    (tmp_path / "a.de").write_bytes(b"\xffext")
    with refused(
        str(tmp_path / "a.de"),
        expected="UTF-8",
        got="invalid start byte (0xff) in line 1",
        remedy="again",
    ):
        read_parallel(tmp_path / "a.en", tmp_path / "a.de")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"text")[:-3])
    with refused(str(tmp_path / "a.de.gz"), expected="gzip", got="ended", remedy="again"):
        read_parallel(tmp_path / "a.en", tmp_path / "a.de.gz")
    with pytest.raises(MissingDataError, match=r"b\.en: no such file"):
        read_parallel(tmp_path / "b.en", tmp_path / "a.de")


def test_bad_fields() -> None:
    with refused("data.batch_size", expected="at least 1", got="0", remedy="32"):
        Parallel(batch_size=0)
    with refused("data.source, data.target", expected="two", got="en twice", remedy="de"):
        Parallel(target="en")


@needs("multi30k")
def test_multi30k_has_the_published_numbers_of_pairs() -> None:
    texts, _ = Multi30k().read_splits()
    assert [len(texts[split][0]) for split in ("train", "val", "test")] == [29_000, 1014, 1000]
    assert texts["test"][1][0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."


@pytest.mark.slow
@needs("multi30k")
def test_multi30k_has_the_published_counts() -> None:
    splits = Multi30k(vocab_size=2000).load()
    assert (splits.train.count, splits.val.count, splits.test.count) == (29_000, 1014, 1000)
    batch = splits.test.make(torch.tensor([0]))
    assert batch.references == ("Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",)
    padded = torch.nn.utils.rnn.pad_sequence(_asked(batch), batch_first=True)
    assert batch.decode(padded) == list(batch.references), "what BLEU sees is the text itself"
