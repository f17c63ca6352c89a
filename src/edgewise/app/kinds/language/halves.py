"""Two random halves of each text, for contrastive pre-training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.ragged import chosen
from edgewise.app.kinds.language.masked_text import SPECIAL, UnlabelledTexts
from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Split, Splits, TextSplits
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.text_data import check_some
from edgewise.app.train.text.tokenizer import encode_all, special_id
from edgewise.layers import Tokens

HALF = 0.5


@dataclass(frozen=True)
class TextHalves(UnlabelledTexts):
    """Texts split into two disjoint random halves of their tokens, each ``<cls> half <sep>``.

    A batch of B texts has 2B halves: the first halves of all texts, then their second halves. The
    target of each half is the index of the other half of its text, for
    :class:`edgewise.app.kinds.language.Contrastive`. In training, a text is split anew in every
    epoch; in validation and test, it is split once. Texts of one token are left out.

    Attributes:
        max_length: maximum number of tokens of a text; longer texts are truncated.
        sources, paths, test_paths, val: see :class:`UnlabelledTexts`.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    max_length: int = 64
    batch_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("max_length", 2, 64)

    def load(self) -> Splits:
        parts = self.texts()
        tokenizer = self.make_tokenizer(parts["train"], SPECIAL)
        first, last = special_id(tokenizer, "cls"), special_id(tokenizer, "sep")
        splits = {}
        for name, texts in parts.items():
            packed = PackedTexts(*encode_all(tokenizer, texts)).cut(self.max_length)
            kept = PackedTexts(*packed.take((packed.sizes >= 2).nonzero().flatten()))
            check_some(name, kept.ids)
            splits[name] = halves_split(kept, first, last, fixed=name != "train")
        sizes = {"vocab_size": tokenizer.get_vocab_size(), "longest_text": self.max_length}
        train, val, test = splits.values()
        return TextSplits(sizes, train, val, test, self.batch_size, tokenizer)


def halves_split(texts: PackedTexts, first: int, last: int, *, fixed: bool) -> Split:
    """Return a split of the halves of texts.

    Args:
        texts: texts of at least two tokens.
        first: id of ``<cls>``.
        last: id of ``<sep>``.
        fixed: whether each text is always split in the same way, in any batch.
    """
    own = chosen(texts.sizes, HALF, torch.Generator().manual_seed(0)) if fixed else None

    def make(index: Tensor) -> Batch:
        where, sizes = texts.where(index), texts.sizes[index]
        in_first = chosen(sizes, HALF) if own is None else own[where]
        return halves(texts.ids[where], sizes, in_first, first, last)

    return Split(len(texts), make)


def halves(ids: Tensor, sizes: Tensor, in_first: Tensor, first: int, last: int) -> Batch:
    """Return the batch of the halves of texts.

    Args:
        ids: packed token ids of B texts, ``[N]``.
        sizes: length of each text, ``[B]``.
        in_first: whether a token is in the first half of its text, ``[N]``.
        first: id of ``<cls>``.
        last: id of ``<sep>``.
    """
    count = len(sizes)
    half = torch.arange(count).repeat_interleave(sizes) + count * ~in_first
    every = torch.arange(2 * count)
    owner = torch.cat([every, half, every])
    ids = torch.cat([ids.new_full((2 * count,), first), ids, ids.new_full((2 * count,), last)])
    tokens = Tokens(ids[owner.argsort(stable=True)], owner.bincount(minlength=2 * count))
    return Batch((tokens,), every.roll(count))
