"""Text classification of your own labelled sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.arguments import check_given
from edgewise.data.reading import read_text
from edgewise.data.text.labelled_sentences import PARTS, LabelledSentences


@dataclass(frozen=True)
class TSV(LabelledSentences):
    """Your own labelled sentences.

    Attributes:
        train, val, test: files, plain or gzipped.
        longest, packed, word_dropout: see :class:`LabelledSentences`.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.

    """

    train: str = ""
    val: str = ""
    test: str = ""

    def files(self) -> dict[str, tuple[str, str]]:
        for name in PARTS:
            expected = "a file with sentence <tab> label on each line"
            check_given(
                f"data.{name}", getattr(self, name), expected, f"name it with --data.{name}"
            )
        return {name: (read_text(Path(p)), p) for name, p in ((n, getattr(self, n)) for n in PARTS)}
