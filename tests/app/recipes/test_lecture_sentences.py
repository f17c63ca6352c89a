"""The lecture's sentences about "like" are not in SST-2, and how SST-2 uses the word."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.lecture_sentences import LECTURE, VARIATIONS, right
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.kinds.texts import SST2
from tests.places import needs


def occurrences(phrase):
    """Count the training sentences with a phrase, by label."""
    train = SST2().read_splits().texts["train"]
    found = Counter(label for text, label in train if f" {phrase} " in f" {text} ")
    return {SST2().names[label]: count for label, count in found.items()}


@needs("SST2")
def test_no_sentence_is_in_sst2():
    parts = SST2().read_splits().texts.values()
    known = {text for part in parts for text, _ in part}
    assert "i like this movie a lot" in known, "so sentences are compared in lower case"
    assert not known & {text.lower() for text in (*LECTURE, *VARIATIONS)}


@needs("SST2")
def test_the_counts_that_the_lecture_page_quotes():
    assert occurrences("like") == {"positive": 159, "negative": 250}
    assert occurrences("i like") == {"positive": 6, "negative": 1}
    assert occurrences("do n't like") == occurrences("do not like") == {}


@pytest.mark.slow
@needs("SST2")
def test_the_benchmark_counts_correct_answers(tmp_path, capsys):
    fields = {"data.labelled": 64, "model.width": 16, "model.depth": 1, "trainer.epochs": 1}
    runs.train(runs.with_values(find("sst2"), fields), tmp_path / "run")
    correct = right(tmp_path / "run")
    *answers, total = capsys.readouterr().out.splitlines()
    assert total == f"{correct} of 12 are correct"
    expected = LECTURE | VARIATIONS
    found = [line for line in answers if not line.endswith("wrong")]
    assert len(found) == correct
    for line in answers:
        text, said = line[:40].strip(), line[41:50].strip()
        assert (said == expected[text]) == (line in found)
