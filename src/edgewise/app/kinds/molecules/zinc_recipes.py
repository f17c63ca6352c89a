"""Recipes on ZINC: nine models of fewer than 500,000 parameters with the same settings, except for
the epochs: Graphormer has more, and GRIT and TokenGT those that take as long as 32 of GatedGCN. As
in the benchmark, GIN and GAT do not use bond types.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise import models
from edgewise.app.kinds.molecules.zinc import ZINC
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import CosineSchedule
from edgewise.app.train.tasks.regression import Regression

_SMALL = "(Dwivedi et al., 2020; 4 layers)"
_LARGE = "(Dwivedi et al., 2020; 16 layers)"


def _best_of(epochs: int) -> str:
    return f"10,000 / 1,000 / 1,000 molecules; best of {epochs} epochs by validation"


BY = _best_of(32)


def _published(value: str, epochs: str = "2,000") -> str:
    return f"none (on the molecules of ZINC-12k, up to {epochs} epochs: {value})"


gin_zinc = Recipe(
    name="gin-zinc",
    summary="Graph isomorphism network on ZINC, without bond types",
    model=partial(models.graph_gin, width=144, depth=5, pool="sum"),
    data=ZINC(bonds=False),
    task=Regression(kind="mae"),
    optimizer=OptimizerSettings("adamw", lr=1e-3, weight_decay=0.01),
    schedule=CosineSchedule(warmup=0.05),
    trainer=TrainerSettings(epochs=32, monitor="val/mae", mode="min", clip_norm=5.0),
    protocol=Protocol(
        ("test/mae",), _published(f"0.387 {_SMALL}, 0.526 {_LARGE}", "1,000"), BY, seeds=3
    ),
)

gat_zinc = replace(
    gin_zinc,
    name="gat-zinc",
    summary="Graph attention network on ZINC, without bond types",
    model=partial(models.graph_gat, head_width=16, heads=8, depth=5, dropout=0.0),
    protocol=Protocol(
        ("test/mae",), _published(f"0.475 {_SMALL}, 0.384 {_LARGE}", "1,000"), BY, seeds=3
    ),
)

laplacian_zinc = replace(
    gin_zinc,
    name="laplacian-zinc",
    summary="Graph Transformer on ZINC, with Laplacian eigenvectors and bond types",
    model=partial(models.laplacian_transformer, width=64, depth=4),
    data=ZINC(),
    protocol=Protocol(
        ("test/mae",), _published("0.226 (Dwivedi and Bresson, 2020)", "1,000"), BY, seeds=3
    ),
)

graphormer_zinc = replace(
    gin_zinc,
    name="graphormer-zinc",
    summary="Graphormer on ZINC, with 6 of the 12 layers of Graphormer-slim",
    model=partial(models.graphormer, width=80, depth=6, heads=8, dropout=0.0),
    data=ZINC(),
    trainer=replace(gin_zinc.trainer, epochs=60),
    protocol=Protocol(
        ("test/mae",),
        _published("0.122 (Ying et al., 2021)", "10,000"),
        _best_of(60),
        seeds=3,
    ),
)

gps_zinc = replace(
    gin_zinc,
    name="gps-zinc",
    summary="GPS on ZINC: message passing and global attention, with 20-step random-walk encodings",
    model=partial(models.gps, width=64, depth=7, attention_dropout=0.1),
    data=ZINC(),
    protocol=Protocol(("test/mae",), _published("0.070 (Rampášek et al., 2022)"), BY, seeds=3),
)

gated_gcn_zinc = replace(
    gps_zinc,
    name="gated-gcn-zinc",
    summary="GatedGCN on ZINC with the GNN+ recipe: residuals, norms, FFN and random walks",
    model=partial(models.gated_gcn, width=70, depth=9, dropout=0.05),
    protocol=Protocol(("test/mae",), _published("0.065 (Luo et al., 2025; GatedGCN+)"), BY),
)

grit_zinc = replace(
    gps_zinc,
    name="grit-zinc",
    summary="GRIT on ZINC: attention with states of pairs, with 5 of the paper's 10 layers",
    model=partial(models.grit, width=64, depth=5),
    trainer=replace(gin_zinc.trainer, epochs=8),
    protocol=Protocol(("test/mae",), _published("0.059 (Ma et al., 2023; 10 layers)"), _best_of(8)),
)

esa_zinc = replace(
    gps_zinc,
    name="esa-zinc",
    summary="Edge-set attention on ZINC: bonds attend to bonds of the same atom, then to all",
    model=partial(models.esa, width=80, heads=8, blocks="MMSMSPS"),
    protocol=Protocol(("test/mae",), "none (not published with these settings)", BY),
)

token_gt_zinc = replace(
    gps_zinc,
    name="token-gt-zinc",
    summary="TokenGT on ZINC: atoms and bonds are tokens of a plain Transformer",
    model=partial(models.token_gt, width=80, depth=8, heads=8),
    trainer=replace(gin_zinc.trainer, epochs=12),
    protocol=Protocol(("test/mae",), "none (not published with these settings)", _best_of(12)),
)
