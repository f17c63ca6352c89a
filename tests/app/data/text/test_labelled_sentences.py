"""Sentences with labels, and words with tags: what a batch holds, in both forms, and refusals."""

from __future__ import annotations

import pytest
import torch

from edgewise.app.kinds.tags import EWT
from edgewise.app.kinds.tags.conllu import read_conllu
from edgewise.app.kinds.texts import SST2, TextTable
from edgewise.app.train.text.packed_texts import drop_words
from tests.errors import refused
from tests.places import needs

pytest.importorskip("tokenizers")

LINES = "a good film\t1\nbad\t0\nnot good , not bad\t0\nso good\t1\n"


@pytest.fixture
def paths(tmp_path):
    for name in ("train", "val", "test"):
        content = LINES if name == "train" else "a good film\t1\nbad\t0\n"
        (tmp_path / f"{name}.tsv").write_text(content)
    named = {"path": "train", "val_path": "val", "test_path": "test"}
    return {field: str(tmp_path / f"{name}.tsv") for field, name in named.items()}


def test_a_batch_of_sentences_packed_and_padded(paths):
    packed, padded = (
        TextTable(**paths, kind="words", vocab_size=None, packed=form).load()
        for form in (True, False)
    )
    told = {"vocab_size": 4 + 7, "longest_text": 7, "out_width": 2}
    assert packed.model_arguments == padded.model_arguments == told
    index = torch.tensor([2, 0])
    one, other = packed.train.make(index), padded.train.make(index)
    assert one.target.tolist() == other.target.tolist() == [0, 1]
    (tokens,), (rows,) = one.inputs, other.inputs
    assert tokens.sizes.tolist() == [7, 5]
    assert packed.tokenizer.decode(tokens.ids.tolist()) == "not good , not bad a good film"
    assert tokens.ids[[0, 6, 7, 11]].tolist() == [2, 3, 2, 3]  # <cls>, <sep>
    assert rows.ids.shape == (2, 7)
    assert torch.equal(rows.ids[rows.mask.bool()], tokens.ids)
    assert rows.ids[~rows.mask.bool()].tolist() == [0, 0]


def test_long_sentences_are_cut_where_asked(paths):
    splits = TextTable(**paths, kind="words", vocab_size=None, max_length=4).load()
    assert splits.model_arguments["longest_text"] == 4
    (tokens,) = splits.train.make(torch.arange(4)).inputs
    assert tokens.sizes.tolist() == [4, 3, 4, 4]


def test_some_labels_alone(paths):
    everything = TextTable(**paths, kind="words", vocab_size=None).load()
    some = TextTable(**paths, kind="words", vocab_size=None, labelled=2).load()
    again = TextTable(**paths, kind="words", vocab_size=None, labelled=2).load()
    assert some.model_arguments["vocab_size"] == everything.model_arguments["vocab_size"]
    assert [split.count for split in (some.train, some.val, some.test)] == [2, 2, 2]
    ids = [split.train.make(torch.arange(2)).inputs[0].ids.tolist() for split in (some, again)]
    assert ids[0] == ids[1]
    samples = set()
    for seed in range(8):
        other = TextTable(**paths, kind="words", vocab_size=None, labelled=2, split_seed=seed)
        batch = other.load().train.make(torch.arange(2))
        samples.add(tuple(batch.inputs[0].ids.tolist()))
    assert len(samples) > 1
    with refused("data.labelled", expected="at most 4", got="5", remedy="0 for all"):
        TextTable(**paths, labelled=5).load()


def test_a_label_that_training_does_not_have(paths, tmp_path):
    val = tmp_path / "val.tsv"
    val.write_text("so so\t2\nbad\t0\n")
    with refused(
        str(val), expected="0, 1", got="'2' for the text 'so so'", remedy="correct the label"
    ):
        TextTable(**paths).load()
    with refused("data.path", expected="a table", got="none", remedy="--data.path"):
        TextTable(val_path=paths["val_path"]).load()


