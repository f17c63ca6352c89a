"""The real sets in EDGEWISE_DATA: counts as their sources state them."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")

from edgewise.app.kinds.graphs import TU
from edgewise.app.kinds.molecules import ESOL, IonicLiquids
from edgewise.app.train import Split, Splits
from tests.places import needs


def splits_of(loaded: Splits) -> list[Split]:
    return [loaded.train, loaded.val, loaded.test]


def targets(split: Split) -> torch.Tensor:
    return split.make(torch.arange(split.count)).target


@pytest.mark.slow
@needs("esol")
def test_esol() -> None:
    loaded = ESOL().load()
    y = torch.cat([targets(split) for split in splits_of(loaded)])
    assert [split.count for split in splits_of(loaded)] == [812, 90, 226]
    assert float(y.mean()) == pytest.approx(-3.0501, abs=1e-4)
    assert float(y.std()) == pytest.approx(2.0964, abs=1e-3)


@pytest.mark.slow
@needs("ionic_liquids")
def test_no_ionic_liquid_is_in_two_splits() -> None:
    loaded = IonicLiquids().load()
    assert sum(split.count for split in splits_of(loaded)) == 15665
    assert loaded.model_arguments["global_width"] == 3
    liquids = []
    for split in splits_of(loaded):
        members = split.make(torch.arange(split.count)).keywords["batch"]
        liquids.append(len(members.start.unique()))
    assert sum(liquids) == 183  # the batch holds each liquid once, and no split shares one
    assert min(liquids) >= 20


@needs("MUTAG")
def test_mutag() -> None:
    loaded = TU(name="MUTAG").load()
    assert loaded.model_arguments == {"in_width": 7, "out_width": 2}
    batches = [split.make(torch.arange(split.count)) for split in splits_of(loaded)]
    assert [len(batch.target) for batch in batches] == [153, 16, 19]
    assert sum(len(batch.inputs[0]) for batch in batches) == 3371
    assert sum(batch.inputs[1].num_edges for batch in batches) == 7442
    assert torch.cat([batch.target for batch in batches]).bincount().tolist() == [63, 125]


@pytest.mark.slow
@needs("ENZYMES")
def test_enzymes_attributes_are_scaled_by_the_training_split() -> None:
    loaded = TU(name="ENZYMES").load()
    assert loaded.model_arguments == {"in_width": 21, "out_width": 6}
    x = loaded.train.make(torch.arange(loaded.train.count)).inputs[0][:, :18]
    torch.testing.assert_close(x.mean(0), torch.zeros(18), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(18), atol=1e-3, rtol=0)
    assert TU(name="ENZYMES", attributes=False).load().model_arguments["in_width"] == 3
