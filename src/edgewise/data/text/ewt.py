"""Part-of-speech tagging of English web texts (Universal Dependencies)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice
from edgewise.batches import Batch
from edgewise.data.reading import raw_texts
from edgewise.data.splits import Split, Splits, TextSplits
from edgewise.data.text.conllu import Tag, read_conllu, words_of
from edgewise.data.text.labelled_sentences import PARTS, LabelledText, numbered
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.tokenizer import Special, encode_all, special_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL: tuple[Special, ...] = ("pad", "unk")


@dataclass(frozen=True)
class EWT(LabelledText):
    """English web texts (Silveira et al., 2014): 12,544 / 2001 / 2077 sentences, a tag a word.

    Attributes:
        tag: the column to predict: ``upos``, 17 universal parts of speech; ``xpos`` or ``deprel``.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`. A word is
            one or several tokens.

    """

    tag: Tag = "upos"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.tag", self.tag, get_args(Tag))

    def files(self) -> dict[str, tuple[str, str]]:
        at = "UniversalDependencies/UD_English-EWT/master"
        names = {"train": "train", "val": "dev", "test": "test"}
        files = {split: f"en_ewt-ud-{name}.conllu" for split, name in names.items()}
        where = f"https://raw.githubusercontent.com/{at}"
        texts = raw_texts("UD_English-EWT", {f"{f}.gz": f"{where}/{f}" for f in files.values()})
        return {split: (texts[f"{file}.gz"], f"{file}.gz") for split, file in files.items()}

    def load(self) -> Splits:
        files = self.files()
        parts = {name: read_conllu(*file, self.tag) for name, file in files.items()}
        tags = sorted({tag for sentence in parts["train"] for _, tag in sentence})
        plain = (" ".join(words) for words in words_of(parts["train"]))
        tokenizer = self.make_tokenizer(plain, SPECIAL)
        splits, longest = {}, 0
        for name, sentences in parts.items():
            words = [pair for sentence in sentences for pair in sentence]
            ids, sizes = encode_all(tokenizer, [word for word, _ in words])
            texts = PackedTexts(*_no_empty_word(ids, sizes, special_id(tokenizer, "unk")))
            counts = torch.tensor([len(sentence) for sentence in sentences])
            target = PackedTexts(numbered(words, tags, files[name][1]), counts)
            splits[name], most_tokens = self._split(name, texts, target, tokenizer)
            longest = max(longest, most_tokens)
        size = tokenizer.get_vocab_size()
        data_sizes = {"vocabulary": size, "longest": longest, "out_width": len(tags)}
        train, val, test = (splits[name] for name in PARTS)
        return TextSplits(data_sizes, train, val, test, self.batch_size, tokenizer)

    def _split(
        self, name: str, words: PackedTexts, target: PackedTexts, tokenizer: Tokenizer
    ) -> tuple[Split, int]:
        """Batches of sentences, and the tokens of the longest."""
        sentence = torch.arange(len(target)).repeat_interleave(target.sizes)
        lengths = torch.zeros_like(target.sizes).index_add_(0, sentence, words.sizes)

        def make(index: Tensor) -> Batch:
            ids, sizes = words.take(target.where(index))
            tokens = self.shown(name, ids, lengths[index], tokenizer, len(SPECIAL))
            return Batch((tokens, sizes), target.take(index)[0])

        return Split(len(target), make, lengths=lengths), int(lengths.max())


def _no_empty_word(ids: Tensor, sizes: Tensor, unknown: int) -> tuple[Tensor, Tensor]:
    """A word that the tokenizer makes nothing of is unknown."""
    if bool((sizes > 0).all()):
        return ids, sizes
    filled = sizes.clamp(min=1)
    out = ids.new_full((int(filled.sum()),), unknown)
    out[(sizes > 0).repeat_interleave(filled)] = ids
    return out, filled
