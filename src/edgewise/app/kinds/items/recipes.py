"""Recipes of recommendation: Gowalla with LightGCN's split, and the user's interactions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.items.data import Gowalla
from edgewise.app.kinds.items.files import InteractionFiles
from edgewise.app.kinds.items.task import Recommendation
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule

RANKED = Protocol(
    ("test/recall@20", "test/ndcg@20"),
    "0.1830, 0.1554 (LightGCN, epoch chosen by test recall; He et al., 2020), 0.1849, 0.1518 "
    "(GF-CF with α = 0.3; Shen et al., 2021), 0.1920, 0.1597 (BSPM; Choi et al., 2023)",
    "LightGCN's split, all items ranked; best epoch by recall of a fifth of the training "
    "interactions of 1,000 users",
    seeds=3,
)

lightgcn_gowalla = Recipe(
    name="lightgcn-gowalla",
    summary="LightGCN with a low-pass filter recommends places on Gowalla, sampled softmax",
    model=partial(models.lightgcn, width=64, hops=2, low_pass=0.4),
    data=Gowalla(val=0.2, val_users=1000, negatives=4096, by_user=True, batch_size=1024),
    task=Recommendation(temperature=0.1),
    optimizer=OptimizerSettings("adam", lr=0.05),
    schedule=CosineSchedule(warmup=0.0),
    trainer=TrainerSettings(epochs=20, monitor="val/recall@20"),
    protocol=RANKED,
)

pinsage_gowalla = Recipe(
    name="pinsage-gowalla",
    summary="PinSage recommends places on Gowalla, with neighbours found by random walks",
    model=partial(models.pinsage, width=64, depth=1, top=32, steps=3),
    data=Gowalla(val=0.2, val_users=1000, negatives=1024, batch_size=8192),
    task=Recommendation(temperature=0.15),
    optimizer=OptimizerSettings("adam", lr=0.02),
    schedule=lightgcn_gowalla.schedule,
    trainer=replace(lightgcn_gowalla.trainer, epochs=10),
    protocol=replace(RANKED, reference=f"{RANKED.reference}; not reached"),
)

interactions = Recipe(
    name="interactions",
    summary="LightGCN with a low-pass filter recommends items to users: --data.path ratings.csv",
    # Validation recall@10 on the interactions of 3,000 users of Gowalla is 0.087, 0.095 and 0.092
    # with low_pass 0, 0.2 and 0.4.
    model=partial(models.lightgcn, width=64, hops=2, low_pass=0.2),
    data=InteractionFiles(val=0.1, negatives=512, batch_size=2048),
    task=Recommendation(temperature=0.15, k=10),
    optimizer=OptimizerSettings("adam", lr=0.01),
    schedule=CosineSchedule(warmup=0.0),
    trainer=TrainerSettings(epochs=50, patience=10, monitor="val/recall@10"),
)
