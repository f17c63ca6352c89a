"""Baseline of tagging: the most frequent tag of each word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import torch
from torch import Tensor

from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

Word = tuple[int, ...]


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield the baseline, which has no settings."""
    yield Candidate("most frequent tag of a word", "", lambda: _fitted(splits))


def words_of(batch: Batch) -> list[Word]:
    """Return the token ids of each word of a batch."""
    tokens, sizes = batch.inputs
    ids = tokens.ids if tokens.mask is None else tokens.ids[tokens.mask > 0]
    return [tuple(word.tolist()) for word in ids.flatten().split(sizes.tolist())]


def _fitted(splits: Splits) -> Score:
    count: dict[Word, Counter[int]] = defaultdict(Counter)
    for batch in batches_of(splits.train):
        for word, tag in zip(words_of(batch), batch.target.tolist(), strict=True):
            count[word][tag] += 1
    # An unknown word has the tag that is most frequent among words that occur once.
    once = Counter(tag for tags in count.values() if tags.total() == 1 for tag in tags)
    every = sum(count.values(), Counter())
    unknown = (once or every).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in count.items()}

    def score(batch: Batch) -> Tensor:
        tags = torch.tensor([best.get(word, unknown) for word in words_of(batch)])
        return torch.nn.functional.one_hot(tags, splits.model_arguments["out_width"]).float()

    return score
