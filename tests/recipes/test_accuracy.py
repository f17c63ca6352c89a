"""The published figures, over ten seeds; minutes, so only with ``-m accuracy``."""

from __future__ import annotations

import pytest

from edgewise.recipes import find, train, train_seeds
from tests.places import needs

pytestmark = pytest.mark.accuracy
needs_cora = needs("Cora")


@needs_cora
@pytest.mark.parametrize(("name", "least"), [("gat-cora", 0.82), ("gcn-cora", 0.81)])
def test_cora(name, least, tmp_path):
    assert train_seeds(find(name), 10, tmp_path / name)["test/accuracy"]["mean"] >= least


def test_digits(tmp_path):
    assert train(find("digits"), tmp_path / "digits")["test/accuracy"] >= 0.97


@needs_cora
def test_best_cora(tmp_path):
    summary = train_seeds(find("grand-cora"), 10, tmp_path / "grand")
    assert summary["test/accuracy"]["mean"] >= 0.84


def test_forecast(tmp_path):
    pytest.importorskip("statsmodels")
    assert train(find("forecast"), tmp_path / "forecast")["test/seasonal_ratio"] <= 0.5


@needs("MNIST")
def test_captions(tmp_path):
    assert train(find("caption-digits"), tmp_path / "captions")["test/exact"] >= 0.95


@needs("multi30k")
def test_translation(tmp_path):
    assert train(find("transformer-multi30k"), tmp_path / "translation")["test/bleu"] >= 30


@needs("wikitext-2")
def test_summaries(tmp_path):
    metrics = train(find("summarise-wikitext"), tmp_path / "summaries")
    for kind in ("rouge1", "rouge2", "rougeL"):
        assert metrics[f"test/{kind}"] > metrics[f"test/lead_{kind}"]


@needs("ego_facebook")
def test_facebook(tmp_path):
    assert train(find("sage-facebook"), tmp_path / "links")["test/auc"] >= 0.98


@needs("gowalla")
@pytest.mark.parametrize("name", ["lightgcn-gowalla", "pinsage-gowalla"])
def test_gowalla(name, tmp_path):
    assert train(find(name), tmp_path / name)["test/recall@20"] >= 0.15