@pytest.mark.slow
@needs("SST2")
def test_sst2_has_the_published_counts():
    splits = SST2().load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [6920, 872, 1821]
    targets = torch.cat([batch.target for batch in splits.loaders(0)["train"]])
    assert int(targets.sum()) == 3610
    assert len(targets) == 6920


CONLLU = """# text = Don't!
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t1:x\t_
3\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def test_conllu_gives_words_and_tags():
    sentences = [[("Do", "AUX"), ("n't", "PART"), ("!", "PUNCT")], [("Yes", "INTJ")]]
    assert read_conllu(CONLLU, "x") == sentences
    assert read_conllu(CONLLU + "\n", "x") == sentences
    assert read_conllu(CONLLU, "x", "deprel")[0] == [
        ("Do", "root"),
        ("n't", "advmod"),
        ("!", "punct"),
    ]


def test_conllu_that_cannot_be_read():
    for text, got in (
        ("# text = \n\n" + CONLLU, "the end of a sentence without words in line 2"),
        (CONLLU + "\n\n\n" + CONLLU, "the end of a sentence without words in line 10"),
        ("1\tYes\tyes\n", "3 columns in line 1"),
        (CONLLU.replace("\n3\t", "\n\n3\t"), "word '3' after 0 words in line 7"),
        (CONLLU.replace("2\tn't", "4\tn't"), "word '4' after 1 word in line 4"),
        (CONLLU.replace("3\t!", "x\t!"), "word 'x' after 2 words in line 6"),
    ):
        with refused("x", expected="CoNLL-U", got=got, remedy="correct this line"):
            read_conllu(text, "x")
    with refused("data.target", expected="upos", got="'pos'", remedy="did you mean"):
        EWT(target="pos")


@pytest.mark.slow
@needs("UD_English-EWT")
def test_ewt_has_the_published_numbers_of_sentences():
    sentences, _ = EWT().read_splits()
    assert {split: len(of) for split, of in sentences.items()} == {
        "train": 12544,
        "val": 2001,
        "test": 2077,
    }


@pytest.mark.slow
@needs("UD_English-EWT")
def test_ewt_has_the_published_counts_and_a_word_is_a_run_of_tokens():
    splits = EWT(batch_size=100).load()
    assert splits.model_arguments["out_width"] == 17
    for part, sentences, words in (
        (splits.train, 12544, 204577),
        (splits.val, 2001, 25147),
        (splits.test, 2077, 25094),
    ):
        assert part.count == sentences
        batch = part.make(torch.arange(sentences))
        tokens, sizes = batch.inputs
        assert len(batch.target) == len(sizes) == words
        assert int(sizes.min()) == 1, "no word is without a token"
        assert int(sizes.sum()) == len(tokens.ids) == int(tokens.sizes.sum())
    batch = splits.train.make(torch.tensor([7, 3]))
    other = EWT(batch_size=100, packed=False).load().train.make(torch.tensor([7, 3]))
    assert torch.equal(batch.inputs[0].ids, other.inputs[0].ids[other.inputs[0].mask.bool()])
    assert torch.equal(batch.target, other.target)


def test_training_forgets_other_tokens_every_time_and_validation_none():
    torch.manual_seed(0)
    ids = torch.arange(10_000) % 50
    shown = drop_words(ids, 0.2, hiding=1, special=torch.arange(4))
    lost = shown != ids
    assert bool((shown[lost] == 1).all())
    assert not bool(lost[ids < 4].any())
    assert float(lost[ids >= 4].double().mean()) == pytest.approx(0.2, abs=0.02)
    assert not torch.equal(drop_words(ids, 0.2, 1, torch.arange(4)), shown)


@pytest.mark.parametrize("packed", [True, False])
def test_only_training_forgets(paths, packed):
    options = {"kind": "words", "vocab_size": None, "packed": packed}
    plain, less = (TextTable(**paths, **options, word_dropout=share).load() for share in (0, 0.9))
    for name in ("train", "val", "test"):
        one, other = (next(iter(s.loaders(0)[name])).inputs[0].ids for s in (plain, less))
        assert torch.equal(one, other) is (name != "train")
    with refused("data.word_dropout", expected="from 0", got="1.0", remedy="0.1"):
        TextTable(word_dropout=1.0)
