"""Sentiment classification of film reviews, sentence by sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from edgewise.data.reading import raw_texts
from edgewise.data.text.labelled_sentences import LabelledParts, LabelledSentences, read_labelled


@dataclass(frozen=True)
class SST2(LabelledSentences):
    """Sentences of film reviews, praise or not (Socher et al., 2013): 6920, 872 and 1821.

    Whole sentences alone, without the 67 thousand labelled phrases that GLUE adds.
    """

    names: ClassVar[Mapping[str, str]] = {"0": "negative", "1": "positive"}

    def parts(self) -> LabelledParts:
        at = "clairett/pytorch-sentiment-classification/457ffd83de90a9d6d472d8ffc31bbffe40a8b236"
        where = f"https://raw.githubusercontent.com/{at}/data/SST2"
        names = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
        texts = raw_texts("SST2", {file: f"{where}/{file}" for file in names.values()})
        return LabelledParts(
            {name: read_labelled(texts[file], file) for name, file in names.items()}, names
        )
