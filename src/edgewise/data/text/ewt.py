"""Part-of-speech tagging of English web texts (Universal Dependencies)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from edgewise.arguments import check_choice, check_least
from edgewise.data.reading import raw_texts
from edgewise.data.text.conllu import Tag, read_conllu
from edgewise.data.text.tagged_words import TaggedParts, TaggedWords


@dataclass(frozen=True)
class EWT(TaggedWords):
    """English web texts (Silveira et al., 2014): 12,544 / 2001 / 2077 sentences, a tag a word.

    Attributes:
        tag: the column to predict: ``upos``, 17 universal parts of speech; ``xpos``, ``deprel``; or
            ``relation``, which is ``deprel`` without its subtype.
        train_rows: how many sentences are trained on, from the first; 0 for all 12,544.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.

    """

    tag: Tag = "upos"
    train_rows: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.tag", self.tag, get_args(Tag))
        check_least("data.train_rows", self.train_rows, 0, "choose 0 for all")

    def parts(self) -> TaggedParts:
        texts = ewt_texts()
        read = {split: read_conllu(text, file, self.tag) for split, (file, text) in texts.items()}
        read["train"] = read["train"][: self.train_rows or None]
        return TaggedParts(read, {split: file for split, (file, _) in texts.items()})


def ewt_texts() -> dict[str, tuple[str, str]]:
    """The file of each split, and what is in it."""
    at = "UniversalDependencies/UD_English-EWT/master"
    names = {"train": "train", "val": "dev", "test": "test"}
    files = {split: f"en_ewt-ud-{name}.conllu" for split, name in names.items()}
    where = f"https://raw.githubusercontent.com/{at}"
    texts = raw_texts("UD_English-EWT", {f"{f}.gz": f"{where}/{f}" for f in files.values()})
    return {split: (f"{file}.gz", texts[f"{file}.gz"]) for split, file in files.items()}
