"""A text cut into windows: what is trained on, what is held out, and refusals."""

from __future__ import annotations

import gzip

import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.language import Shakespeare, TextFiles, WarAndPeace, WikiText2
from edgewise.app.kinds.language.windows import held_out_windows, training_windows
from tests.errors import refused
from tests.places import needs

pytest.importorskip("tokenizers")

TEXT = "".join(chr(ord("a") + (7 * i * i) % 26) for i in range(400))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def decoded(splits, ids):
    return splits.tokenizer.decode(ids.flatten().tolist())


def test_a_training_window_predicts_the_next_token_of_the_training_text(path):
    splits = TextFiles(paths=(path,), context=8, batch_size=4, val=0.1, test=0.2).load()
    assert splits.model_arguments == {"vocab_size": len(set(TEXT)), "longest_text": 8}
    train = TEXT[int(len(TEXT) * 0.1) : int(len(TEXT) * (1 - 0.2))]
    for batch in splits.loaders(0)["train"]:
        (tokens,) = batch.inputs
        assert tokens.ids.shape[1] == 8
        for shown, wanted in zip(tokens.ids, batch.target.view(-1, 8), strict=True):
            assert decoded(splits, shown) + decoded(splits, wanted[-1:]) in train
            assert torch.equal(shown[1:], wanted[:-1])


@pytest.mark.parametrize("stride", [0, 3, 8])
def test_every_held_out_token_is_predicted_once_and_in_order(path, stride):
    splits = TextFiles(
        paths=(path,), context=8, stride=stride, batch_size=5, val=0.1, test=0.21
    ).load()
    first, last = int(len(TEXT) * 0.1), int(len(TEXT) * (1 - 0.21))
    for name, begin, stop in (("val", 8, first), ("test", last, len(TEXT))):
        whole = ""
        for batch in splits.loaders(0)[name]:
            (tokens,) = batch.inputs
            whole += decoded(splits, batch.target)
            # What stands before a target in its window is what stands before it in the text.
            rows = torch.arange(tokens.ids.numel()) if batch.select is None else batch.select
            seen = decoded(splits, tokens.ids.flatten()[rows])
            end = begin + len(whole)
            assert seen == TEXT[end - len(rows) - 1 : end - 1]
        assert whole == TEXT[begin:stop]


def test_a_smaller_stride_lets_every_token_read_more():
    stream = torch.arange(20)
    split = held_out_windows(torch.arange(-10, 0), stream, context=6, stride=2)
    batch = split.make(torch.arange(split.count))
    assert batch.target.tolist() == stream.tolist()
    assert batch.select_outputs(batch.inputs[0].ids.flatten()).tolist() == list(range(-1, 19))
    places = batch.select % 6  # how many tokens come before in the window
    assert places.tolist() == [4, 5] * 10


def test_an_epoch_draws_the_windows_that_were_asked_for_and_others_the_next_time(path):
    splits = TextFiles(paths=(path,), context=8, val=0.1, windows=12, batch_size=5).load()
    loader = splits.loaders(0)["train"]
    assert len(loader) == 3
    epochs = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        epochs.append(torch.cat([batch.inputs[0].ids for batch in loader]))
        assert len(epochs[-1]) == 12
    assert torch.equal(epochs[0], epochs[2])
    assert not torch.equal(epochs[0], epochs[1])
    assert training_windows(torch.arange(100), 8, 0).draw == 13, "side by side, the last begun"


def test_consecutive_rows_go_on_over_batches_and_epochs(path):
    files = TextFiles(paths=(path,), context=8, consecutive=True, windows=12, batch_size=3, val=0.1)
    splits = files.load()
    loader = splits.loaders(0)["train"]
    assert len(loader) == 4
    rows, followed = ["", "", ""], []
    for epoch in range(3):
        loader.set_epoch(epoch)
        for batch in loader:
            followed.append(batch.continues)
            for row, wanted in enumerate(batch.target.view(3, 8)):
                rows[row] += decoded(splits, wanted)
    train = files.read_splits()[0]
    of_row = (len(train) - 1) // 8 // 3
    assert of_row > 8, "the text is longer than two epochs"
    for row, found in enumerate(rows):
        text = train[row * of_row * 8 + 1 : (row + 1) * of_row * 8 + 1]
        assert found == (text + text)[: len(found)]
    assert followed == [step % of_row > 0 for step in range(12)]


def test_consecutive_text_is_held_out_in_one_row(path):
    options = {"paths": (path,), "context": 8, "batch_size": 5, "val": 0.1, "test": 0.21}
    one, other = TextFiles(**options).load(), TextFiles(**options, consecutive=True).load()
    for name in ("val", "test"):
        apart, batches = one.loaders(0)[name], list(other.loaders(0)[name])
        assert [batch.continues for batch in batches] == [False] + [True] * (len(batches) - 1)
        found = torch.cat([batch.target for batch in batches])
        assert torch.equal(found, torch.cat([batch.target for batch in apart]))
        read = torch.cat([batch.inputs[0].ids[0] for batch in batches])
        counted = torch.cat([batch.select_outputs(batch.inputs[0].ids[0]) for batch in batches])
        assert torch.equal(read[7:], counted), "what comes before each target, and all of it"


