"""What people give as loaders and batches: lists, tuples, dicts and PyG's graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from edgewise.base_task import Task
from edgewise.batches import Batch
from edgewise.errors import ArgumentError, EdgewiseError
from edgewise.graphs import from_pyg

TARGETS = ("labels", "label", "target", "y")
"""What people, and Hugging Face's data sets, call that which is to be predicted."""


class Listed:
    """Batches of a list as one loader: Lightning takes a list for several loaders."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)

    def share(self, _rank: int, world_size: int) -> None:
        """Refuse to be read by several processes.

        Raises:
            ArgumentError: they would all train on the same batches.

        """
        raise ArgumentError(
            "loaders",
            expected="DataLoaders, whose examples several processes can share",
            got=f"a list of batches, and {world_size} processes",
            remedy="give DataLoader(dataset, batch_size=32), or train in one process",
        )


def as_loader(split: str, value: Any) -> Any:
    """A loader with a length, from that or from a list of batches.

    Args:
        split: ``train``, ``val`` or ``test``.
        value: what was given for it.

    Raises:
        ArgumentError: it is a data set without batches, has no length, or no batch.

    """
    if isinstance(value, (list, tuple)):
        if value and hasattr(value[0], "edge_index") and getattr(value[0], "batch", None) is None:
            raise _no_loader(split, "a list of graphs", "DataLoader(graphs, batch_size=32) of PyG")
        value = Listed(value)
    if isinstance(value, (Tensor, str, Mapping)):
        raise _no_loader(split, f"a {type(value).__name__}", "DataLoader(TensorDataset(x, y), 32)")
    if hasattr(value, "with_format"):  # Hugging Face's, whose rows are examples
        columns = "DataLoader(dataset.with_format('torch'), batch_size=32)"
        raise _no_loader(split, "a data set of Hugging Face, without batches", columns)
    if isinstance(value, Dataset):
        got = f"a {type(value).__name__}, whose parts are single examples"
        raise _no_loader(split, got, "DataLoader(dataset, batch_size=32)")
    try:
        count = len(value)
    except TypeError as error:
        of = f" of {type(value.dataset).__name__}" if hasattr(value, "dataset") else ""
        got = f"{type(value).__name__}{of}, which has none"
        raise _no_loader(split, got, "a list of batches, or a DataLoader of a Dataset") from error
    if not count:
        raise _no_loader(split, "no batch", "more examples, or smaller batches with drop_last=True")
    return value


def _no_loader(split: str, got: str, remedy: str) -> ArgumentError:
    return ArgumentError(
        f"loaders[{split!r}]",
        expected="batches with a length, for train, val and test each: a list, or a loader such "
        "as PyTorch's DataLoader",
        got=got,
        remedy=f"give {remedy}",
    )


@contextmanager
def explaining(batch: Batch, model: nn.Module, task: Task) -> Iterator[None]:
    """Say what came, where the model or the task cannot compute with it.

    Raises:
        ArgumentError: in the place of what PyTorch says of sizes and types.

    """
    try:
        yield
    except (EdgewiseError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ArgumentError(
            "loaders",
            expected=f"batches that {type(model).__name__} and {type(task).__name__} take",
            got=f"{_described(batch)} ({' '.join(str(error).split())[:200]})",
            remedy="compare these with what the model reads, and its outputs with the target",
        ) from error


def _described(batch: Batch) -> str:
    inputs = ", ".join(map(_form, batch.inputs))
    named = "".join(f", {name} {_form(value)}" for name, value in batch.keywords.items())
    return f"inputs {inputs or 'by name'}{named}, target {_form(batch.target)}"


def _form(value: Any) -> str:
    """Such as ``float32 [8, 4]``."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__


def as_batch(value: Any) -> Batch:
    """What a loader gave, as a batch.

    Args:
        value: that; a tuple ``(input, ..., target)``; a dict of tensors with a target, for which
            the model is called with the others by name; or PyTorch Geometric's ``Data`` or
            ``Batch``, for which it is called ``model(x, graph, batch=, edge_attr=)``.

    Raises:
        ArgumentError: it is none of them.

    """
    if isinstance(value, Batch):
        return value
    if isinstance(value, (tuple, list)) and len(value) > 1 and isinstance(value[-1], Tensor):
        return Batch(tuple(value[:-1]), value[-1])
    if isinstance(value, Mapping):
        return _of_columns(value)
    if hasattr(value, "edge_index"):
        return _of_pyg(value)
    of = f" of {', '.join(map(_form, value[:4]))}" if isinstance(value, (tuple, list)) else ""
    raise ArgumentError(
        "loaders",
        expected="batches: tuples (input, ..., target), dicts of tensors, PyG's graphs, or "
        "edgewise.data.Batch",
        got=_form(value) + of,
        remedy="make them in the loader's collate_fn, or a PyG loader's transform: "
        "Batch((x, graph), target)",
    )


def _of_columns(columns: Mapping[str, Any]) -> Batch:
    targets = [name for name in TARGETS if name in columns]
    strange = [name for name, value in columns.items() if not isinstance(value, Tensor)]
    if len(targets) != 1 or strange:
        kinds = (f"{name} ({type(value).__name__})" for name, value in columns.items())
        raise ArgumentError(
            "loaders",
            expected=f"dicts of tensors, one of them {', '.join(TARGETS[:-1])} or {TARGETS[-1]}",
            got=f"a dict of {', '.join(kinds)}",
            remedy="give a DataLoader of dataset.with_format('torch'), with the columns that the "
            "model is called with, and a target",
        )
    others = {name: value for name, value in columns.items() if name not in targets}
    return Batch((), columns[targets[0]], keywords=others)


def _of_pyg(graphs: Any) -> Batch:
    x, y, members = (getattr(graphs, name, None) for name in ("x", "y", "batch"))
    if x is None or y is None:
        raise ArgumentError(
            "loaders",
            expected="graphs of PyG with features x and a target y",
            got=f"one without {'x' if x is None else 'y'}",
            remedy="set it, for example data.x = torch.ones(data.num_nodes, 1)"
            if x is None
            else "set it, for example data.y = torch.tensor([0])",
        )
    keywords = {}
    if members is not None:
        keywords["batch"] = members.bincount(minlength=graphs.num_graphs)
    if getattr(graphs, "edge_attr", None) is not None:
        keywords["edge_attr"] = graphs.edge_attr
    return Batch((x, from_pyg(graphs)), y, keywords=keywords)
