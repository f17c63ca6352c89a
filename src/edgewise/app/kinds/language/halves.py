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
    """

    max_length: int = 64
    batch_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("max_length", 2, 64)

    def load(self) -> Splits:
        texts = self.texts()
        tokenizer = self.make_tokenizer(texts["train"], SPECIAL)
        first, last = special_id(tokenizer, "cls"), special_id(tokenizer, "sep")
        splits = {}
        for name, lines in texts.items():
            packed = PackedTexts(*encode_all(tokenizer, lines)).cut(self.max_length)
            packed = PackedTexts(*packed.take((packed.sizes >= 2).nonzero().flatten()))
            check_some(name, packed.ids)
            splits[name] = halves_split(packed, first, last, fixed=name != "train")
        sizes = {"vocab_size": tokenizer.get_vocab_size(), "longest_text": self.max_length}
        train, val, test = splits.values()
        return TextSplits(sizes, train, val, test, self.batch_size, tokenizer)


def halves_split(texts: PackedTexts, first: int, last: int, *, fixed: bool) -> Split:
    """Return a split of the halves of texts of at least two tokens, with the ids of both ends."""
    fixed_half = chosen(texts.sizes, HALF, torch.Generator().manual_seed(0)) if fixed else None

    def make(index: Tensor) -> Batch:
        position, sizes, count = texts.where(index), texts.sizes[index], len(index)
        in_first = chosen(sizes, HALF) if fixed_half is None else fixed_half[position]
        half = torch.arange(count).repeat_interleave(sizes) + count * ~in_first
        halves = torch.arange(2 * count)
        half_of_token = torch.cat([halves, half, halves])
        ends = texts.ids.new_full((2, 2 * count), first)
        ends[1] = last
        ids = torch.cat([ends[0], texts.ids[position], ends[1]])[half_of_token.argsort(stable=True)]
        tokens = Tokens(ids, half_of_token.bincount(minlength=2 * count))
        return Batch((tokens,), halves.roll(count))

    return Split(len(texts), make)
