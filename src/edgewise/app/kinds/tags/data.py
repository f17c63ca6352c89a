"""Base class of token classification (tagging) data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgewise._utils.ragged import segment_index
from edgewise.app.files.labels import distinct_labels
from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Split, Splits
from edgewise.app.train.text.labelled import Labelled, LabelledText, numbered
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.tokenizer import Special, encode_all, special_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL: tuple[Special, ...] = ("pad", "unk")
TaggedSplits = tuple[dict[str, list[Labelled]], dict[str, str]]
"""Two dicts by split: sentences, as lists of (word, tag), and the file, which errors name."""


@dataclass(frozen=True)
class TaggedWords(LabelledText):
    """Base class of tagging data: inputs ``(tokens, tokens of each word [W])``, targets ``[W]``."""

    @abstractmethod
    def read_splits(self) -> TaggedSplits:
        """Return the sentences of each split."""

    def load(self) -> Splits:
        tagged, files = self.read_splits()
        train_tags = (tag for sentence in tagged["train"] for _, tag in sentence)
        tags = distinct_labels(train_tags, "data.target", files["train"])
        plain = (" ".join(word for word, _ in sentence) for sentence in tagged["train"])
        tokenizer = self.make_tokenizer(plain, SPECIAL)
        splits = {}
        for name, sentences in tagged.items():
            pairs = [pair for sentence in sentences for pair in sentence]
            words = encode_words(tokenizer, [word for word, _ in pairs])
            counts = torch.tensor([len(sentence) for sentence in sentences])
            target = PackedTexts(numbered(pairs, tags, files[name]), counts)
            splits[name] = self._split(name, words, target, tokenizer)
        return self.text_splits(splits, tokenizer, {"labels": tags})

    def _split(
        self, name: str, words: PackedTexts, target: PackedTexts, tokenizer: Tokenizer
    ) -> Split:
        sentence = segment_index(target.sizes)
        lengths = torch.zeros_like(target.sizes).index_add_(0, sentence, words.sizes)

        def make(index: Tensor) -> Batch:
            ids, sizes = words.take(target.where(index))
            tokens = self.shown(name, ids, lengths[index], tokenizer)
            return Batch((tokens, sizes), target.take(index)[0])

        return Split(len(target), make, lengths=lengths)


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> PackedTexts:
    """Encode words; a word without tokens becomes ``<unk>``."""
    ids, sizes = encode_all(tokenizer, words)
    if bool((sizes > 0).all()):
        return PackedTexts(ids, sizes)
    filled = sizes.clamp(min=1)
    out = ids.new_full((int(filled.sum()),), special_id(tokenizer, "unk"))
    out[(sizes > 0)[segment_index(filled, len(out))]] = ids
    return PackedTexts(out, filled)
