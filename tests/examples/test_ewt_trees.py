"""Sentences as trees: who hangs from whom, the pieces of words, and labels that count."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from edgewise_examples import data
from edgewise_examples.baselines import syntax_trees
from edgewise_examples.data.ewt_trees import pieces_of

from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from tests.errors import refused
from tests.places import needs

NAME = "UD_English-EWT"
WORDS = {
    "train": [[("Dogs", 2, "nsubj:pass"), ("bark", 0, "root"), ("loudly", 2, "advmod")]],
    "dev": [[("Stop", 0, "root")], [("a", 2, "det"), ("dog", 0, "root")]],
    "test": [[("bark", 0, "root"), ("oh", 1, "discourse")]],
}


def folder(path: Path, words: dict[str, list[list[tuple[str, int, str]]]] = WORDS) -> Path:
    raw = path / NAME / "raw"
    raw.mkdir(parents=True)
    for part, sentences in words.items():
        text = "\n".join(
            "".join(
                f"{i}\t{word}\t_\tX\t_\t_\t{head}\t{label}\t_\t_\n"
                for i, (word, head, label) in enumerate(one, 1)
            )
            for one in sentences
        )
        (raw / f"en_ewt-ud-{part}.conllu.gz").write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_DATA", str(folder(tmp_path)))
    monkeypatch.delitem(SHA256, NAME)


def test_words_read_what_hangs_from_them() -> None:
    splits = data.ewt_trees(hashed=64).load()
    assert splits.preprocessing == {"labels": ["advmod", "nsubj", "root"]}
    batch = splits.train.make(torch.tensor([0]))
    x, graph = batch.inputs
    assert sorted(graph.edge_index.T.tolist()) == [[0, 1], [2, 1]]
    assert batch.target.tolist() == [1, 2, 0]
    expected = torch.zeros(64)
    for piece in pieces_of("bark"):
        expected[zlib.crc32(piece.encode()) % 64] += 1
    assert torch.equal(x[1], expected)


def test_the_baseline_sees_a_word_its_head_and_its_side() -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("sklearn")
    splits = data.ewt_trees(hashed=64).load()
    batch = splits.train.make(torch.tensor([0]))
    dogs, bark, loudly = batch.inputs[0]
    nothing, right, left = torch.zeros(66), torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
    rows = [(dogs, bark, right), (bark, nothing), (loudly, bark, left)]
    wanted = torch.stack([torch.cat(row) for row in rows])
    assert np.array_equal(syntax_trees.described(batch).toarray(), wanted.numpy())
    recipe = find("tree-lstm-ewt")
    for candidate in syntax_trees.candidates(recipe, splits):
        scores = candidate.fit()(batch)
    assert torch.equal(scores.argmax(1), batch.target), "with the weakest penalty"


def test_a_batch_is_a_forest_and_labels_that_training_lacks_do_not_count() -> None:
    splits = data.ewt_trees(hashed=64).load()
    batch = splits.val.make(torch.tensor([1, 0]))
    assert batch.inputs[1].edge_index.T.tolist() == [[1, 2]]
    assert batch.keywords["batch"].tolist() == [1, 2]
    assert (batch.target.tolist(), batch.select.tolist()) == ([2, 2], [0, 2])  # no det
    assert splits.test.make(torch.tensor([0])).select.tolist() == [0]


def test_on_a_chain_each_word_reads_the_one_before() -> None:
    batch = data.ewt_trees(links="chain").load().train.make(torch.tensor([0]))
    assert sorted(batch.inputs[1].edge_index.T.tolist()) == [[0, 1], [1, 2]]


def test_heads_that_are_no_tree_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = WORDS | {"dev": [[("a", 2, "det"), ("dog", 1, "root")]]}
    monkeypatch.setenv("EDGEWISE_DATA", str(folder(tmp_path / "wrong", wrong)))
    file = "en_ewt-ud-dev.conllu.gz"
    with refused(file, expected="a tree", got="begins with 'a'", remedy="correct"):
        data.ewt_trees().load()


@pytest.mark.slow
@needs(NAME)
def test_all_sentences_are_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.places import ROOT

    monkeypatch.setenv("EDGEWISE_DATA", str(ROOT))
    splits = data.ewt_trees(train_rows=100).load()
    assert [p.count for p in (splits.train, splits.val, splits.test)] == [100, 2001, 2077]
    batch = splits.test.make(torch.arange(2077))
    graph = batch.inputs[1]
    assert (graph.num_targets, graph.num_edges) == (25094, 25094 - 2077)
