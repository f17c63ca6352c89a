"""Which parameters decay, how the rate goes, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from edgewise.app.train import (
    ConstantSchedule,
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    OptimizerSettings,
    TrainerSettings,
)
from tests.errors import refused


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def test_decay_only_on_parameters_that_match():
    net = model()
    made = OptimizerSettings("adam", lr=0.1, weight_decay=0.5, decay_only=r"^0\.").build(net)
    assert isinstance(made, torch.optim.Adam)
    decays = {id(p): g["weight_decay"] for g in made.param_groups for p in g["params"]}
    found = {name: decays[id(p)] for name, p in net.named_parameters()}
    assert found == {"0.weight": 0.5, "0.bias": 0.5, "1.weight": 0, "1.bias": 0}
    assert {group["lr"] for group in made.param_groups} == {0.1}
    settings = OptimizerSettings(weight_decay=0.5, decay_only=r"^0\.", other_weight_decay=0.25)
    assert [group["weight_decay"] for group in settings.build(net).param_groups] == [0.5, 0.25]


def test_all_decay_without_an_expression():
    made = OptimizerSettings("adamw", weight_decay=0.5).build(model())
    assert isinstance(made, torch.optim.AdamW)
    assert [(len(g["params"]), g["weight_decay"]) for g in made.param_groups] == [(4, 0.5)]


def test_expression_that_matches_nothing():
    with refused("optimizer.decay_only", expected="match", got="layer9", remedy="0.weight"):
        OptimizerSettings(decay_only="layer9").build(model())


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"name": "sgd"}, "optimizer.name"),
        ({"lr": -1.0}, "optimizer.lr"),
        ({"lr": float("nan")}, "optimizer.lr"),
        ({"weight_decay": float("inf")}, "optimizer.weight_decay"),
        ({"decay_only": "("}, "optimizer.decay_only"),
    ],
)
def test_bad_optimizer(fields, argument):
    with refused(argument, expected="", got="", remedy=""):
        OptimizerSettings(**fields)


def test_cosine_rises_and_falls():
    factors = [CosineSchedule(warmup=0.2, floor=0.1).factor(step, 10) for step in range(10)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[6] == pytest.approx(0.1 + 0.9 / 2)
    assert factors[2:] == sorted(factors[2:], reverse=True)
    assert CosineSchedule(warmup=0.2, floor=0.1).factor(10, 10) == pytest.approx(0.1)
    assert CosineSchedule(warmup=0, floor=0).factor(0, 10) == 1
    assert {ConstantSchedule().factor(step, 10) for step in range(10)} == {1}


def test_linear_rises_and_falls_on_straight_lines():
    factors = [LinearSchedule(warmup=0.2, floor=0.1).factor(step, 10) for step in range(11)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[6] == pytest.approx(0.55)
    falls = [a - b for a, b in itertools.pairwise(factors[2:])]
    assert falls == pytest.approx([0.9 / 8] * 8)
    assert factors[10] == pytest.approx(0.1)


def test_noam_is_the_formula_of_the_paper_in_units_of_its_peak():
    width, warmup, steps = 512, 40, 400
    paper = [width**-0.5 * min(t**-0.5, t * warmup**-1.5) for t in range(1, steps + 1)]
    factors = [NoamSchedule(warmup=warmup / steps).factor(step, steps) for step in range(steps)]
    assert factors == pytest.approx([rate / max(paper) for rate in paper])
    assert max(factors) == factors[warmup - 1] == 1
    assert NoamSchedule(warmup=0.0).factor(3, 10) == 0.5


@pytest.mark.parametrize("fields", [{"warmup": -0.1}, {"floor": 1.1}])
@pytest.mark.parametrize("schedule", [CosineSchedule, LinearSchedule])
def test_bad_schedule(fields, schedule):
    with refused(f"schedule.{next(iter(fields))}", expected="from 0 to 1", got="", remedy="0.1"):
        schedule(**fields)


def test_bad_warmup():
    with refused("schedule.warmup", expected="from 0 to 1", got="4000", remedy="0.1"):
        NoamSchedule(warmup=4000)


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"epochs": 0}, "trainer.epochs"),
        ({"patience": -1}, "trainer.patience"),
        ({"clip_norm": float("nan")}, "trainer.clip_norm"),
        ({"mode": "more"}, "trainer.mode"),
        ({"accelerator": "abacus"}, "trainer.accelerator"),
    ],
)
def test_bad_trainer(fields, argument):
    with refused(argument, expected="", got="", remedy=""):
        TrainerSettings(**fields)


def test_metric_that_the_task_does_not_have():
    with refused(
        "trainer.monitor", expected="val/accuracy", got="'val/acuracy'", remedy="val/accuracy"
    ):
        TrainerSettings(monitor="val/acuracy").check(["accuracy"])
