"""A user's own loaders, Lightning callbacks and loggers, without a recipe."""

from __future__ import annotations

import csv
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

pytest.importorskip("lightning")

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger

from edgewise._utils.errors import Interrupted, RunExistsError
from edgewise.app.train import (
    Classification,
    OptimizerSettings,
    RunFolder,
    TrainerSettings,
    TrainingModule,
    fit,
)
from tests.app.train.test_resume import assert_same
from tests.errors import refused


def loaders(**train: Any) -> dict[str, DataLoader]:
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(40) % 2
    x = torch.randn(40, 3, generator=generator) + y[:, None]
    return {
        "train": DataLoader(TensorDataset(x, y), **{"batch_size": 8, "shuffle": True, **train}),
        "val": DataLoader(TensorDataset(x, y), batch_size=40),
        "test": DataLoader(TensorDataset(x, y), batch_size=40),
    }


def go(path: Path, given: dict[str, Any] | None = None, **more: Any) -> dict[str, float]:
    torch.manual_seed(1)
    settings = {"epochs": 3, "accelerator": "cpu", **more.pop("trainer", {})}
    return fit(
        more.pop("model", None) or nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)),
        Classification(),
        given or loaders(),
        RunFolder(path),
        optimizer=OptimizerSettings(lr=0.05),
        trainer=TrainerSettings(**settings),
        **more,
    )


class Seen(lightning.Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: Any) -> None:
        assert isinstance(pl_module, TrainingModule)
        self.losses.append(trainer.callback_metrics["val/loss"].item())


def test_a_dataloader_of_tuples_with_a_logger_and_callbacks(tmp_path: Path) -> None:
    seen = Seen()
    best = ModelCheckpoint(tmp_path / "best", monitor="val/loss")
    metrics = go(
        tmp_path / "run",
        logger=CSVLogger(tmp_path / "logs", name=""),
        callbacks=[seen, best, LearningRateMonitor()],
    )
    losses = [row["val/loss"] for row in RunFolder(tmp_path / "run").read_log()]
    assert seen.losses == losses
    assert best.best_model_score == min(losses)
    (table,) = (tmp_path / "logs").glob("*/metrics.csv")
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    logged = [float(row["val/loss"]) for row in rows if row["train/loss"]]
    assert logged == losses
    assert [float(row["test/loss"]) for row in rows if row["test/loss"]] == [metrics["test/loss"]]


def test_a_log_file_gets_no_line_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.app.train.callbacks.LINE_EVERY", 0.0)
    go(tmp_path / "run")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("  ")[2].split()[1] for line in lines] == ["1/3", "2/3", "3/3"]


def test_a_long_epoch_logs_its_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.app.train.callbacks.BATCH_LINE_EVERY", 0.0)
    go(tmp_path / "run", trainer={"epochs": 2})
    lines = capsys.readouterr().err.splitlines()
    assert "epoch 0/2, batch 2/5" in lines[1]
    assert "epoch 1/2, batch 1/5" in lines[4]
    assert len(set(lines)) == len(lines)


def test_a_log_file_gets_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.app.train.callbacks.LINE_EVERY", 3600.0)  # on a slow machine, too
    go(tmp_path / "run")
    (line,) = capsys.readouterr().err.splitlines()  # of 3 epochs and 15 batches
    assert "epoch 3/3" in line


@pytest.mark.slow
def test_a_progress_bar_of_ones_own_replaces_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go(tmp_path / "ours")
    assert "epoch 3/3" in capsys.readouterr().err
    go(tmp_path / "run", callbacks=[RichProgressBar()])
    assert "epoch 3/3" not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*many workers")  # Lightning's own
def test_the_module_with_lightnings_own_trainer(tmp_path: Path) -> None:
    module = TrainingModule(nn.Linear(3, 2), Classification(), OptimizerSettings(lr=0.05))
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    given = loaders()
    trainer.fit(module, given["train"], given["val"])
    assert {"train/loss", "val/accuracy"} <= module.measured.keys()


