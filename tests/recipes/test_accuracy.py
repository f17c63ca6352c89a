"""The published figures, over ten seeds; minutes, so only with ``-m accuracy``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgewise.recipes import find, train, train_seeds

pytestmark = pytest.mark.accuracy
needs_cora = pytest.mark.skipif(
    not (Path(os.environ.get("EDGEWISE_DATA") or "/nonexistent") / "Cora" / "raw").is_dir(),
    reason="EDGEWISE_DATA names no folder with Cora",
)


@needs_cora
@pytest.mark.parametrize(("name", "least"), [("gat-cora", 0.82), ("gcn-cora", 0.81)])
def test_cora(name, least, tmp_path):
    assert train_seeds(find(name), 10, tmp_path / name)["test/accuracy"]["mean"] >= least


def test_digits(tmp_path):
    assert train(find("digits"), tmp_path / "digits")["test/accuracy"] >= 0.97
