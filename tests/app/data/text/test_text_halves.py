"""Halves of texts: disjoint, together the text, anew in training, and fixed in validation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgewise.app.kinds.language import TextHalves
from edgewise.app.kinds.language.halves import halves_split
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.layers import Tokens

CLS, SEP = 2, 3
TEXTS = [[10, 11], [20, 21, 22, 23, 24], [30, 31, 32, 33]]
PACKED = PackedTexts(
    torch.tensor([token for one in TEXTS for token in one]),
    torch.tensor([len(one) for one in TEXTS]),
)


def parts(tokens: Tokens) -> list[list[int]]:
    assert tokens.sizes is not None
    return [part.tolist() for part in tokens.ids.split(tokens.sizes.tolist())]


@pytest.mark.parametrize("fixed", [True, False])
def test_two_halves_are_the_text_in_its_order(fixed: bool) -> None:
    split = halves_split(PACKED, CLS, SEP, fixed=fixed)
    for index in ([0, 1, 2], [2, 0]):
        batch = split.make(torch.tensor(index))
        found = parts(batch.inputs[0])
        count = len(index)
        assert len(found) == 2 * count
        assert batch.target.tolist() == [*range(count, 2 * count), *range(count)]
        for place, text in enumerate(index):
            pair = [found[place], found[count + place]]
            assert all(one[0] == CLS and one[-1] == SEP for one in pair)
            inner = [one[1:-1] for one in pair]
            assert sorted(inner[0] + inner[1]) == TEXTS[text]
            assert [sorted(one) for one in inner] == inner
            assert 0 <= len(inner[0]) - len(inner[1]) <= 1


def test_training_splits_anew_and_validation_always_alike() -> None:
    long = PackedTexts(torch.arange(5, 205), torch.tensor([100, 100]))
    train, val = (halves_split(long, CLS, SEP, fixed=fixed) for fixed in (False, True))
    both = torch.arange(2)
    assert parts(train.make(both).inputs[0]) != parts(train.make(both).inputs[0])
    together = parts(val.make(both).inputs[0])
    for text in range(2):
        alone = parts(val.make(torch.tensor([text])).inputs[0])
        assert alone == [together[text], together[2 + text]]


def test_texts_of_one_token_are_left_out_and_long_ones_cut(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo words\n" + "many words " * 20 + "\nthree more words\n")
    given = {"sources": (), "paths": (str(file),), "test_paths": (str(file),), "val": 0.5}
    splits = TextHalves(**given, kind="words", max_length=6).load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [1, 2, 3]
    tokens = splits.test.make(torch.arange(3)).inputs[0]
    assert len(tokens.ids) == 2 + 6 + 3 + 6 * 2  # with <cls> and <sep> of six halves
    assert splits.model_arguments["longest_text"] == 6