class Stop(lightning.Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("step", [5, 8, 10, 13])
def test_a_run_with_pytorchs_dataloader_is_continued_exactly(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot tell how far it is, so an epoch that was broken is repeated, with its draws."""
    monkeypatch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)
    often = {"save_every": 0}
    go(tmp_path / "whole", trainer=often)
    with pytest.raises(Interrupted):
        go(tmp_path / "run", trainer=often, callbacks=[Stop(step)])
    assert RunFolder(tmp_path / "run").checkpoint.is_file()
    go(tmp_path / "run", trainer=often)
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_a_second_fit_does_not_overwrite(tmp_path: Path) -> None:
    go(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(RunExistsError, match="finished run"):
        go(tmp_path)
    (tmp_path / "metrics.json").unlink()
    before.pop("metrics.json")
    with pytest.raises(RunExistsError, match="another folder"):
        go(tmp_path)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        yield torch.ones(3), torch.tensor(0)


def test_loaders_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    given = loaders()
    got = "only 'train', 'val'"
    with refused("loaders['test']", expected="a length", got=got, remedy="batches as 'test'"):
        go(tmp_path / "run", {"train": given["train"], "val": given["val"]})
    with refused("loaders['train']", expected="a length", got="DataLoader", remedy="list(loader)"):
        go(tmp_path / "run", {**given, "train": DataLoader(Stream())})
    for batch, kind in (
        (5, "int"),
        ([torch.ones(1)], "list of float32 [1]"),
        ((1, 2), "tuple of int, int"),
    ):
        one = DataLoader([0, 1], collate_fn=lambda _, batch=batch: batch)
        with refused("loaders", expected="(input, ..., target)", got=kind, remedy="collate_fn"):
            go(tmp_path / "run", {**given, "train": one})


class Columns(Dataset):
    """A row as a dict, as a Hugging Face data set in torch's format gives it."""

    def __init__(self, **columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self.columns.items()}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("target", ["label", "labels"])
def test_a_loader_of_dicts(tmp_path: Path, target: str) -> None:
    given = {name: loader.dataset.tensors for name, loader in loaders().items()}
    named = {
        name: DataLoader(Columns(input=x, **{target: y}), batch_size=40)
        for name, (x, y) in given.items()
    }
    model = nn.Linear(3, 2)  # whose argument is called input
    metrics = go(tmp_path / "run", named, model=model, trainer={"epochs": 20})
    right = model(given["test"][0]).argmax(1) == given["test"][1]
    assert metrics["test/accuracy"] == pytest.approx(float(right.float().mean()), abs=1e-5)


def test_dicts_that_say_no_target_or_hold_texts_are_named(tmp_path: Path) -> None:
    x, y = torch.ones(4, 3), torch.zeros(4).long()
    words = ["a", "b", "c", "d"]
    wrong = [
        (Columns(input=x), "input (Tensor)", "rename_column('class', 'label')"),
        (Columns(input=x, label=y, y=y), "label (Tensor), y (Tensor)", "remove_columns('y')"),
        (Columns(text=words, label=y), "text (list of str)", "remove_columns(['text'])"),
        (Columns(input=x, label=words), "label (list of str)", "class_encode_column('label')"),
        (Columns(input=x.tolist(), label=y), "input (list of Tensor)", "with_format('torch')"),
    ]
    for number, (dataset, got, remedy) in enumerate(wrong):
        given = {name: DataLoader(dataset, batch_size=2) for name in ("train", "val", "test")}
        with refused("loaders", expected="label, target and y", got=got, remedy=remedy):
            go(tmp_path / str(number), given)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_columns_that_the_model_does_not_read_are_named(split: str, tmp_path: Path) -> None:
    """In whichever split they are."""
    x, y = torch.ones(4, 3), torch.zeros(4).long()
    given = dict.fromkeys(("train", "val", "test"), DataLoader(Columns(input=x, label=y)))
    given[split] = DataLoader(Columns(input=x, label=y, number=y))
    remedy = "remove number, or rename it to one of input "
    with refused("loaders", expected="Linear and Class", got="number int64 [1]", remedy=remedy):
        go(tmp_path / "run", given, model=nn.Linear(3, 2))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("examples", "got"),
    [
        ([[1, 2], [1]], "each element in list of batch should be of equal size"),
        ([torch.ones(2), torch.ones(1)], "size"),
        ([None, None], "found <class 'NoneType'>"),
    ],
)
def test_examples_that_make_no_batch_are_explained(
    examples: list[Any], got: str, workers: int, tmp_path: Path
) -> None:
    given = loaders()
    one = DataLoader(Columns(input=examples, label=[0, 1]), batch_size=2, num_workers=workers)
    with refused("loaders", expected="of the same size", got=got, remedy="DataCollatorWithPadding"):
        go(tmp_path / "run", {**given, "train": one})


class Broken(Columns):
    def __getitem__(self, row: int) -> dict[str, Any]:
        raise RuntimeError("of the user's own")


@pytest.mark.slow
def test_what_goes_wrong_in_a_data_set_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="of the user's own"):
        go(tmp_path / "run", {**loaders(), "train": DataLoader(Broken(input=[0]))})


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_the_loader_of_pyg(tmp_path: Path, whole: bool) -> None:
    """Of graphs with a class each, or with one for each node."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader as GraphLoader

    from edgewise.graphs import from_pyg
    from edgewise.models import gin, graph_gin

    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graphs = [
        Data(x=torch.randn(3, 3), edge_index=edge_index, y=torch.tensor([i % 2] * (3 - 2 * whole)))
        for i in range(12)
    ]
    given = {name: GraphLoader(graphs, batch_size=5) for name in ("train", "val", "test")}
    model = graph_gin(3, 2) if whole else gin(3, 2)
    metrics = go(tmp_path / "run", given, model=model)
    with torch.no_grad():  # a graph at a time
        each = {"batch": [3]} if whole else {}
        right = [model.eval()(one.x, from_pyg(one), **each).argmax(1) == one.y for one in graphs]
    assert metrics["test/accuracy"] == pytest.approx(float(torch.cat(right).float().mean()))
    listed = {name: list(loader) for name, loader in given.items()}
    torch.manual_seed(0)
    again = go(tmp_path / "listed", listed, model=deepcopy(model))
    assert again["test/accuracy"] >= 0
    with refused("loaders['val']", expected="a list", got="a list of graphs", remedy="of PyG"):
        go(tmp_path / "singles", {**listed, "val": graphs})
    bare = Data(edge_index=edge_index, num_nodes=3, y=torch.tensor([0]))
    given["train"] = GraphLoader([bare], batch_size=1)
    with refused("loaders", expected="x and a target y", got="without x", remedy="torch.ones"):
        go(tmp_path / "bare", given, model=graph_gin(3, 2))


X, Y = torch.randn(16, 3), torch.arange(16) % 2
GOOD = [(X[i : i + 8], Y[i : i + 8]) for i in (0, 8)]


def test_a_list_of_batches_is_a_loader(tmp_path: Path) -> None:
    given = dict.fromkeys(("train", "val", "test"), GOOD)
    same = DataLoader(TensorDataset(X, Y), batch_size=8)  # which draws a number in each epoch
    torch.manual_seed(2)
    plain = nn.Linear(3, 2)
    metrics = go(tmp_path / "list", given, model=deepcopy(plain))
    wanted = go(tmp_path / "loader", dict.fromkeys(given, same), model=plain)
    assert metrics["test/loss"] == wanted["test/loss"]


class Rows(IterableDataset):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


class WithFormat(Columns):
    """As a data set of Hugging Face looks from outside; test_hugging_face_data.py has real ones."""

    def __init__(self, kind: str | None = None) -> None:
        super().__init__(input=X, label=Y)
        self.format = {"type": kind}

    def with_format(self) -> None:
        """Theirs gives tensors."""


@pytest.mark.parametrize(
    ("wrong", "got", "remedy"),
    [
        (iter(GOOD), "list_iterator, which has no length", "list(loader)"),
        (
            DataLoader(Rows(), batch_size=8),
            "DataLoader of Rows, which has no length",
            "a DataLoader over",
        ),
        (TensorDataset(X, Y), "TensorDataset, whose items are single", "DataLoader(dataset"),
        (WithFormat(), "a data set of Hugging Face", "DataLoader(dataset.with_format('torch')"),
        (WithFormat("torch"), "a data set of Hugging Face", "give DataLoader(dataset, batch"),
        (X, "a Tensor", "TensorDataset(x, y)"),
        ([], "no batch", "more examples"),
        (None, "only 'train', 'val', 'test'", "a list of batches"),
        (DataLoader(TensorDataset(X[:4], Y[:4]), 8, drop_last=True), "no batch", "smaller"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("split", ["train", "test"])
def test_what_is_no_loader_is_explained(
    split: str, wrong: Any, got: str, remedy: str, tmp_path: Path
) -> None:
    given = dict.fromkeys(("train", "val", "test"), GOOD) | {split: wrong}
    with refused(
        f"loaders[{split!r}]", expected="a list of batches, or a loader", got=got, remedy=remedy
    ):
        go(tmp_path / "run", given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("batch", "expected", "got"),
    [
        (X, "tuples (input", "float32 [16, 3]"),
        ([X], "tuples (input", "list of float32 [16, 3]"),
        ((X.tolist(), Y.tolist()), "tuples (input", "tuple of list, list"),
        ((X.numpy(), Y.numpy()), "tuples (input", "tuple of ndarray, ndarray"),
        ({"input": X}, "dicts of tensors with one of labels", "a dict of input (Tensor)"),
        ({"x": X, "labels": Y}, "batches that fit Sequential and Classification", "x float32"),
        ((X[:, :2], Y), "batches that fit Sequential", "inputs float32 [16, 2], target int64 [16]"),
        ((X.double(), Y), "batches that fit Sequential", "inputs float64 [16, 3]"),
        ((X, Y[:5]), "batches that fit Sequential", "target int64 [5]"),
        ((X, Y.float()), "batches that fit Sequential", "target float32 [16]"),
        ((X, Y + 7), "batches that fit Sequential", "target int64 [16]"),
        ((["a"] * 16, Y), "batches that fit Sequential", "inputs list, target"),
    ],
)
def test_a_batch_of_the_wrong_form_is_explained(
    batch: Any, expected: str, got: str, tmp_path: Path
) -> None:
    batches = [batch]
    given = dict.fromkeys(("train", "val", "test"), batches)
    with refused("loaders", expected=expected, got=got, remedy=""):
        go(tmp_path / "run", given)
