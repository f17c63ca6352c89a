"""Data sets of Hugging Face, as a reader of their pages makes them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.app.train.test_own_parts import go
from tests.errors import refused

datasets = pytest.importorskip("datasets")

ROWS, SPLITS = 40, ("train", "val", "test")


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()


def rows() -> Any:
    """Numbers whose sign is the class."""
    x = torch.randn(ROWS, 3)
    label = (x.sum(1) > 0).long()
    return datasets.Dataset.from_dict({"input": x.tolist(), "label": label.tolist()})


def texts() -> Any:
    """Ids of texts of different lengths, which say their class in the first."""
    ids = [[1 + i % 2, *[3] * (i % 5)] for i in range(ROWS)]
    columns = {"input_ids": ids, "attention_mask": [[1] * len(one) for one in ids]}
    return datasets.Dataset.from_dict({**columns, "label": [i % 2 for i in range(ROWS)]})


def batches(dataset: Any, **options: Any) -> dict[str, Any]:
    return dict.fromkeys(SPLITS, DataLoader(dataset, batch_size=8, **options))


def transformed(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(values) for name, values in columns.items()}


MADE = {
    "torch": lambda d: d.with_format("torch"),
    "numpy": lambda d: d.with_format("numpy"),
    "transform": lambda d: d.with_transform(transformed),
    "shuffled": lambda d: d.shuffle(seed=0).with_format("torch"),
    "mapped": lambda d: d.map(lambda row: {"label": row["label"]}).with_format("torch"),
    "chosen": lambda d: d.add_column("text", ["a"] * ROWS).with_format("torch", ["input", "label"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
def test_a_loader_of_one_trains(kind: str, tmp_path: Path) -> None:
    """To the numbers that the same rows have as a list of batches."""
    plain = rows()
    model = nn.Linear(3, 2)
    metrics = go(tmp_path / "run", batches(MADE[kind](plain)), model=deepcopy(model))
    order = MADE[kind](plain).with_format("torch")
    wanted = [(order[i : i + 8]["input"], order[i : i + 8]["label"]) for i in range(0, ROWS, 8)]
    again = go(tmp_path / "list", dict.fromkeys(SPLITS, wanted), model=model)
    assert metrics["test/loss"] == again["test/loss"]


@pytest.mark.slow
def test_streams_train_as_lists_of_their_batches(tmp_path: Path) -> None:
    stream = rows().to_iterable_dataset().with_format("torch")
    given = {split: list(stream.iter(batch_size=8)) for split in SPLITS}
    assert go(tmp_path / "run", given, model=nn.Linear(3, 2))["test/accuracy"] > 0.5


def test_texts_train_by_the_collator_of_their_tokenizer(tmp_path: Path) -> None:
    """A text has the answer that it has alone, without padding."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from edgewise.models import bert

    words = tokenizers.models.WordLevel({"[PAD]": 0, "a": 1, "b": 2, "c": 3}, unk_token="c")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), pad_token="[PAD]"
    )

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = bert(4, width=8, depth=1, heads=2, ffn_dim=8, dropout=0.0)
            self.head = nn.Linear(8, 2)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.trunk(input_ids, attention_mask)[:, 0])
            return logits

    model, given = Classifier(), texts()
    collate = transformers.DataCollatorWithPadding(tokenizer)
    metrics = go(tmp_path / "run", batches(given, collate_fn=collate), model=model)
    alone = [
        model(*(torch.tensor([row[name]]) for name in ("input_ids", "attention_mask"))).argmax()
        == row["label"]
        for row in given
    ]
    assert metrics["test/accuracy"] == pytest.approx(sum(alone).item() / ROWS)
    assert metrics["test/accuracy"] > 0.9


def by_splits() -> Any:
    return datasets.DatasetDict({"train": rows(), "validation": rows(), "test": rows()})


NO_LOADERS: dict[str, tuple[Any, str, str]] = {
    "rows": (rows, "a data set of", "DataLoader(dataset.with_format('torch'), batch_size=32)"),
    "tensors": (lambda: rows().with_format("torch"), "a data set", "DataLoader(dataset, batch"),
    "transform": (lambda: rows().with_transform(transformed), "a data", "DataLoader(dataset, b"),
    "stream": (
        lambda: rows().to_iterable_dataset(),
        "or a length",
        "list(dataset.with_format('torch').iter(batch_size=32))",
    ),
    "loader of a stream": (
        lambda: DataLoader(rows().to_iterable_dataset()),
        "DataLoader of IterableDataset",
        "list(loader)",
    ),
    "splits": (
        by_splits,
        "a DatasetDict of 'train', 'validation', 'test'",
        "DataLoader(dataset['train'].with_format('torch'), batch_size=32)",
    ),
    "loader of splits": (
        lambda: DataLoader(by_splits()),
        "a loader of all splits",
        "DataLoader(dataset['train'].with_format",
    ),
}


@pytest.mark.parametrize("kind", NO_LOADERS)
def test_what_is_no_loader_is_told_the_line_to_write(kind: str, tmp_path: Path) -> None:
    make, got, remedy = NO_LOADERS[kind]
    with refused(
        "loaders['train']", expected="a list of batches, or a loader", got=got, remedy=remedy
    ):
        go(tmp_path / "run", dict.fromkeys(SPLITS, make()))


def test_a_split_of_another_name_is_asked_for(tmp_path: Path) -> None:
    splits = by_splits().with_format("torch")
    given = {name: DataLoader(splits[name]) for name in splits}
    got = "only 'train', 'validation', 'test'"
    with refused(
        "loaders['val']", expected="a loader that has a length", got=got, remedy="as 'val'"
    ):
        go(tmp_path / "run", given)


@pytest.mark.parametrize("form", [None, "torch"])
def test_texts_without_a_collator_are_explained(form: str | None, tmp_path: Path) -> None:
    given = batches(texts().with_format(form))
    with refused(
        "loaders", expected="of the same size", got="size", remedy="DataCollatorWithPadding"
    ):
        go(tmp_path / "run", given, model=nn.Linear(3, 2))


@pytest.mark.parametrize("form", [None, "torch"])
def test_images_without_a_transform_are_explained(form: str | None, tmp_path: Path) -> None:
    """Files of two sizes; with one their tensors are of bytes, and a rename away from working."""
    image = pytest.importorskip("PIL.Image")
    kinds = datasets.Features(
        {"input": datasets.Image(), "label": datasets.ClassLabel(num_classes=2)}
    )
    pictures = [image.new("L", (4, 4 + i % 2)) for i in range(4)]
    given = datasets.Dataset.from_dict({"input": pictures, "label": [0, 1, 0, 1]}, features=kinds)
    got = "[1, 4, 4] at entry 0 and [1, 5, 4] at entry 1" if form else "PngImageFile"
    with refused("loaders", expected="of the same size", got=got, remedy="with_transform"):
        go(tmp_path / "run", batches(given.with_format(form)))
