"""Sentiment classification of film reviews, sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.data.reading import raw_texts
from edgewise.data.text.labelled_sentences import LabelledSentences


@dataclass(frozen=True)
class SST2(LabelledSentences):
    """Sentences of film reviews, praise or not (Socher et al., 2013): 6920, 872 and 1821.

    Whole sentences alone, without the 67 thousand labelled phrases that GLUE adds.
    """

    def files(self) -> dict[str, tuple[str, str]]:
        at = "clairett/pytorch-sentiment-classification/457ffd83de90a9d6d472d8ffc31bbffe40a8b236"
        where = f"https://raw.githubusercontent.com/{at}/data/SST2"
        names = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
        texts = raw_texts("SST2", {file: f"{where}/{file}" for file in names.values()})
        return {name: (texts[file], file) for name, file in names.items()}
