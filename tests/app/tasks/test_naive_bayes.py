"""Naive Bayes on tokens and pairs: against scikit-learn, and combined with a network."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from edgewise import models
from edgewise.app.train.text import naive_bayes
from edgewise.app.train.text.naive_bayes import CombinedClassifier, NaiveBayes
from edgewise.layers import ClassificationHead, TextClassifier, Tokens

SIZES = torch.tensor([4, 1, 6, 3, 5, 2])
LABELS = torch.tensor([0, 2, 1, 1, 0, 1])


def texts() -> Tokens:
    return Tokens(torch.randint(9, (int(SIZES.sum()),)), SIZES)


def words(tokens: Tokens) -> list[str]:
    assert tokens.sizes is not None
    return [
        " ".join(f"w{token}" for token in part.tolist())
        for part in tokens.ids.split(tokens.sizes.tolist())
    ]


def test_equals_scikit_learn():
    sklearn = pytest.importorskip("sklearn.naive_bayes")
    from sklearn.feature_extraction.text import CountVectorizer

    train, other = texts(), texts()
    count = CountVectorizer(ngram_range=(1, 2))
    model = sklearn.MultinomialNB(alpha=2.0).fit(count.fit_transform(words(train)), LABELS)
    # The prior is (count + 1) / (total + classes), so that a class without texts is possible.
    model.class_log_prior_ = (torch.tensor([3, 4, 2]) / 9).log().numpy()
    expected = torch.tensor(model.predict_log_proba(count.transform(words(other))))
    ours = NaiveBayes.fit(train, LABELS, classes=3)
    torch.testing.assert_close(ours(other).log_softmax(-1), expected.float())
    torch.testing.assert_close(ours(other.padded(0)), ours(other), msg="packed and padded")


def test_keeps_the_most_frequent_ngrams(monkeypatch):
    monkeypatch.setattr(naive_bayes, "MOST", 6)
    train = Tokens(torch.tensor([[1, 2, 1, 2], [1, 5, 1, 2]]))
    kept = NaiveBayes.fit(train, torch.tensor([0, 1]), classes=2)
    assert kept.keys[:2].tolist() == [1, 2], "and the pair 1 2, but not 5"
    assert len(kept.keys) == 3


def test_an_ngram_that_is_not_counted_has_no_effect():
    model = NaiveBayes.fit(texts(), LABELS, classes=3)
    unknown = model(Tokens(torch.tensor([[70, 71]])))
    torch.testing.assert_close(unknown, model.prior[None])


def test_scales_minimise_the_cross_entropy():
    target = torch.randint(3, (60,))
    network, counts = (torch.randn(2, 60, 3) + F.one_hot(target, 3)).unbind()
    model = NaiveBayes.fit(texts(), LABELS, classes=3)
    model.fit_scales((3 * network, 10 * counts), target)

    def penalised(scales: torch.Tensor) -> float:
        logits = scales[0] * 3 * network + scales[1] * 10 * counts
        return float(F.cross_entropy(logits, target, reduction="sum") + (scales**2).sum() / 2)

    least = penalised(model.scales)
    assert all(scale > 0.05 for scale in model.scales.tolist())
    for change in 0.01 * torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]):
        assert penalised(model.scales + change) > least
    model.fit_scales((network, -counts), target)
    assert model.scales[1] == 0, "a classifier that is worse than chance is not used"


def test_the_network_trains_alone():
    trunk = models.bert(9, width=8, depth=1, heads=2, ffn_dim=8, max_length=6)
    classifier = TextClassifier(trunk, ClassificationHead(8, 3, dropout=0.0))
    tokens = texts()
    network = classifier.eval()(tokens)
    model = CombinedClassifier(classifier, NaiveBayes.fit(texts(), LABELS, classes=3)).eval()
    torch.testing.assert_close(model(tokens), network, msg="before the scales are fitted")
    model.naive_bayes.scales.copy_(torch.tensor([0.5, 2.0]))
    expected = 0.5 * network + 2 * model.naive_bayes(tokens)
    torch.testing.assert_close(model(tokens), expected)
    model.trunk.eval()
    model.training = True
    torch.testing.assert_close(model(tokens), network)
