"""What a run does and leaves: the best epoch's weights, the files, and a stop without progress."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from edgewise._utils.errors import ProcessError
from edgewise.app.train import (
    Batch,
    Classification,
    ConstantSchedule,
    Loader,
    OptimizerSettings,
    RunFolder,
    TrainerSettings,
    evaluate,
    fit,
    fitting,
)
from edgewise.app.train.fitting import curves
from edgewise.app.train.process import device_arguments
from tests.errors import refused

pytest.importorskip("lightning")
FILES = {"curves.png", "log.csv", "metrics.json", "model.safetensors", "test_examples.safetensors"}


@dataclass
class Job:
    """Two clouds of points and a linear model."""

    model: nn.Module
    loaders: dict[str, Loader]

    def fit(self, path, **trainer):
        path.mkdir()
        return fit(
            self.model,
            Classification(),
            self.loaders,
            RunFolder(path),
            optimizer=OptimizerSettings("adam", lr=trainer.pop("lr", 0.1)),
            schedule=ConstantSchedule(),
            trainer=TrainerSettings(**{"accelerator": "cpu", "epochs": 4, **trainer}),
        )


@pytest.fixture
def job() -> Job:
    generator = torch.Generator().manual_seed(1)
    target = torch.arange(60) % 2
    x = torch.randn(60, 2, generator=generator) + 3 * target[:, None]

    def loader(first: int, seed: int | None = None) -> Loader:
        return Loader(lambda i: Batch((x[first + i],), target[first + i]), 20, 8, seed)

    return Job(nn.Linear(2, 2), {"train": loader(0, 0), "val": loader(20), "test": loader(40)})


def test_accumulated_batches_are_one_batch(job, tmp_path):
    """Three batches of 8, 8 and 4, in steps of two: 16 and 4 examples at once."""
    start = {name: value.clone() for name, value in job.model.state_dict().items()}
    job.fit(tmp_path / "two", accumulate_grad_batches=2, epochs=1)
    model = nn.Linear(2, 2)
    model.load_state_dict(start)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    batches = list(job.loaders["train"])
    for step in (batches[:2], batches[2:]):
        optimizer.zero_grad()
        losses = [torch.nn.functional.cross_entropy(model(*b.inputs), b.target) for b in step]
        (sum(losses) / len(step)).backward()
        optimizer.step()
    for name, value in job.model.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name])


def test_bf16_multiplies_in_bfloat16_and_keeps_float32(job, tmp_path):
    seen = set()
    job.model.register_forward_hook(lambda _, __, out: seen.add((out.dtype, job.model.training)))
    job.fit(tmp_path / "run", precision="bf16")
    assert (torch.bfloat16, True) in seen
    assert {value.dtype for value in job.model.state_dict().values()} == {torch.float32}


def test_files_and_metrics(job, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "curves", curves)  # tests/conftest.py replaces it
    metrics = job.fit(tmp_path / "run")
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert {file.name for file in (tmp_path / "run").iterdir()} == FILES
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    assert {"test/accuracy", "test/loss", "val/accuracy", "val/loss"} <= metrics.keys()
    assert metrics["seconds"] > 0
    assert metrics["cpu_seconds"] > 0
    assert (metrics["epochs"], metrics["parameters"]) == (4, 6)
    rows = RunFolder(tmp_path / "run").read_log()
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1]["train/loss"] < rows[0]["train/loss"]


@pytest.mark.parametrize(
    ("keep", "mode", "choose"),
    [("best", "max", max), ("best", "min", min), ("last", "max", lambda losses: losses[-1])],
)
def test_weights_of_the_kept_epoch_are_tested(job, tmp_path, keep, mode, choose):
    metrics = job.fit(tmp_path / "run", keep=keep, monitor="val/loss", mode=mode, lr=1.0)
    losses = [row["val/loss"] for row in RunFolder(tmp_path / "run").read_log()]
    assert losses[-1] < max(losses), "the last epoch is not the best by this mode"
    assert metrics["val/loss"] == choose(losses)
    assert metrics["kept_epoch"] == 1 + losses.index(choose(losses))
    fresh = nn.Linear(2, 2)
    RunFolder(tmp_path / "run").load_weights(fresh)
    again = evaluate(fresh, Classification(), job.loaders, accelerator="cpu")
    assert again == {name: value for name, value in metrics.items() if name in again}


@pytest.mark.parametrize("mode", ["max", "min"])
def test_an_epoch_without_a_number_is_the_worst(job, tmp_path, mode):
    seen = []

    def blind(model, _, outputs):
        """NaN for the three batches of the first validation."""
        if not model.training:
            seen.append(outputs)
        return outputs * float("nan") if not model.training and len(seen) <= 3 else outputs

    job.model.register_forward_hook(blind)
    metrics = job.fit(tmp_path / "run", monitor="val/loss", mode=mode)
    losses = [row["val/loss"] for row in RunFolder(tmp_path / "run").read_log()]
    assert losses[0] != losses[0]
    assert metrics["kept_epoch"] > 1
    assert metrics["val/loss"] == (max if mode == "max" else min)(losses[1:])


def test_metrics_are_over_all_examples(job, tmp_path):
    """The last batch of 20 in eights is smaller, and counts for as much less."""
    metrics = job.fit(tmp_path / "run")
    batches = list(job.loaders["test"])
    x = torch.cat([batch.inputs[0] for batch in batches])
    target = torch.cat([batch.target for batch in batches])
    with torch.no_grad():
        outputs = job.model(x)
    assert metrics["test/accuracy"] == pytest.approx(
        (outputs.argmax(1) == target).float().mean().item(), abs=1e-6
    )
    loss = nn.functional.cross_entropy(outputs, target).item()
    assert metrics["test/loss"] == pytest.approx(loss, abs=1e-5)


def test_stops_without_progress(job, tmp_path):
    metrics = job.fit(tmp_path / "run", epochs=50, patience=2, lr=0.0)
    assert (metrics["epochs"], metrics["kept_epoch"]) == (3, 1), "the first of equals is the best"


def test_equal_accuracies_are_ranked_by_loss(job, tmp_path):
    """The accuracy is the same in all epochs, because only the scale of the logits is trained."""
    scale = nn.Parameter(torch.tensor(0.01))
    target = torch.cat([batch.target for batch in job.loaders["val"]])
    job.model.register_forward_hook(
        lambda _, inputs, __: scale * torch.stack([-inputs[0][:, 0], inputs[0][:, 0]], dim=1)
    )
    job.model.register_parameter("scale", scale)
    assert 0 < float((target == 0).float().mean()) < 1
    metrics = job.fit(tmp_path / "run", epochs=4, lr=0.05)
    rows = RunFolder(tmp_path / "run").read_log()
    losses = [row["val/loss"] for row in rows]
    assert len({row["val/accuracy"] for row in rows}) == 1
    assert min(losses) < losses[0]
    assert metrics["kept_epoch"] == 1 + losses.index(min(losses))


def test_loss_that_is_not_finite(job, tmp_path):
    with refused("optimizer.lr", expected="finite", got="nan in epoch 1", remedy="clip_norm"):
        nn.init.constant_(job.model.weight, float("nan"))
        job.fit(tmp_path / "run")


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_gradients_are_clipped(job, tmp_path, monkeypatch, precision):
    seen = []
    monkeypatch.setattr(
        torch.optim.Adam,
        "step",
        lambda self, closure: (
            closure(),
            seen.append([p.grad.clone() for g in self.param_groups for p in g["params"]]),
        ),
    )
    job.fit(tmp_path / "run", clip_norm=1e-3, epochs=1, precision=precision)
    norms = [torch.cat([g.flatten() for g in grads]).norm().item() for grads in seen]
    assert max(norms) <= 1e-3 * (1 + 1e-4)


def test_monitor_that_is_not_there(job, tmp_path):
    with refused("trainer.monitor", expected="val/loss", got="'val/los'", remedy="val/loss"):
        job.fit(tmp_path / "run", monitor="val/los")


def test_a_file_is_whole_or_absent(tmp_path):
    def breaks(part):
        part.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        RunFolder(tmp_path).write("metrics.json", breaks)
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_has_is_not_written_twice():
    """A test batch of which nothing counts; see ``Loader.share``."""
    from torchmetrics import SumMetric

    from edgewise.app.train import TrainingModule

    class Written(SumMetric):
        def update(self, texts, _batch):
            super().update(float(len(texts)))

    class Writing(type(Classification())):
        def generation_metrics(self):
            return {"texts": Written()}

        def generate(self, _model, batch):
            return ["text"] * len(batch.inputs[0])

    examples = Loader(lambda i: Batch((torch.ones(len(i), 2),), i % 2), 3, 1)
    examples.share(1, 2)
    module = TrainingModule(nn.Linear(2, 2).eval(), Writing())
    for number, batch in enumerate(examples):
        module.test_step(batch, number)
    assert module.generation_metrics["texts"].compute() == 1


def test_apple_gpus_are_not_chosen_because_they_have_no_float64(monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert [device_arguments(name)["accelerator"] for name in ("auto", "gpu")] == ["cpu", "gpu"]


def test_each_process_has_its_own_random_numbers_and_the_first_keeps_the_seed(
    job, tmp_path, monkeypatch
):
    """The processes are played one after the other."""
    drawn = []
    job.model.register_forward_pre_hook(lambda *_: drawn.append(float(torch.rand(1))))
    firsts = []
    for place in ((0, 1), (0, 2), (1, 2)):
        monkeypatch.setattr(fitting, "rank_and_world_size", lambda place=place: place)
        drawn.clear()
        torch.manual_seed(7)
        job.fit(tmp_path / str(len(firsts)), epochs=1, devices=place[1])
        firsts.append(drawn[0])
    alone, first, second = firsts
    assert first == alone
    assert second != first


def test_an_error_of_the_only_process_is_not_taken_for_that_of_another(monkeypatch):
    def fail():
        with fitting._running():
            raise RuntimeError("read error in features.npy")

    with pytest.raises(RuntimeError, match=r"^read error") as caught:
        fail()
    assert not isinstance(caught.value, ProcessError)
    monkeypatch.setattr(fitting, "rank_and_world_size", lambda: (0, 2))
    with pytest.raises(ProcessError, match="another process"):
        fail()
