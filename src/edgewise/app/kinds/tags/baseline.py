"""Baselines of tagging: the most frequent tag of each word, and a linear model of nearby words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import SGDClassifier
from torch import Tensor

from edgewise._utils.ragged import segment_index
from edgewise.app.train.baseline import Candidate, Score, batches_of, fit_classifier
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Split, Splits
from edgewise.app.train.text.baselines import ids_of

Word = tuple[int, ...]
RADII = (1, 2, 8)
"""Settings: nearby words on either side."""
PENALTIES = (1e-5, 1e-4, 1e-3)
QUICK_TOKENS = 70_000
"""Tokens of the training set up to which ``edgewise train`` fits the linear models. They take 16 s
with the three tags of CB513, and about a minute with the 17 of English sentences."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield the most frequent tags, then linear models with each setting."""
    yield Candidate("most frequent tag of a word", "", lambda: _most_frequent(splits))
    slow = splits.train.lengths is not None and int(splits.train.lengths.sum()) > QUICK_TOKENS
    for radius in RADII:
        features = partial(nearby_words, radius, splits.model_arguments["vocab_size"])
        read = cache(partial(_read, splits.train, features))
        for penalty in PENALTIES:
            setting = f"{radius} on either side, penalty {penalty:g}"
            fit = partial(_linear, splits, read, features, penalty)
            yield Candidate("logistic regression on nearby words", setting, fit, slow)


def words_of(batch: Batch) -> list[Word]:
    """Return the token ids of each word of a batch."""
    tokens, sizes = batch.inputs
    ids = tokens.ids if tokens.mask is None else tokens.ids[tokens.mask > 0]
    return [tuple(word.tolist()) for word in ids.flatten().split(sizes.tolist())]


def _most_frequent(splits: Splits) -> Score:
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


def _linear(splits: Splits, read: Any, features: Any, penalty: float) -> Score:
    # Stochastic gradients, because the other solvers are slow for many words.
    model = SGDClassifier(loss="log_loss", alpha=penalty, average=True, random_state=0)
    return fit_classifier(model, read, features, splits.model_arguments["out_width"])


def _read(split: Split, features: Callable[[Batch], Any]) -> tuple[Any, np.ndarray]:
    batch = split.make(torch.arange(split.count))
    return features(batch), batch.target.numpy()


def nearby_words(radius: int, vocab_size: int, batch: Batch) -> Any:
    """Return the counts of each token in each word and in the words around it in its sentence,
    ``[words, (2 radius + 1) vocab_size]``, as a sparse matrix.
    """
    tokens, sizes = batch.inputs
    sentences = ids_of(tokens)
    ids = np.concatenate(sentences).astype(np.int64)
    word = segment_index(sizes).numpy()
    counts = csr_matrix((np.ones(len(ids), np.float32), (word, ids)), (len(sizes), vocab_size))
    first = (sizes.cumsum(0) - sizes).numpy()
    sentence = np.repeat(np.arange(len(sentences)), [len(row) for row in sentences])[first]
    row = np.arange(len(sizes))
    blocks = []
    for offset in range(-radius, radius + 1):
        near = row + offset
        inside = (near >= 0) & (near < len(row))
        inside[inside] = sentence[near[inside]] == sentence[inside]
        ones = np.ones(inside.sum(), np.float32)
        blocks.append(csr_matrix((ones, (row[inside], near[inside])), (len(row),) * 2) @ counts)
    return hstack(blocks, format="csr")
