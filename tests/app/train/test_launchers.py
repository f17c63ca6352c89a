"""Training under torchrun and srun: the numbers of our own command, and one run folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightning.pytorch.plugins.environments import (
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)

from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values
from edgewise.app.train import RunFolder, process
from tests.app.train.test_distributed import SMALL
from tests.app.train.test_resume import assert_same
from tests.errors import refused

TORCHRUN = {"LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
ELASTIC = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "1"}
SRUN = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "2"}
SRUN |= {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "7",
}
IN_A_JOB = {**SRUN, "SLURM_NTASKS": "1", "LOCAL_RANK": "1", "RANK": "1"}
IN_A_JOB |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture(autouse=True)
def _no_cached_rank() -> Iterator[None]:
    process.rank_and_world_size.cache_clear()
    yield
    process.rank_and_world_size.cache_clear()


@pytest.mark.parametrize(
    ("variables", "place", "environment", "nodes"),
    [
        (TORCHRUN, (3, 4), LightningEnvironment, (2, 2)),
        (ELASTIC, (3, 4), TorchElasticEnvironment, (2, 2)),
        ({**SRUN, **ELASTIC}, (3, 4), TorchElasticEnvironment, (2, 2)),
        (SRUN, (3, 4), SLURMEnvironment, (2, 2)),
        (IN_A_JOB, (1, 2), LightningEnvironment, (2, 1)),
    ],
    ids=["ours", "torchrun", "torchrun in a job", "srun", "ours in a job"],
)
def test_a_process_knows_its_place(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    place: tuple[int, int],
    environment: type,
    nodes: tuple[int, int],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(process, "connect", lambda: None)
    assert process.rank_and_world_size() == place
    arguments = process.device_arguments("cpu")
    assert [type(plugin) for plugin in arguments["plugins"]] == [environment]
    assert (arguments["devices"], arguments["num_nodes"]) == nodes


def test_the_script_of_a_job_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_STEP_ID")
    assert process.rank_and_world_size() == (0, 1)
    (plugin,) = process.device_arguments("cpu")["plugins"]
    assert isinstance(plugin, LightningEnvironment)


def test_an_interactive_job_starts_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SRUN, "SLURM_JOB_NAME": "bash"}.items():
        monkeypatch.setenv(name, value)
    assert process.rank_and_world_size() == (0, 1)


def test_srun_without_the_number_of_processes_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE")
    with refused("--ntasks-per-node", expected="each machine", got="--ntasks", remedy="srun"):
        process.rank_and_world_size()


def words(out: Path, **fields: object) -> list[str]:
    values = {**SMALL, "data.warp": 0.0, "data.batch_size": 57, **fields}
    options = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return ["-m", "edgewise", "train", "digits", *options, "--out", str(out)]


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def srun(arguments: list[str]) -> list[subprocess.Popen[str]]:
    """Two tasks with the variables that srun sets."""
    common = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1"}
    common |= {"SLURM_JOB_ID": "1", "SLURM_NODEID": "0", "SLURM_NODELIST": "127.0.0.1"}
    common |= {"SLURM_STEP_ID": "0"}
    common |= {"MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **common, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def finish(tasks: list[subprocess.Popen[str]]) -> None:
    """Wait for all tasks, which must not fail."""
    said = [task.communicate() for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "ours"
    two = {**SMALL, "data.warp": 0.0, "data.batch_size": 57, "trainer.devices": 2}
    train(with_values(find("digits"), two), path)
    return path


def assert_one_folder(path: Path, ours: Path) -> None:
    assert_same(path, ours)
    assert {file.name for file in path.iterdir()} == {file.name for file in ours.iterdir()}
    recipe, expected = (RunFolder(folder).read_json("recipe.json") for folder in (path, ours))
    assert recipe == expected


@pytest.mark.slow
def test_torchrun(tmp_path: Path, ours: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*torchrun, "--master-port", free_port(), *words(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_one_folder(tmp_path / "run", ours)
    assert done.stdout.count("test/accuracy") == 1


@pytest.mark.slow
def test_srun(tmp_path: Path, ours: Path) -> None:
    finish(srun(words(tmp_path / "run")))
    assert_one_folder(tmp_path / "run", ours)


@pytest.mark.slow
def test_all_processes_end_with_the_error_of_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    tasks = srun(words(tmp_path / "run"))
    first, second = (task.communicate()[1] for task in tasks)
    assert [task.returncode for task in tasks] == [2, 2]
    assert "run exists, and a run is never overwritten" in first
    assert "process 0 of 2 has failed:" in second
    assert "never overwritten" in second


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "killed"), [("fsdp", 0), ("ddp", 1)])
def test_a_killed_process_ends_the_other_and_loses_nothing(
    tmp_path: Path, strategy: str, killed: int
) -> None:
    fields = {"trainer.strategy": strategy, "trainer.epochs": 12, "trainer.save_every": 0}
    finish(srun(words(tmp_path / "whole", **fields)))
    folder = RunFolder(tmp_path / "run")
    tasks = srun(words(folder.path, **fields))
    deadline = time.monotonic() + 300
    while not folder.checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    tasks[killed].send_signal(signal.SIGKILL)
    _, said = tasks[1 - killed].communicate(timeout=120)
    tasks[killed].communicate()
    assert tasks[1 - killed].returncode == 2
    assert said.count("edgewise: ") == said.count("another process has ended") == 1
    assert not folder.has("metrics.json"), "killed too late to test anything"
    finish(srun([*words(folder.path, **fields), "--resume"]))
    assert_same(folder.path, tmp_path / "whole")
