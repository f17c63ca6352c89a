"""Sentiment classification of sentences of film reviews."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from edgewise.data.reading import raw_texts
from edgewise.data.text.labelled_sentences import Labelled, LabelledParts, LabelledSentences


@dataclass(frozen=True)
class SST2(LabelledSentences):
    """Stanford Sentiment Treebank with two classes (Socher et al., 2013).

    6920 training, 872 validation and 1821 test sentences; without the 67,000 labelled phrases that
    GLUE adds.
    """

    names: ClassVar[Mapping[str, str]] = {"0": "negative", "1": "positive"}

    def parts(self) -> LabelledParts:
        at = "clairett/pytorch-sentiment-classification/457ffd83de90a9d6d472d8ffc31bbffe40a8b236"
        where = f"https://raw.githubusercontent.com/{at}/data/SST2"
        names = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
        texts = raw_texts("SST2", {file: f"{where}/{file}" for file in names.values()})
        parts: dict[str, Labelled] = {}
        for name, file in names.items():
            rows = (line.rsplit("\t", 1) for line in texts[file].removesuffix("\n").split("\n"))
            parts[name] = [(sentence.strip(), label.strip()) for sentence, label in rows]
        return LabelledParts(parts, names)
