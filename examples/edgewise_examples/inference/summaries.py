"""Predictor for articles: extractive summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.read_table import is_table
from edgewise.app.files.reading import read_own_text
from edgewise.app.predict import Answer, Predictor
from edgewise.app.predict.predictor import check_text
from edgewise_examples.articles import Article
from edgewise_examples.data.wiki_summaries import Articles, WikiSummaries
from edgewise_examples.tasks import Extraction

ABBREVIATIONS = r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bMrs)(?<!\bvs)(?<!\b[A-Z])"
END = re.compile(ABBREVIATIONS + r"( ?[.!?]['\")\]”’]*)\s+(?=['\"(\[“‘]?[A-Z0-9])")


class Summaries(Predictor):
    """Predictor of an extractive summary: sentences chosen from an article."""

    data, task = WikiSummaries, Extraction
    input = "an article, its title in the first line"
    text_key = "summary"
    batch_size = 2

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """Read each argument as an article, or as the name of a file with one article."""
        yield from (read_own_text(Path(word)) if _is_file(word) else word for word in words)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read one article per row if the file is a table; otherwise the file is one article."""
        if is_table(path):
            yield from super().from_file(path)
        else:
            text = read_own_text(path)
            yield None, {"input": text}, text

    def columns(self) -> tuple[str, ...]:
        return ("title", "text")

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return f"{row['title']}\n{row['text']}"

    def prepare(self, value: Any) -> Article:
        title, _, body = check_text(value, self.input).partition("\n")
        sentences = tuple(sentences_of(body))
        if not sentences:
            raise ArgumentError(
                "input",
                expected=f"{self.input}, and sentences in the lines after it",
                got=f"only one line, {title[:60]!r}",
                remedy="put the title on its own line, before the text",
            )
        return Article(title.strip(), sentences, "")

    def answer(self, examples: list[Article], *, sentences: int | None = None) -> list[Answer]:
        """Return the summary of each article.

        Args:
            examples: articles to summarise.
            sentences: number of sentences in a summary. Default: as in the recipe.
        """
        data, task = self.recipe.data, self.recipe.task
        assert isinstance(data, WikiSummaries)
        assert isinstance(task, Extraction)
        if sentences is not None:
            check_range("sentences", sentences, "choose for example 3", least=1)
            task = replace(task, chosen=sentences)
        packed = Articles.of(self.tokenizer, examples, data.max_length)
        batch = packed.take(torch.arange(len(examples)), torch.zeros(len(packed.texts)))
        return [{"summary": text} for text in task.generate(self.model, batch)]

    def show(self, value: Any) -> str:
        return str(value).strip().partition("\n")[0]


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences.

    A sentence ends at the end of a line, and at a full stop, question mark or exclamation mark
    followed by white space and a capital letter or digit. ``Mr.`` and initials do not end a
    sentence, but other abbreviations before a capital letter do.
    """
    lines = (END.sub(r"\1\n", line.strip()) for line in text.split("\n"))
    return [sentence.strip() for line in lines for sentence in line.split("\n") if sentence.strip()]


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # The text is too long for a file name.
        return False
