"""Tokenizers: what goes in comes out, the same in every process, and bad input is named."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.train.text.tokenizer import (
    KINDS,
    SPECIALS,
    TOKENIZER,
    encode_all,
    load_tokenizer,
    parse_tokenizer,
    special_id,
    train_tokenizer,
    vocabulary_hash,
)
from tests.errors import refused

pytest.importorskip("tokenizers")

TEXTS = [
    "the cat sat on the mat",
    "a dog, a cat and another dog",
    "Zwei Hunde laufen über die Straße",
    "nobody reads the first word of this sentence twice, nobody",
]
SIZES = {"characters": None, "words": None, "bytes": 300, "bpe": 60, "wordpiece": 90}


@pytest.mark.parametrize("kind", ["characters", "words", "bytes", "bpe"])
def test_decoding_gives_the_text_back(kind):
    tokenizer = train_tokenizer(TEXTS, kind, SIZES[kind])
    ids, sizes = encode_all(tokenizer, TEXTS)
    assert sizes.sum() == len(ids)
    for text, part in zip(TEXTS, ids.split(sizes.tolist()), strict=True):
        assert tokenizer.decode(part.tolist()) == text


def test_wordpiece_continues_words_with_marked_pieces():
    tokenizer = train_tokenizer(TEXTS, "wordpiece", SIZES["wordpiece"])
    ids, _ = encode_all(tokenizer, ["cats"])
    pieces = [tokenizer.id_to_token(i) for i in ids.tolist()]
    assert pieces[0][:2] != "##"
    assert all(piece[:2] == "##" for piece in pieces[1:])
    assert "".join(piece.removeprefix("##") for piece in pieces) == "cats"


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_in_their_order_and_around_texts(kind):
    tokenizer = train_tokenizer(TEXTS, kind, SIZES[kind], special=SPECIALS)
    assert [special_id(tokenizer, name) for name in SPECIALS] == list(range(len(SPECIALS)))
    ids, sizes = encode_all(tokenizer, ["the cat", ""], first="cls", last="sep")
    bare, _ = encode_all(tokenizer, ["the cat"])
    cls, sep = special_id(tokenizer, "cls"), special_id(tokenizer, "sep")
    assert ids.tolist() == [cls, *bare.tolist(), sep, cls, sep]
    assert sizes.tolist() == [len(bare) + 2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_unknown_is_unk_where_there_is_one(kind):
    tokenizer = train_tokenizer(TEXTS, kind, SIZES[kind], special=("unk",))
    ids, _ = encode_all(tokenizer, ["π"])
    if kind == "bytes":
        assert tokenizer.decode(ids.tolist()) == "π"
    else:
        assert special_id(tokenizer, "unk") in ids


def test_an_unknown_character_without_unk_is_named_with_its_place():
    tokenizer = train_tokenizer(TEXTS, "characters")
    where = "'π' at character 4 of text 1"
    with refused("texts", expected="no <unk>", got=where, remedy="special=('unk',)"):
        encode_all(tokenizer, ["the cat", "the π"])


def test_only_the_most_frequent_words_are_kept():
    tokenizer = train_tokenizer(["b b b a a c"], "words", 3)
    assert tokenizer.get_vocab() == {"<unk>": 0, "b": 1, "a": 2}


def test_lower_case():
    tokenizer = train_tokenizer(["The CAT"], "characters", lowercase=True)
    ids, _ = encode_all(tokenizer, ["THE cat"])
    assert tokenizer.decode(ids.tolist()) == "the cat"


@pytest.mark.slow
def test_every_process_learns_the_same_vocabulary():
    program = (
        "from tests.app.data.text.test_tokenizer import *\n"
        "print(*(vocabulary_hash(train_tokenizer(TEXTS, k, SIZES[k])) for k in KINDS))"
    )
    command = [sys.executable, "-c", program]
    there = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    here = [vocabulary_hash(train_tokenizer(TEXTS, kind, SIZES[kind])) for kind in KINDS]
    assert there == here
    assert len(set(here)) == len(KINDS)


def test_a_tokenizer_is_kept_in_a_file(tmp_path):
    tokenizer = train_tokenizer(TEXTS, "bpe", 60, special=("pad",))
    (tmp_path / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf-8")
    again = load_tokenizer(tmp_path)
    assert vocabulary_hash(again) == vocabulary_hash(tokenizer)
    for one, other in zip(encode_all(again, TEXTS), encode_all(tokenizer, TEXTS), strict=True):
        assert torch.equal(one, other)


def test_the_hash_tells_vocabularies_apart():
    a = train_tokenizer(["a b"], "words")
    assert vocabulary_hash(a) != vocabulary_hash(train_tokenizer(["b b a"], "words"))
    assert vocabulary_hash(a) != vocabulary_hash(train_tokenizer(["a b"], "words", lowercase=True))


def test_bad_input():
    with refused("kind", expected="words", got="'word'", remedy="did you mean 'words'"):
        train_tokenizer(TEXTS, "word")
    with refused("special", expected="pad", got="'pat'", remedy="did you mean 'pad'"):
        train_tokenizer(TEXTS, special=("pat",))
    for texts, kind in ((["", " "], "words"), ([], "bytes"), ([""], "characters")):
        with refused("texts", expected="text to train", got="none", remedy="files"):
            train_tokenizer(texts, kind, 300)
    with refused("vocab_size", expected="kind 'bpe'", got="none", remedy="8000"):
        train_tokenizer(TEXTS, "bpe")
    with refused("vocab_size", expected="at least 257", got="256", remedy="increase"):
        train_tokenizer(TEXTS, "bytes", 256, special=("pad",))
    with refused("vocab_size", expected="at least 4", got="3", remedy="unk"):
        train_tokenizer(["abcd"], "characters", 3)
    with refused("tokenizer", expected="<mask>", got="without", remedy="special=('mask'"):
        special_id(train_tokenizer(["a"], "words"), "mask")


def test_files_that_are_no_tokenizers(tmp_path):
    with pytest.raises(MissingDataError, match="Remedy: give the path of a tokenizer"):
        load_tokenizer(tmp_path)
    with refused(
        TOKENIZER,
        expected="Hugging Face",
        got="Model missing",
        remedy="copy or download this file again",
    ):
        parse_tokenizer("{}")


def test_many_texts_are_coded_in_portions_and_what_is_too_long_is_said_before(monkeypatch):
    texts = [f"a cat {i} sat" for i in range(50)] + ["", "a dog"]
    tokenizer = train_tokenizer(texts, "words")
    whole = encode_all(tokenizer, texts)
    monkeypatch.setattr("edgewise.app.train.text.tokenizer.PORTION", 40)
    for one, other in zip(whole, encode_all(tokenizer, texts), strict=True):
        assert torch.equal(one, other)
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 2000)
    with refused("texts", expected="the free memory", got="a text of 10 char", remedy="shorten"):
        encode_all(tokenizer, ["a dog", "a dog sat."])
    assert len(encode_all(tokenizer, ["a dog"] * 99)[1]) == 99
