"""Hidden tokens: the 80/10/10 rule, other tokens every time, the same ones in validation."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch

from edgewise.app.kinds.language import MaskedText
from edgewise.app.kinds.language.masked_text import _apart
from edgewise.app.kinds.language.masking import held_out_masked_windows, mask_tokens, masked_windows
from tests.errors import refused
from tests.places import needs

pytest.importorskip("tokenizers")

RULE = {"mask": 4, "special": torch.arange(5), "vocab_size": 1000}


def test_of_the_chosen_eight_tenths_are_hidden_one_is_another_and_one_stays():
    torch.manual_seed(0)
    ids = torch.randint(0, 1000, (200_000,))
    shown, places = mask_tokens(ids, 0.15, **RULE)
    ordinary = ids >= 5
    assert len(places) / int(ordinary.sum()) == pytest.approx(0.15, abs=0.005)
    assert bool(ordinary[places].all()), "special tokens are not chosen"
    hidden = (shown[places] == 4).double().mean()
    kept = (shown[places] == ids[places]).double().mean()
    assert float(hidden) == pytest.approx(0.8, abs=0.01)
    assert float(kept) == pytest.approx(0.1, abs=0.01)
    others = shown[places][(shown[places] != 4) & (shown[places] != ids[places])]
    assert others.min() >= 5, "no special token is put in"
    untouched = torch.ones_like(ids, dtype=torch.bool)
    untouched[places] = False
    assert torch.equal(shown[untouched], ids[untouched])


def test_there_is_always_something_to_find():
    ids = torch.tensor([2, 3, 7, 3])
    _, places = mask_tokens(ids, 1e-9, **RULE)
    assert places.tolist() == [2]


def test_training_hides_others_every_time_and_validation_the_same():
    stream = torch.randint(5, 1000, (500,))
    rule = {"first": 2, "hide": partial(mask_tokens, fraction=0.15, **RULE)}
    train = masked_windows(stream, 17, 0, **rule)
    val = held_out_masked_windows(stream, 17, **rule)
    index = torch.arange(4)
    for split, same in ((train, False), (val, True)):
        one, other = split.make(index), split.make(index)
        assert torch.equal(one.inputs[1], other.inputs[1]) is same
    torch.manual_seed(3)
    one = train.make(index)
    torch.manual_seed(3)
    other = train.make(index)
    assert torch.equal(one.inputs[0].ids, other.inputs[0].ids), "the same for the same seed"
    tokens, places = one.inputs
    assert bool((tokens.ids[:, 0] == 2).all())
    text = torch.cat([torch.full((4, 1), 2), stream.unfold(0, 16, 1)[index]], dim=1)
    assert torch.equal(one.target, text.flatten()[places])


@pytest.mark.parametrize("count", [1, 15, 16, 17, 32, 33, 40, 41, 250])
def test_every_hidden_token_of_a_held_out_text_is_asked_for_once(count):
    stream = torch.arange(100, 100 + count)  # each token tells its place
    hide = partial(mask_tokens, fraction=0.4, **RULE)
    split = held_out_masked_windows(stream, 17, first=2, hide=hide)
    hidden = hide(stream, generator=torch.Generator().manual_seed(0))[1] + 100
    asked = {}
    for batch_size in (1, 3, 100):
        batches = [split.make(i) for i in torch.arange(split.count).split(batch_size)]
        asked[batch_size] = torch.cat([batch.target for batch in batches]).tolist()
        for batch in batches:
            tokens, places = batch.inputs
            assert bool((tokens.ids[:, 0] == 2).all())
            before = tokens.ids.flatten()[places - 1]
            plain = (before != 2) & ~torch.isin(batch.target - 1, hidden)
            assert torch.equal(before[plain], batch.target[plain] - 1), "asked where it stands"
    assert asked[1] == asked[3] == asked[100] == hidden.tolist(), "once, in batches of any size"


def test_lines_of_files_become_windows_after_cls(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("one two three\n\nfour five\n" * 30)
    paths = (str(file),)
    whole = {"kind": "words", "vocab_size": None, "val": 0.1, "context": 6}
    data = MaskedText(sources=(), paths=paths, test_paths=paths, **whole)
    splits = data.load()
    words = splits.tokenizer.get_vocab()
    assert set(words) == {*(f"<{s}>" for s in ("pad", "unk", "cls", "sep", "mask"))} | {
        *("one", "two", "three", "four", "five")
    }
    batch = next(iter(splits.loaders(0)["train"]))
    assert batch.inputs[0].ids.shape[1] == 6


@pytest.mark.parametrize("val", [0.02, 0.1, 0.25, 0.3, 0.4, 0.7])
def test_the_share_to_validate_on_is_taken_from_all_over(val):
    lines = [str(i) for i in range(1000)]
    left, held = _apart(lines, val)
    assert sorted(left + held) == sorted(lines)
    assert len(held) == round(1000 * val)
    if val in (0.02, 0.1, 0.25):
        every = round(1 / val)
        assert held == lines[every - 1 :: every]
    places = [int(line) for line in held]
    assert max(b - a for a, b in pairwise([-1, *places])) <= 1 / val + 1


@needs("SST2")
def test_no_sentence_that_fine_tuning_is_tested_on_is_read():
    from edgewise.app.kinds.texts import SST2

    lines = set(MaskedText(sources=("sst2",)).lines())
    files = {name: [s for s, _ in found] for name, found in SST2().read_splits().texts.items()}
    assert lines == set(files["train"])
    # A few sentences of other splits are in the training split itself, as published.
    assert len(lines & set(files["val"] + files["test"])) < 15


def test_bad_input(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    (tmp_path / "text.txt").write_text("one two\n" * 9)
    own = {"sources": (), "paths": (str(tmp_path / "text.txt"),), "kind": "words"}
    with refused(str(empty), expected="not blank", got="white space", remedy="again"):
        MaskedText(**own, test_paths=(str(empty),)).load()
    with refused("data.sources", expected="sst2", got="'sst'", remedy="sst2"):
        MaskedText(sources=("sst",))
    with refused("data.sources, data.paths", expected="texts", got="none", remedy="files"):
        MaskedText(sources=()).load()
    with refused("data.mask_fraction", expected="fractions above 0", got="0", remedy="0.1"):
        MaskedText(mask_fraction=0)
