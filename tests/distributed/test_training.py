"""Training whose weights processes divide, and checkpoints that another number of them reads."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from edgewise import ArgumentError
from edgewise.app.kinds import find
from edgewise.app.kinds.links import EdgeList
from edgewise.app.runs import train, with_values
from edgewise.app.train import RunFolder, TrainingModule, callbacks
from edgewise.app.train.process import rank_and_world_size
from tests.distributed.processes import Processes
from tests.errors import refused

SMALL = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 4,
    "model.ffn_dim": 16,
    "data.warp": 0.0,
    "trainer.epochs": 1,
    "trainer.accelerator": "cpu",
    "trainer.clip_norm": 0.5,
    "trainer.save_every": 0,
}
RECIPE = with_values(find("digits"), SMALL)
STEPS = 12  # of an epoch: 1257 images in batches of 112
ONE = {"data.batch_size": 112}
TWO = {"data.batch_size": 56, "trainer.devices": 2}
FSDP = {**TWO, "trainer.strategy": "fsdp"}
TENSOR = {**ONE, "trainer.devices": 2, "trainer.strategy": "fsdp", "trainer.tensor_parallel": 2}


class Stop(Exception):
    """Of all processes, at the same step."""


@contextmanager
def as_torchrun() -> Iterator[pytest.MonkeyPatch]:
    """Set the variables of torchrun for a process of a group, and ignore warnings."""
    count = dist.get_world_size() if dist.is_initialized() else 1
    variables = {"RANK": "0"}
    if count > 1:
        rank = str(dist.get_rank())
        variables = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost"}
        variables |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
        variables["MASTER_PORT"] = "1"  # The process group exists.
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in variables.items():
            patch.setenv(name, value)
        rank_and_world_size.cache_clear()
        try:
            yield patch
        finally:
            rank_and_world_size.cache_clear()


def run(
    values: dict[str, Any],
    path: Path,
    stop: int | None = None,
    resume: bool = False,
    killed: int | None = None,
) -> None:
    """Train as one of the processes that torchrun starts; at the start of step ``stop``, process
    ``killed`` is killed, or all processes end.
    """
    original = TrainingModule.training_step

    def training_step(self: TrainingModule, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.global_step == stop and killed is None:
            raise Stop
        if self.global_step == stop and killed == dist.get_rank():
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, batch, batch_idx)

    with as_torchrun() as patch:
        patch.setattr(callbacks, "INTERVAL_FACTOR", 0)
        patch.setattr(TrainingModule, "training_step", training_step)
        try:
            train(with_values(RECIPE, values), path, resume=resume)
        except Stop:
            assert stop is not None


def assert_close(path: Path, other: Path, *, rel: float = 1e-3) -> None:
    """Equal curves and weights up to the rounding of sums in another order."""
    one, two = RunFolder(path), RunFolder(other)
    for row, expected in zip(one.read_log(), two.read_log(), strict=True):
        for timed in (row, expected):
            timed.pop("seconds")
        assert row == pytest.approx(expected, rel=rel, abs=1e-6)
    weights, wanted = load_file(one.weights), load_file(two.weights)
    assert weights.keys() == wanted.keys()
    for name, weight in weights.items():
        if name.endswith("key.bias"):  # Its gradient is rounding alone.
            continue
        torch.testing.assert_close(weight, wanted[name], atol=2e-4, rtol=2e-3)


def train_on_another_file(folder: Path) -> None:
    """Train on one of two files, as two machines whose files differ."""
    rank = dist.get_rank()
    for number in range(2):
        links = [f"{i} {(i + 1 + j) % 40}\n" for i in range(40 - 20 * number) for j in range(3)]
        if rank == 0:
            (folder / f"{number}.txt").write_text("".join(links))
    dist.barrier()
    with as_torchrun():
        train(
            replace(find("links"), data=EdgeList(path=str(folder / f"{rank}.txt"))), folder / "run"
        )


def test_machines_with_other_files_end_with_one_error(two: Processes, tmp_path: Path) -> None:
    first, second = two.run(train_on_another_file, tmp_path)
    assert isinstance(first, ArgumentError), first
    assert str(first) == str(second)
    assert re.search("102 train examples on process 0 and 51 on process 1", str(first)), str(first)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "one"
    run(ONE, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("values", [TENSOR, FSDP, TWO], ids=["tensor", "fsdp", "ddp"])
def test_two_processes_train_as_one(
    two: Processes, unbroken: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    two.results(run, values, tmp_path / "run")
    assert_close(tmp_path / "run", unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("values", [TENSOR, FSDP, TWO], ids=["tensor", "fsdp", "ddp"])
def test_one_process_resumes_the_checkpoint_of_two(
    two: Processes, unbroken: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    two.results(run, values, tmp_path / "run", STEPS // 2)
    run(ONE, tmp_path / "run", resume=True)
    assert_close(tmp_path / "run", unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("values", [TENSOR, FSDP, TWO], ids=["tensor", "fsdp", "ddp"])
def test_four_processes_resume_the_checkpoint_of_two(
    two: Processes, four: Processes, unbroken: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    two.results(run, values, tmp_path / "run", STEPS // 2)
    size = 28 * values.get("trainer.tensor_parallel", 1)
    more = {**values, "trainer.devices": 4, "data.batch_size": size}
    four.results(run, more, tmp_path / "run", None, True)
    assert_close(tmp_path / "run", unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("values", [TENSOR, FSDP], ids=["tensor", "fsdp"])
def test_a_training_that_was_stopped_loses_nothing(
    two: Processes, tmp_path: Path, values: dict[str, Any]
) -> None:
    random = {**values, "model.dropout": 0.2}
    two.results(run, random, tmp_path / "whole")
    two.results(run, random, tmp_path / "run", STEPS // 2)
    two.results(run, random, tmp_path / "run", None, True)
    assert_close(tmp_path / "run", tmp_path / "whole", rel=1e-12)


def test_a_step_of_another_size_is_refused(tmp_path: Path) -> None:
    run(ONE, tmp_path / "run", 2)
    with refused("--resume", expected="fields", got="batch_size: 112 in the run", remedy="give"):
        run({"data.batch_size": 56}, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"trainer.tensor_parallel": 2, "trainer.devices": 2}, "trainer.tensor_parallel"),
        ({**FSDP, "trainer.tensor_parallel": 3}, "trainer.tensor_parallel"),
        ({**FSDP, "trainer.ema_decay": 0.9}, "trainer.strategy"),
    ],
)
def test_settings_that_exclude_each_other(
    tmp_path: Path, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValueError, match=f"`{field}`"):
        train(with_values(RECIPE, values), tmp_path / "run")
