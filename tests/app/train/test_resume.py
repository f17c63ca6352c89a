"""A run that was broken anywhere and continued ends in the same bits as one that was not."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgewise._utils.errors import Interrupted
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import Consistency
from edgewise.app.kinds.series import Forecast
from edgewise.app.runs import fields_of, train, with_values
from edgewise.app.train import Classification, NoamSchedule, Recipe, RunFolder, Task, TrainingModule
from tests import forked
from tests.errors import refused

pytest.importorskip("lightning")

SMALL = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 2,
    "model.ffn_dim": 16,
    "model.dropout": 0.2,  # so that the random numbers matter
    "data.warp": 0.1,  # likewise
    "data.batch_size": 128,
    "trainer.mode": "min",  # so that the best epoch is an early one, to be remembered
    "trainer.epochs": 3,
    "trainer.save_every": 0,
    "trainer.accelerator": "cpu",
}
STEPS = 10  # of an epoch: 1257 images in batches of 128
RECIPE = with_values(find("digits"), SMALL)


@pytest.fixture(autouse=True)
def _save_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)


def result(folder: Path) -> tuple[dict[str, float], dict[str, torch.Tensor], list[object]]:
    run = RunFolder(folder)
    metrics = run.read_json("metrics.json")
    rows = run.read_log()
    for timed in (metrics, *rows):
        for name in ("seconds", "cpu_seconds"):
            timed.pop(name, None)  # a row has the first alone
    return metrics, load_file(run.weights), rows


def assert_same(folder: Path, other: Path) -> None:
    metrics, weights, rows = result(folder)
    expected_metrics, expected_weights, expected_rows = result(other)
    assert metrics == expected_metrics
    assert rows == expected_rows
    assert weights.keys() == expected_weights.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected_weights[name]), name


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)  # the order of a sum, and so its last bit, depends on them
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    train(RECIPE, folder)
    return folder


def break_at(monkeypatch: pytest.MonkeyPatch, step: int, how: object) -> None:
    """Let ``how`` happen at the start of this step, once."""
    from edgewise.app.train import TrainingModule

    original = TrainingModule.training_step

    def training_step(self: TrainingModule, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == step and not done:
            done.append(step)
            how()
        return original(self, batch, batch_idx)

    done: list[int] = []
    monkeypatch.setattr(TrainingModule, "training_step", training_step)


def ctrl_c() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, STEPS, STEPS + 4])
def test_crash_at_a_step(
    step: int, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(monkeypatch, step, ctrl_c)
    with pytest.raises(Interrupted):
        train(RECIPE, tmp_path / "run")
    assert not RunFolder(tmp_path / "run").has("metrics.json")
    train(RECIPE, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", unbroken)


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_before_it_stops(
    number: signal.Signals, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = with_values(RECIPE, {"trainer.save_every": 1000})
    break_at(monkeypatch, STEPS + 4, lambda: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as stopped:
        train(rare, tmp_path / "run")
    assert stopped.value.signal == number
    assert signal.getsignal(number) is before
    state = torch.load(RunFolder(tmp_path / "run").checkpoint, weights_only=True)
    assert state["global_step"] == STEPS + 5, "the step that was under way is not lost"
    train(rare, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", unbroken)


@pytest.mark.slow
def test_broken_twice(unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (4, STEPS + 7):
        break_at(monkeypatch, step, ctrl_c)
        with pytest.raises(Interrupted):
            train(RECIPE, tmp_path / "run", resume=step > 4)
    train(RECIPE, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", unbroken)


@pytest.mark.slow
def test_killed_process(unbroken: Path, tmp_path: Path) -> None:
    """SIGKILL, which nothing can catch."""
    options = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    folder, said = RunFolder(tmp_path / "run"), tmp_path / "said.txt"
    process = forked.start(said, main, ["train", "digits", *options, "--out", str(folder.path)])
    deadline = time.monotonic() + 60
    while not folder.checkpoint.exists() and time.monotonic() < deadline:
        assert process.exitcode is None, said.read_text()
        time.sleep(0.005)
    process.kill()
    process.join()
    assert folder.checkpoint.exists()
    assert not folder.has("metrics.json"), "killed too late to test anything"
    train(RECIPE, folder.path, resume=True)
    assert_same(folder.path, unbroken)


@pytest.mark.slow
def test_killed_after_the_last_epoch_of_a_run_without_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No epoch is added to a run that had stopped for want of progress."""
    from edgewise.app.train import fitting

    stopping = with_values(RECIPE, {"trainer.patience": 1, "trainer.epochs": 50})
    stopping = with_values(stopping, {"optimizer.lr": 0.0})  # so the first epoch stays the best
    train(stopping, tmp_path / "whole")
    assert RunFolder(tmp_path / "whole").read_json("metrics.json")["epochs"] == 2
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "evaluate_with_examples", lambda *_, **__: ctrl_c())
        with pytest.raises(KeyboardInterrupt):
            train(stopping, tmp_path / "run")
    train(stopping, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", tmp_path / "whole")


CARRIED = {
    "data.consecutive": True,
    "data.context": 8,
    "data.stride": 0,
    "data.windows": 15,
    "data.batch_size": 3,  # 5 batches an epoch, and 7 until the text begins again
    "data.val": 0.3,
    "data.test": 0.2,
    "model.width": 8,
    "model.depth": 2,
    "model.heads": 2,
    "model.ffn_dim": 16,
    "model.dropout": 0.2,
    "trainer.epochs": 3,
    "trainer.save_every": 0,
    "trainer.accelerator": "cpu",
}


def carrying(folder: Path, name: str = "transformer_xl") -> Recipe:
    """A model that carries something from batch to batch, on a text of a few lines."""
    text = folder / "text.txt"
    text.write_text("".join(chr(ord("a") + (7 * i * i) % 26) for i in range(350)))
    recipe = with_values(find("writing"), {"model": name, "data.paths": [str(text)]})
    known = fields_of(recipe)
    return with_values(recipe, {key: value for key, value in CARRIED.items() if key in known})


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", ["transformer_xl", "lstm"])
@pytest.mark.parametrize("step", [3, 0, 5, 8])
def test_what_a_model_carries_from_batch_to_batch_goes_on(
    name: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = carrying(tmp_path, name)
    train(recipe, tmp_path / "whole")
    break_at(monkeypatch, step, ctrl_c)
    with pytest.raises(Interrupted):
        train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_what_is_carried_matters(tmp_path: Path) -> None:
    recipe = carrying(tmp_path)
    train(recipe, tmp_path / "with")
    train(with_values(recipe, {"model.memory": 0}), tmp_path / "without")
    logs = [RunFolder(tmp_path / name).read_log()[0] for name in ("with", "without")]
    assert logs[0]["train/loss"] != logs[1]["train/loss"]
    assert logs[0]["val/loss"] != logs[1]["val/loss"]


def test_a_model_that_would_keep_ever_more_is_refused(tmp_path: Path) -> None:
    with refused("data.consecutive", expected="bounded", got="Backbone", remedy="transformer_xl"):
        train(carrying(tmp_path, "llama"), tmp_path / "run")


SLOW = {
    "data.batch_size": 64,
    "trainer.accumulate_grad_batches": 3,  # of 20 batches an epoch: the last step is of two
    "trainer.average_last_epochs": 2,
    "trainer.clip_norm": 0.5,
}


def every_feature() -> Recipe:
    """Steps of several batches, a mean over epochs, and a rate of its own at each step."""
    return replace(with_values(RECIPE, SLOW), schedule=NoamSchedule(warmup=0.2))


@pytest.fixture(scope="module")
def unbroken_with_every_feature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every-feature")
    train(every_feature(), folder / "whole")
    return folder / "whole"


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("batch", [20, 1, 4, 19, 37, 45])
def test_killed_at_any_batch_with_accumulation_averages_and_noam(
    batch: int,
    unbroken_with_every_feature: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from edgewise.app.train import TrainingModule

    original, seen = TrainingModule.training_step, []

    def training_step(self: TrainingModule, given: object, batch_idx: int) -> torch.Tensor:
        seen.append(batch_idx)
        if len(seen) == batch + 1:
            ctrl_c()
        return original(self, given, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", training_step)
    with pytest.raises(Interrupted):
        train(every_feature(), tmp_path / "run")
    train(every_feature(), tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", unbroken_with_every_feature)
    repeated = len(seen) - 1 - 60
    assert 0 <= repeated <= 2, "what is repeated is the begun step alone"


def test_finished_run_is_not_trained_again(unbroken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_at(monkeypatch, 0, ctrl_c)
    metrics = train(RECIPE, unbroken, resume=True)
    assert metrics == RunFolder(unbroken).read_json("metrics.json")
    assert not RunFolder(unbroken).checkpoint.exists()


@pytest.mark.filterwarnings("ignore:.*called before the ``update``")  # here no step follows
@pytest.mark.parametrize(
    ("task", "target"),
    [
        (Classification(), torch.tensor([0, 1, 1])),
        (Consistency(), torch.tensor([0, -100, 1])),
        (Forecast(), torch.arange(18.0).view(3, 3, 2)),
    ],
    ids=["plain", "wrapper", "quotient"],
)
def test_the_metrics_of_a_begun_epoch_are_saved(task: Task, target: torch.Tensor) -> None:
    """Also those that are made of others, in a wrapper or a quotient."""
    begun, continued = (TrainingModule(torch.nn.Identity(), task).train_metrics for _ in range(2))
    outputs = torch.randn(3, 3)
    for name, metric in begun.items():
        if name != "loss":
            metric.update(outputs, target)
    continued.load_state_dict(begun.state_dict())
    for name, metric in begun.items():
        if name != "loss":
            assert float(continued[name].compute()) == float(metric.compute()), name


def test_a_signal_that_lightning_saw_first_is_named() -> None:
    """Between two of its steps it ends a run with an exit of its own."""
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    from edgewise.app.train.fitting import _running

    for given, number in ((SIGTERMException(), signal.SIGTERM), (SystemExit(1), signal.SIGINT)):
        with pytest.raises(Interrupted) as stopped, _running():
            raise given
        assert stopped.value.signal == number
