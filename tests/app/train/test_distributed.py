"""Two processes, really started, train as one does with twice the batch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgewise._utils.errors import EdgewiseError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values
from edgewise.app.train import (
    Batch,
    Classification,
    ConstantSchedule,
    Loader,
    OptimizerSettings,
    RunFolder,
    TrainerSettings,
    fit,
)
from tests import forked
from tests.app.train.test_resume import assert_same
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("sklearn")

SMALL = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 2,
    "model.ffn_dim": 16,
    "trainer.epochs": 2,
    "trainer.accelerator": "cpu",
    "trainer.clip_norm": 0.5,
}
TWO = {"trainer.devices": 2, "data.batch_size": 57}
RECIPE = with_values(find("digits"), {**SMALL, "data.warp": 0.0})


@pytest.mark.slow
def test_two_processes_give_the_curve_of_one_with_twice_the_batch(tmp_path: Path) -> None:
    # 1257 images: of the last batch, of 3, one process has two examples and the other has one.
    train(with_values(RECIPE, {"data.batch_size": 114}), tmp_path / "one")
    metrics = train(with_values(RECIPE, TWO), tmp_path / "two")
    one, two = ({path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one - two == {"test_examples.safetensors"}, "each process has half of the test examples"
    assert two < one
    one, two = (RunFolder(tmp_path / name) for name in ("one", "two"))
    for row, expected in zip(two.read_log(), one.read_log(), strict=True):
        for timed in (row, expected):
            timed.pop("seconds")
        assert row == pytest.approx(expected, rel=1e-3, abs=1e-6)
    weights, wanted = load_file(two.weights), load_file(one.weights)
    for name, weight in weights.items():
        if name.endswith("key.bias"):  # softmax does not feel it: its gradient is rounding alone
            continue
        torch.testing.assert_close(weight, wanted[name], atol=2e-4, rtol=2e-3)
    assert metrics["test/accuracy"] == pytest.approx(one.read_json("metrics.json")["test/accuracy"])


@pytest.mark.slow
def test_stopped_by_ctrl_c_they_save_together_and_go_on(tmp_path: Path) -> None:
    random = {**TWO, "data.warp": 0.1, "model.dropout": 0.2, "trainer.save_every": 0.2}
    train(with_values(RECIPE, random), tmp_path / "whole")
    folder = RunFolder(tmp_path / "run")
    fields = {**SMALL, **random}
    options = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
    said = tmp_path / "said.txt"
    words = ["train", "digits", *options, "--out", str(folder.path)]
    process = forked.start(said, main, words)
    deadline = time.monotonic() + 300
    while not folder.checkpoint.exists() and time.monotonic() < deadline:
        assert process.exitcode is None, said.read_text()
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    process.join(300)
    assert process.exitcode == 128 + signal.SIGINT, said.read_text()
    assert not folder.has("metrics.json"), "stopped too late to test anything"
    train(with_values(RECIPE, random), folder.path, resume=True)
    assert_same(folder.path, tmp_path / "whole")


def test_what_one_process_says_is_said(tmp_path: Path) -> None:
    lost = with_values(RECIPE, {**TWO, "optimizer.lr": 1e30, "trainer.clip_norm": 0.0})
    with pytest.raises(ValueError, match=r"optimizer\.lr.*finite"):
        train(with_values(lost, {"trainer.devices": 1}), tmp_path / "one")
    with pytest.raises(EdgewiseError, match=r"process \d of 2 has failed: `optimizer\.lr`.*finite"):
        train(lost, tmp_path / "two")
    assert not RunFolder(tmp_path / "two").has("metrics.json")


def test_fit_alone_starts_no_processes(tmp_path: Path) -> None:
    loader = Loader(lambda i: Batch((torch.ones(len(i), 2),), i % 2), 4, 2)
    with refused("trainer.devices", expected="1", got="2", remedy="torchrun --nproc-per-node 2"):
        fit(
            torch.nn.Linear(2, 2),
            Classification(),
            {"train": loader, "val": loader, "test": loader},
            RunFolder(tmp_path),
            optimizer=OptimizerSettings(),
            schedule=ConstantSchedule(),
            trainer=TrainerSettings(devices=2, accelerator="cpu"),
        )