def test_of_several_processes_each_has_rows_of_its_own_and_reads_all_that_is_held_out(path):
    splits = TextFiles(paths=(path,), context=8, consecutive=True, batch_size=2, val=0.1).load()
    alone = TextFiles(paths=(path,), context=8, consecutive=True, batch_size=4, val=0.1).load()
    shares = [splits.loaders(0) for _ in range(2)]
    for rank, loaders in enumerate(shares):
        for name in ("train", "val"):
            loaders[name].share(rank, 2)
    both = zip(alone.loaders(0)["train"], *(loaders["train"] for loaders in shares), strict=True)
    for whole, *parts in both:
        assert torch.equal(whole.inputs[0].ids[0::2], parts[0].inputs[0].ids)
        assert torch.equal(whole.inputs[0].ids[1::2], parts[1].inputs[0].ids)
    first, second = (list(loaders["val"]) for loaders in shares)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.inputs[0].ids, other.inputs[0].ids)
        assert len(one.target)
        assert not len(other.target)


def test_consecutive_windows_have_no_stride_and_fit_the_text(path):
    with refused("data.stride", expected="0", got="4", remedy="consecutive false"):
        TextFiles(paths=(path,), context=8, stride=4, consecutive=True)
    splits = TextFiles(paths=(path,), context=8, consecutive=True, batch_size=50, val=0.1).load()
    with refused("data.batch_size", expected="at most", got="50", remedy="smaller batch size"):
        next(iter(splits.loaders(0)["train"]))


def test_words_end_lines_by_a_token_and_the_rare_are_unknown(tmp_path):
    file = tmp_path / "text.txt.gz"
    file.write_bytes(gzip.compress(b"a b a\nc a b\n" * 20))
    splits = TextFiles(paths=(str(file),), kind="words", vocab_size=4, context=4, val=0.1).load()
    assert splits.tokenizer.get_vocab() == {"<unk>": 0, "<eos>": 1, "a": 2, "b": 3}
    batch = next(iter(splits.loaders(0)["train"]))
    assert {int(i) for i in batch.target.unique()} == {0, 1, 2, 3}


def test_a_file_begins_on_a_line_of_its_own(tmp_path):
    for name, text in (("a", "one\nend"), ("b", "Begin two\n"), ("c", "last")):
        (tmp_path / name).write_text(text)
    paths = tuple(str(tmp_path / name) for name in "abc")
    assert TextFiles(paths=paths).text() == "one\nend\nBegin two\nlast"


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_lines_come_back_from_their_ids(tmp_path, kind):
    file = tmp_path / "text.txt"
    file.write_text("a b a\nc a b\n\n" * 20)
    files = TextFiles(paths=(str(file),), kind=kind, context=4, val=0.1)
    tokenizer = files.load().tokenizer
    for text in ("a b\nc\n\na", "\na", "a\n", "b"):
        assert files.decode(tokenizer, files.encode(tokenizer, text)) == text


def test_bad_input(path, tmp_path):
    with refused("data.context", expected="less than the", got="400", remedy="shorter"):
        TextFiles(paths=(path,), context=400).load()
    with refused("data.paths", expected="text files", got="none", remedy="--data.paths"):
        TextFiles().load()
    with pytest.raises(MissingDataError, match="no such file"):
        TextFiles(paths=(str(tmp_path / "none.txt"),)).load()
    with refused("data.stride", expected="at most 8", got="9", remedy="0"):
        TextFiles(context=8, stride=9)
    with refused("data.val, data.test", expected="fractions above", got="0 and 0.1", remedy="0.1"):
        TextFiles(val=0)
    with refused("data.kind", expected="bpe", got="'word'", remedy="did you mean 'words'"):
        TextFiles(kind="word")
    short = tmp_path / "short.txt"
    short.write_text("abcdefgh")
    with refused("data.val", expected="leaves tokens", got="no tokens", remedy="larger"):
        TextFiles(paths=(str(short),), context=4, val=0.01).load()
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"\x81ext")  # no letter of Windows-1252 either
    with refused(str(broken), expected="UTF-8", got="invalid in these encodings", remedy="UTF-8"):
        TextFiles(paths=(str(broken),)).load()


def test_a_character_that_the_kept_vocabulary_lacks(path, tmp_path):
    splits = TextFiles(paths=(path,), context=8, val=0.1).load()
    (tmp_path / "tokenizer.json").write_text(splits.tokenizer.to_str())
    other = tmp_path / "other.txt"
    other.write_text(TEXT + "é" + TEXT)
    with refused("texts", expected="no <unk>", got="'é' at character 320 of text 0", remedy="unk"):
        TextFiles(paths=(str(other),), context=8, val=0.1, tokenizer=str(tmp_path)).load()


@pytest.mark.slow
@needs("tinyshakespeare")
def test_shakespeare_is_held_out_by_the_last_tenth():
    splits = Shakespeare().load()
    assert splits.model_arguments["vocab_size"] == 65
    assert sum(len(batch.target) for batch in splits.loaders(0)["test"]) == 111_540


@needs("war_and_peace")
def test_war_and_peace_begins_and_ends_with_the_book():
    text = WarAndPeace().text()
    assert "Gutenberg" not in text[:1000] + text[-1000:]
    assert len(text) > 3_200_000


@needs("wikitext-2")
def test_wikitext_is_tested_on_the_test_file():
    splits = WikiText2(kind="words", context=35, batch_size=80).load()
    assert sum(len(batch.target) for batch in splits.loaders(0)["test"]) == 245_569  # with <eos>
