"""Recipes of links by relation: WN18RR, and the user's own triples."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.triples.data import WN18RR, TripleFiles
from edgewise.app.kinds.triples.task import TriplePrediction
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule

rgcn_wn18rr = Recipe(
    name="rgcn-wn18rr",
    summary="Links by relation on WN18RR: R-GCN with ComplEx; filtered MRR 0.41",
    model=partial(models.triple_predictor, width=128, depth=1, decoder="complex", dropout=0.3),
    data=WN18RR(),
    task=TriplePrediction(),
    optimizer=OptimizerSettings("adam", lr=0.01),
    schedule=CosineSchedule(warmup=0.05),
    trainer=TrainerSettings(epochs=20, monitor="val/mrr"),
    protocol=Protocol(
        ("test/mrr", "test/hits@1", "test/hits@3", "test/hits@10"),
        "0.43, 0.39, 0.44, 0.49 (DistMult) and 0.44, 0.41, 0.46, 0.51 (ComplEx; both in Dettmers "
        "et al., 2018); not reached",
        "split of WN18RR, both directions, filtered; equal scores count by their mean rank; best "
        "epoch by validation MRR",
    ),
)

triples = replace(
    rgcn_wn18rr,
    name="triples",
    summary="R-GCN and DistMult predict triples of your knowledge graph: --data.path triples.csv",
    model=partial(models.triple_predictor, width=64, depth=1, dropout=0.3),
    data=TripleFiles(),
    trainer=replace(rgcn_wn18rr.trainer, epochs=50, patience=10),
    protocol=None,
)
