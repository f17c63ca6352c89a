"""Naive Bayes on tokens and pairs of adjacent tokens, alone and combined with a text classifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.ragged import segment_index
from edgewise.app.train.task import Task
from edgewise.layers import Pool, TextClassifier, Tokens
from edgewise.layers.sum_of_parts import SumOfParts

SMOOTHING = 2.0
"""Count that is added to each n-gram in each class."""
MOST = 400_000
"""Maximum number of n-grams times classes. SST-2 has 87,000 n-grams in two classes."""
BASE = 2**31  # More than the largest token id.
NEAR_ZERO = 0.05
"""Factors of the network and fractions of its part below this number leave the predictions to naive
Bayes."""


class NaiveBayes(nn.Module):
    r"""Multinomial naive Bayes on the n-grams of a text: its tokens and pairs of adjacent tokens.

    .. math:: \ell_c = \log P(c) + \sum_{g \in \mathrm{text}} \log P(g \mid c) + \mathrm{const}

    Counts in the training set give the probabilities, with 2 added to each count.

    Papers: Wang and Manning, Baselines and bigrams: simple, good sentiment and topic
    classification, 2012; Cheng et al., Wide & deep learning, 2016 (combined with a network)
    """

    keys: Tensor
    weights: Tensor
    prior: Tensor
    scales: Tensor
    part, without_part = "naive Bayes", "--data.naive_bayes false"

    def __init__(self, keys: Tensor, weights: Tensor, prior: Tensor) -> None:
        super().__init__()
        self.pool = Pool("sum")
        # The run folder has these tensors in its preprocessing file, not in the model's weights.
        self.register_buffer("keys", keys, persistent=False)
        self.register_buffer("weights", weights, persistent=False)
        self.register_buffer("prior", prior, persistent=False)
        self.register_buffer("scales", torch.tensor([1.0, 0.0]))

    @classmethod
    def fit(cls, texts: Tokens, labels: Tensor, classes: int) -> NaiveBayes:
        """Count the n-grams of texts with labels ``[M]``; keep at most the most frequent ones."""
        ids, text, pairs, inside = _ngrams(texts)
        grams = torch.cat([ids, pairs[inside]])
        text = torch.cat([text, text[1:][inside]])
        keys, index = grams.unique(return_inverse=True)
        cell = index * classes + labels[text]
        counts = torch.bincount(cell, minlength=len(keys) * classes).view(-1, classes)
        frequent = counts.sum(1).topk(min(len(keys), MOST // classes)).indices.sort().values
        smooth = counts[frequent] + SMOOTHING
        weights = (smooth / smooth.sum(0)).log()
        prior = (torch.bincount(labels, minlength=classes) + 1.0).log()
        return cls(keys[frequent], weights - weights.mean(1, keepdim=True), prior - prior.mean())

    def counted(self) -> dict[str, Tensor]:
        """Return the arguments of this classifier by name."""
        return {"keys": self.keys, "weights": self.weights, "prior": self.prior}

    def forward(self, tokens: Tokens) -> Tensor:
        """Return logits ``[B, C]``."""
        ids, _, pairs, inside = _ngrams(tokens)
        pair_weights = self._weights_of(pairs) * inside[:, None]
        # A pair counts half at each of its tokens. The sum is a call of `aggregate`, so that the
        # effect of a token can be measured by removing it, as in the network.
        halves = (F.pad(pair_weights, (0, 0, 1, 0)) + F.pad(pair_weights, (0, 0, 0, 1))) / 2
        total: Tensor = self.pool(self._weights_of(ids) + halves, tokens.lengths())
        return self.prior + total

    @property
    def is_alone(self) -> bool:
        """True if the fitted factor of the network is near zero."""
        return float(self.scales[0]) < NEAR_ZERO

    def _weights_of(self, grams: Tensor) -> Tensor:
        """Return the weights ``[M, C]`` of n-grams; 0 for those without a count."""
        index = torch.searchsorted(self.keys, grams).clamp(max=len(self.keys) - 1)
        return self.weights[index] * (self.keys[index] == grams)[:, None]

    @torch.no_grad()
    def fit_scales(self, logits: Sequence[Tensor], target: Tensor, steps: int = 20) -> None:
        """Fit ``scales`` to held-out logits ``[M, C]`` of both models by Newton's method."""
        x = torch.stack(tuple(logits), dim=-1).double()  # [M, C, 2]
        target_logits = x[torch.arange(len(target)), target]
        scales = x.new_zeros(2)
        for _ in range(steps):
            probability = (x @ scales).softmax(-1)[..., None]
            mean = (probability * x).sum(1)
            # The ridge penalty keeps the scales finite if all texts are classified correctly.
            gradient = (mean - target_logits).sum(0) + scales
            deviation = x - mean[:, None]
            hessian = torch.einsum("mck,mcl->kl", probability * deviation, deviation)
            scales = scales - torch.linalg.solve(hessian + torch.eye(2).to(x), gradient)
        self.scales.copy_(scales.clamp(min=0))


class CombinedClassifier(TextClassifier):
    """Text classifier that adds the logits of naive Bayes to its own, except in training mode."""

    def __init__(self, classifier: TextClassifier, naive_bayes: NaiveBayes) -> None:
        super().__init__(classifier.trunk, classifier.head)
        self.naive_bayes, self.combine = naive_bayes, SumOfParts()

    def forward(self, tokens: Tokens) -> Tensor:
        logits = self.network(tokens)
        if self.training:
            return logits
        scales = self.naive_bayes.scales
        total: Tensor = self.combine(
            {"network": scales[0] * logits, "naive Bayes": scales[1] * self.naive_bayes(tokens)}
        )
        return total

    def network(self, tokens: Tokens) -> Tensor:
        """Return logits ``[B, out_width]`` without naive Bayes."""
        return super().forward(tokens)

    @property
    def other(self) -> NaiveBayes:
        """The part that is not the network."""
        return self.naive_bayes

    def fit_weights(self, network: Tensor, other: Tensor, target: Tensor, _task: Task) -> None:
        """Fit the scales of both parts to their held-out logits."""
        self.naive_bayes.fit_scales((network, other), target)


def _ngrams(tokens: Tokens) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return token ids, their texts, keys of adjacent pairs, and which pairs are in one text."""
    ids = tokens.ids.flatten() if tokens.mask is None else tokens.ids[tokens.mask.bool()]
    text = segment_index(torch.as_tensor(tokens.lengths()).cpu()).to(ids.device)
    return ids, text, (ids[:-1] + 1) * BASE + ids[1:], text[1:] == text[:-1]
