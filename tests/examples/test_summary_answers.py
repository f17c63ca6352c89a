"""Answers on articles: their summaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from edgewise_examples.data.wiki_summaries import SPECIAL
from edgewise_examples.inference.summaries import Summaries, sentences_of

from edgewise.app.kinds import find
from edgewise.app.runs import with_values
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.text.tokenizer import train_tokenizer

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")

ARTICLE = """The cat
The cat is small. Mr. J. Mat said "it ran." Then it sat!
A dog is big . It ran under a mat .

Version 2.5 was red."""


def test_sentences_of_an_article() -> None:
    assert sentences_of(ARTICLE.partition("\n")[2]) == [
        "The cat is small.",
        'Mr. J. Mat said "it ran."',
        "Then it sat!",
        "A dog is big .",
        "It ran under a mat .",
        "Version 2.5 was red.",
    ]


def test_articles_are_summarised(tmp_path: Path) -> None:
    tokenizer = train_tokenizer([ARTICLE], "words", special=SPECIAL)
    summariser = with_values(
        find("summarise-wikitext"), {"model.width": 8, "model.heads": 2, "task.heads": 2}
    )
    model = summariser.task.complete(
        summariser.model(vocab_size=tokenizer.get_vocab_size()), {"longest_text": 64}
    )
    preprocessing = Preprocessing({}, None, {})
    kind = Summaries(summariser, model.eval(), preprocessing, tokenizer, tmp_path)
    article, nothing, short = kind.answers([ARTICLE, "a title", "a title\nOne."], {})
    sentences = sentences_of(ARTICLE.partition("\n")[2])
    chosen = [one for one in sentences if one in article["summary"]]
    assert article["input"] == "The cat"
    assert article["summary"] == " ".join(chosen)
    assert len(chosen) == 3
    assert "its own line" in nothing["error"]
    assert short["summary"] == "One."
    (one,) = kind.answers([{"title": "The cat", "text": ARTICLE}], {"sentences": 1})
    assert one["summary"] in [*sentences, "The cat"]
    (tmp_path / "article.txt").write_text(ARTICLE)
    assert list(kind.from_words([str(tmp_path / "article.txt"), "x" * 999])) == [ARTICLE, "x" * 999]
    assert [value for *_, value in kind.from_file(tmp_path / "article.txt")] == [ARTICLE]
