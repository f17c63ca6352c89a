"""English Web Treebank (EWT) of Universal Dependencies, for part-of-speech tagging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from edgewise.arguments import check_choice
from edgewise.data.reading import raw_texts
from edgewise.data.text.conllu import Tag, read_conllu
from edgewise.data.text.tagged_words import TaggedParts, TaggedWords


@dataclass(frozen=True)
class EWT(TaggedWords):
    """English web texts (Silveira et al., 2014): 12,544 / 2001 / 2077 sentences.

    Attributes:
        tag: column to predict: ``"upos"`` (17 universal parts of speech), ``"xpos"`` or
            ``"deprel"``.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    tag: Tag = "upos"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.tag", self.tag, get_args(Tag))

    def parts(self) -> TaggedParts:
        texts = ewt_texts()
        read = {split: read_conllu(text, file, self.tag) for split, (file, text) in texts.items()}
        return read, {split: file for split, (file, _) in texts.items()}


def ewt_texts() -> dict[str, tuple[str, str]]:
    """Return the file name and the text of each split."""
    at = "UniversalDependencies/UD_English-EWT/15d613d8447b3478787d4c278730a1e48a945efb"
    names = {"train": "train", "val": "dev", "test": "test"}
    files = {split: f"en_ewt-ud-{name}.conllu" for split, name in names.items()}
    where = f"https://raw.githubusercontent.com/{at}"
    texts = raw_texts("UD_English-EWT", {f"{f}.gz": f"{where}/{f}" for f in files.values()})
    return {split: (f"{file}.gz", texts[f"{file}.gz"]) for split, file in files.items()}
