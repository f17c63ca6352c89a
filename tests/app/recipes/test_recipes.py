"""Every recipe starts: its model is made with what its data decide, and takes a batch."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.app.kinds import RECIPES
from edgewise.app.runs.train_recipe import prepare
from tests.places import needs

DATA = {
    **dict.fromkeys(("swin-cifar10", "vit-cifar10"), "cifar10_12k"),
    **dict.fromkeys(("swin-mnist", "vit-mnist"), "MNIST"),
    **dict.fromkeys(("bag-sst2", "sst2"), "SST2"),
    "bert-wikitext": "wikitext-2",
    "caption-digits": "MNIST",
    "exphormer-cora": "Cora",
    "gat-cora": "Cora",
    "gat-enzymes": "ENZYMES",
    "gcn-cora": "Cora",
    "gated-gcn-zinc": "ZINC_jtvae12k",
    "gcnii-cora": "Cora",
    "gin-mutag": "MUTAG",
    "gps-esol": "esol",
    "graph-bert-cora": "Cora",
    "gpt-shakespeare": "tinyshakespeare",
    "gru-sst2": "SST2",
    "gru-ewt": "UD_English-EWT",
    "ionic-liquids-co2": "ionic_liquids",
    "lightgcn-gowalla": "gowalla",
    "polynormer-minesweeper": "heterophilous",
    "rgcn-aifb": "AIFB",
    "rgcn-wn18rr": "WN18RR",
    "sage-facebook": "ego_facebook",
    **dict.fromkeys(("spoken-digits", "spoken-digits-speakers"), "spoken_digits"),
    "tag-ewt": "UD_English-EWT",
    "transformer-multi30k": "multi30k",
    "light-conv-multi30k": "multi30k",
    "dynamic-conv-multi30k": "multi30k",
    "xl-war-and-peace": "war_and_peace",
    "long-war-and-peace": "war_and_peace",
    "unidirectional-wikitext": "wikitext-2",
}


LONG = (
    "bert-wikitext",
    "lightgcn-gowalla",
    "transformer-multi30k",
    "light-conv-multi30k",
    "dynamic-conv-multi30k",
    "unidirectional-wikitext",
)
"""Their vocabularies or singular vectors take half a minute: `make accuracy` starts them."""


def cases() -> list[Any]:
    found = [
        pytest.param(name)
        for name in ("digit-rows", "digits", "duplication", "forecast", "recall", "recall-lsh")
    ]
    for name, folder in DATA.items():
        marks = [needs(folder), *([pytest.mark.accuracy] if name in LONG else [])]
        found.append(pytest.param(name, marks=marks))
    return found


@pytest.mark.slow(
    "swin-cifar10",
    "vit-cifar10",
    "vit-mnist",
    "bag-sst2",
    "gat-enzymes",
    "gated-gcn-zinc",
    "gcnii-cora",
    "polynormer-minesweeper",
    "sst2",
    "gps-esol",
    "graph-bert-cora",
    "gpt-shakespeare",
    "gru-sst2",
    "gru-ewt",
    "ionic-liquids-co2",
    "spoken-digits",
    "spoken-digits-speakers",
    "tag-ewt",
    "xl-war-and-peace",
    "long-war-and-peace",
)
@pytest.mark.parametrize("name", cases())
def test_starts(name: str) -> None:
    prepare(RECIPES[name])  # with a trial of its loss on a batch
