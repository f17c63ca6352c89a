"""Naive Bayes classifier on tokens and pairs of adjacent tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgewise.layers.tokens import Tokens
from edgewise.ragged import segment_index

SMOOTHING = 2.0
"""Count that is added to each n-gram in each class."""
MOST = 400_000
"""Maximum number of n-grams times classes. SST-2 has 87,000 n-grams in two classes."""
BASE = 2**31  # More than the largest token id.


class NaiveBayes(nn.Module):
    r"""Multinomial naive Bayes on the n-grams of a text: its tokens and pairs of adjacent tokens.

    .. math:: \ell_c = \log P(c) + \sum_{g \in \mathrm{text}} \log P(g \mid c) + \mathrm{const}

    Counts in the training set give the probabilities, with 2 added to each count. The sum omits
    n-grams without a count. :meth:`fit` counts; :meth:`fit_scales` combines the logits with those
    of a network.

    Papers: Wang and Manning, Baselines and bigrams: simple, good sentiment and topic
    classification, 2012; Cheng et al., Wide & deep learning, 2016 (beside a network)

    Args:
        keys: sorted keys of the n-grams, ``[K]``.
        weights: log probability of each n-gram in each class, ``[K, C]``, centred over the classes.
        prior: log probability of each class, ``[C]``.

    Attributes:
        scales: factors of the network's logits and of naive Bayes in :meth:`combined`.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> texts = layers.Tokens(torch.tensor([[5, 7], [5, 8]]))
        >>> classifier = layers.NaiveBayes.fit(texts, torch.tensor([0, 1]), classes=2)
        >>> classifier(layers.Tokens(torch.tensor([[9, 8]]))).argmax(-1)
        tensor([1])
    """

    keys: Tensor
    weights: Tensor
    prior: Tensor
    scales: Tensor

    def __init__(self, keys: Tensor, weights: Tensor, prior: Tensor) -> None:
        super().__init__()
        # The run folder has these tensors in its preprocessing file, not in the model's weights.
        self.register_buffer("keys", keys, persistent=False)
        self.register_buffer("weights", weights, persistent=False)
        self.register_buffer("prior", prior, persistent=False)
        self.register_buffer("scales", torch.tensor([1.0, 0.0]))

    @classmethod
    def fit(cls, texts: Tokens, labels: Tensor, classes: int) -> NaiveBayes:
        """Count the n-grams of labelled texts; keep the most frequent ones if there are too many.

        Args:
            texts: M texts.
            labels: class indices ``[M]``.
            classes: number of classes C.
        """
        grams, text = _ngrams(texts)
        keys, index = grams.unique(return_inverse=True)
        cell = index * classes + labels[text]
        counts = torch.bincount(cell, minlength=len(keys) * classes).view(-1, classes)
        kept = counts.sum(1).topk(min(len(keys), MOST // classes)).indices.sort().values
        smooth = counts[kept] + SMOOTHING
        weights = (smooth / smooth.sum(0)).log()
        prior = (torch.bincount(labels, minlength=classes) + 1.0).log()
        return cls(keys[kept], weights - weights.mean(1, keepdim=True), prior - prior.mean())

    def counted(self) -> dict[str, Tensor]:
        """Return the arguments of this classifier by name."""
        return {"keys": self.keys, "weights": self.weights, "prior": self.prior}

    def forward(self, tokens: Tokens) -> Tensor:
        """Return logits ``[B, C]``."""
        grams, text = _ngrams(tokens)
        at = torch.searchsorted(self.keys, grams).clamp(max=len(self.keys) - 1)
        found = self.keys[at] == grams
        logits = self.prior.repeat(len(tokens.lengths()), 1)
        return logits.index_add(0, text[found], self.weights[at[found]])

    def combined(self, logits: Tensor, tokens: Tokens) -> Tensor:
        """Return the weighted sum of the network's logits ``[B, C]`` and those of naive Bayes."""
        return self.scales[0] * logits + self.scales[1] * self(tokens)

    @torch.no_grad()
    def fit_scales(self, logits: Sequence[Tensor], target: Tensor, steps: int = 20) -> None:
        r"""Fit ``scales`` to held-out texts: the least cross-entropy, by Newton's method.

        Args:
            logits: logits ``[M, C]`` of the network, and of naive Bayes.
            target: class indices ``[M]``.
            steps: number of Newton steps.
        """
        x = torch.stack(tuple(logits), dim=-1).double()  # [M, C, 2]
        right = x[torch.arange(len(target)), target]
        scales = x.new_zeros(2)
        for _ in range(steps):
            chance = (x @ scales).softmax(-1)[..., None]
            mean = (chance * x).sum(1)
            # The ridge penalty keeps the scales finite if all texts are classified correctly.
            slope = (mean - right).sum(0) + scales
            spread = x - mean[:, None]
            curvature = torch.einsum("mck,mcl->kl", chance * spread, spread)
            scales = scales - torch.linalg.solve(curvature + torch.eye(2).to(x), slope)
        self.scales.copy_(scales.clamp(min=0))


def _ngrams(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Return the key of each token and pair of adjacent tokens, and the index of its text."""
    ids = tokens.ids.flatten() if tokens.mask is None else tokens.ids[tokens.mask.bool()]
    sizes = torch.as_tensor(tokens.lengths()).cpu()
    text = segment_index(sizes).to(ids.device)
    inside = text[1:] == text[:-1]
    pairs = (ids[:-1] + 1) * BASE + ids[1:]
    return torch.cat([ids, pairs[inside]]), torch.cat([text, text[1:][inside]])
