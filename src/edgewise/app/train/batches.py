"""Batches: model inputs with their targets, and conversion of the user's loaders and batches."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from edgewise._utils.errors import ArgumentError, EdgewiseError
from edgewise.app.train.task import Task
from edgewise.distributed.exchange import communicating
from edgewise.graphs import from_pyg

UNLABELLED = -100
"""Target value that excludes an output from loss and metrics, like PyTorch's ``ignore_index``."""


@dataclass(frozen=True)
class Batch:
    """Inputs of a model and targets of its outputs.

    Attributes:
        inputs: positional arguments: the model is called as ``model(*inputs, **keywords)``.
        target: targets ``[M, ...]``.
        select: indices ``[M]`` of the output rows with a target; None selects all rows. In a single
            large graph the model computes all nodes, but only those of a split have targets.
        keywords: keyword arguments of the model, such as ``edge_attr``.
        continues: for language models: True if row i continues the text of row i of the previous
            batch, so that the model is called with the ``cache=`` of that batch; False if new texts
            start. None if batches are independent.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Batch
        >>> batch = Batch((torch.randn(8, 4),), torch.arange(8) % 2)
        >>> outputs = torch.nn.Linear(4, 2)(*batch.inputs)
        >>> batch.select_outputs(outputs).shape
        torch.Size([8, 2])
    """

    inputs: tuple[Any, ...]
    target: Tensor
    select: Tensor | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    continues: bool | None = None

    def to(self, device: torch.device) -> Batch:
        """Return a copy of the batch on another device."""
        if self.target.device == device:
            return self
        select = None if self.select is None else self.select.to(device)
        inputs = tuple(x.to(device) for x in self.inputs)
        keywords = {name: x.to(device) for name, x in self.keywords.items()}
        target = self.target.to(device)
        return replace(self, inputs=inputs, keywords=keywords, target=target, select=select)

    def outputs(self, model: nn.Module) -> Tensor:
        """Return the outputs of the model, all rows."""
        outputs: Tensor = model(*self.inputs, **self.keywords)
        return outputs

    def select_outputs(self, outputs: Tensor) -> Tensor:
        """Return the output rows ``[M, ...]`` that have targets, in the order of ``target``."""
        return outputs if self.select is None else outputs[self.select]


@dataclass(frozen=True)
class WritingBatch(Batch):
    """Batch for text generation, with reference texts to compare with.

    Attributes:
        prompt: id of the start token for each generated text, ``[B, 1]``.
        end: id of the end-of-sequence token.
        padding: id of the padding token.
        references: reference text of each example.
        decode: function from token ids ``[B, T]`` to texts.
    """

    prompt: Tensor = field(default_factory=lambda: torch.empty(0, 1, dtype=torch.long))
    end: int = 0
    padding: int = 0
    references: tuple[str, ...] = ()
    decode: Callable[[Tensor], list[str]] = lambda _: []


@dataclass(frozen=True)
class LinkBatch(Batch):
    """Batch of pairs of nodes. Rankings pair the nodes ``left`` with the nodes ``right``, except
    ``known``, the undirected edges ``[2, E]`` of earlier splits.
    """

    known: Tensor = field(default_factory=lambda: torch.empty(2, 0, dtype=torch.long))
    left: range = range(0)
    right: range = range(0)


TARGETS = ("labels", "label", "target", "y")
"""Possible names of the target in a batch that is a dict of tensors."""


class Listed:
    """Loader over a list of batches, because Lightning treats a plain list as several loaders."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)

    def share(self, _rank: int, world_size: int) -> None:
        """Raise ArgumentError, because several processes would all train on the same batches."""
        raise ArgumentError(
            "loaders",
            expected="DataLoaders, which can be split among several processes",
            got=f"a list of batches, and {world_size} processes",
            remedy="give DataLoader(dataset, batch_size=32), or train in one process",
        )


def as_loader(split: str, loaders: Mapping[str, Any]) -> Any:
    """Return the loader of a split, with a length."""
    value = loaders.get(split)
    if value is None:
        names = ", ".join(map(repr, loaders)) or "nothing"
        raise _no_loader(split, f"only {names}", f"a loader or a list of batches as {split!r}")
    if isinstance(value, (list, tuple)):
        if value and hasattr(value[0], "edge_index") and getattr(value[0], "batch", None) is None:
            raise _no_loader(split, "a list of graphs", "DataLoader(graphs, batch_size=32) of PyG")
        value = Listed(value)
    # A Hugging Face data set iterates over examples, not over batches.
    if hasattr(value, "with_format"):
        raise _no_loader(split, *_of_hugging_face(split, value))
    if isinstance(value, (Tensor, str, Mapping)):
        raise _no_loader(split, f"a {type(value).__name__}", "DataLoader(TensorDataset(x, y), 32)")
    examples = getattr(value, "dataset", None)
    if hasattr(examples, "with_format") and isinstance(examples, Mapping):
        raise _no_loader(split, "a loader of all splits", _of_hugging_face(split, examples)[1])
    if isinstance(value, Dataset):
        got = f"a {type(value).__name__}, whose items are single examples"
        raise _no_loader(split, got, "DataLoader(dataset, batch_size=32)")
    try:
        count = len(value)
    except TypeError as error:
        of = f" of {type(examples).__name__}" if examples is not None else ""
        got = f"{type(value).__name__}{of}, which has no length"
        remedy = "list(loader), a list of batches, or a DataLoader over a Dataset with a length"
        raise _no_loader(split, got, remedy) from error
    if not count:
        raise _no_loader(split, "no batch", "more examples, or smaller batches if drop_last=True")
    return value


def _of_hugging_face(split: str, dataset: Any) -> tuple[str, str]:
    """Return a description of a Hugging Face data set, and Python code that makes its loader."""
    if isinstance(dataset, Mapping):
        names = ", ".join(map(repr, dataset))
        chosen = split if split in dataset else next(iter(dataset), split)
        line = f"DataLoader(dataset[{chosen!r}].with_format('torch'), batch_size=32)"
        return f"a {type(dataset).__name__} of {names}", line
    what = "a data set of Hugging Face, without batches"
    if not hasattr(dataset, "__len__"):
        line = "list(dataset.with_format('torch').iter(batch_size=32)), if it fits in memory"
        return f"{what} or a length", line
    # A transform is a format too; with_format would replace the transform.
    format_type = (getattr(dataset, "format", None) or {}).get("type")
    tensors = "" if format_type else ".with_format('torch')"
    return what, f"DataLoader(dataset{tensors}, batch_size=32)"


def _no_loader(split: str, got: str, remedy: str) -> ArgumentError:
    return ArgumentError(
        f"loaders[{split!r}]",
        expected="for each of train, val and test: a list of batches, or a loader that has a "
        "length (for example PyTorch's DataLoader)",
        got=got,
        remedy=f"give {remedy}",
    )


def raise_explained(error: Exception) -> NoReturn:
    """Raise ArgumentError for an error of PyTorch's ``default_collate``; raise others unchanged."""
    # If a worker process raised the error, its text is in the traceback.
    if isinstance(error, EdgewiseError) or "default_collate" not in traceback.format_exc():
        raise error
    message = str(error).strip().splitlines()[-1]
    raise ArgumentError(
        "loaders",
        expected="examples that are tensors of the same size, or numbers",
        got=message.removeprefix("RuntimeError: ").removeprefix("TypeError: "),
        remedy="for texts, pass collate_fn=DataCollatorWithPadding(tokenizer) of transformers "
        "to the DataLoader; convert images to tensors of the same size, for example in the "
        "data set's with_transform; for anything else, write a collate_fn",
    ) from error


@contextmanager
def explain_batch_errors(batch: Batch, model: nn.Module, task: Task) -> Iterator[None]:
    """Replace errors that the model or task raises for a batch by ArgumentError with a remedy."""
    try:
        # Processes that divide the weights exchange them in the model.
        with communicating() if torch.distributed.is_initialized() else nullcontext():
            yield
    except (EdgewiseError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        accepted = _arguments(model)
        strange = [name for name in batch.keywords if accepted and name not in accepted]
        raise ArgumentError(
            "loaders",
            expected=f"batches that fit {type(model).__name__} and {type(task).__name__}",
            got=f"{_described(batch)} ({' '.join(str(error).split())[:200]})",
            remedy=f"remove {', '.join(strange)}, or rename it to one of {', '.join(accepted)} "
            "(with remove_columns and rename_column of a Hugging Face data set), or return an "
            "edgewise.app.train.Batch from the loader's collate_fn"
            if strange
            else "give batches with the inputs that the model expects, and a target that fits its "
            "outputs",
        ) from error


def _arguments(model: nn.Module) -> list[str]:
    """Return the names of the arguments of ``model.forward``; empty if it takes ``**kwargs``."""
    arguments = inspect.signature(model.forward).parameters.values()
    if any(a.kind is a.VAR_KEYWORD for a in arguments):
        return []
    return [a.name for a in arguments if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]


def _described(batch: Batch) -> str:
    inputs = ", ".join(map(_form, batch.inputs))
    keywords = "".join(f", {name} {_form(value)}" for name, value in batch.keywords.items())
    return f"inputs {inputs or 'by name'}{keywords}, target {_form(batch.target)}"


def _form(value: Any) -> str:
    """Return the dtype and shape of a tensor as text, such as ``float32 [8, 4]``; else its type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__


def as_batch(value: Any) -> Batch:
    """Convert a batch of a loader to :class:`edgewise.app.train.Batch`."""
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
        expected="batches that are tuples (input, ..., target), dicts of tensors, PyG graphs, or "
        "edgewise.app.train.Batch",
        got=_form(value) + of,
        remedy="return Batch((x, graph), target) from the loader's collate_fn, or from the "
        "transform of a PyG loader",
    )


def as_input_batch(value: Any) -> Batch:
    """Convert a batch for prediction: a form of :func:`as_batch`, or one without a target."""
    no_target = torch.empty(0)
    if isinstance(value, Tensor):
        return Batch((value,), no_target)
    if isinstance(value, (tuple, list)) and len(value) == 1:
        return Batch(tuple(value), no_target)
    if isinstance(value, Mapping) and not any(name in value for name in TARGETS):
        return as_batch({**value, TARGETS[0]: no_target})
    if hasattr(value, "edge_index") and getattr(value, "y", None) is None:
        value = copy(value)
        value.y = no_target
    return as_batch(value)


def _of_columns(columns: Mapping[str, Any]) -> Batch:
    targets = [name for name in TARGETS if name in columns]
    strange = [name for name, value in columns.items() if not isinstance(value, Tensor)]
    if len(targets) != 1 or strange:
        kinds = (f"{name} ({_kind(value)})" for name, value in columns.items())
        raise ArgumentError(
            "loaders",
            expected=f"dicts of tensors with one of {', '.join(TARGETS[:-1])} and {TARGETS[-1]}",
            got=f"a dict of {', '.join(kinds)}",
            remedy=_remedy_of_columns(columns, targets, strange),
        )
    others = {name: value for name, value in columns.items() if name not in targets}
    return Batch((), columns[targets[0]], keywords=others)


def _kind(value: Any) -> str:
    """Return the type of a value as text, such as ``list of str``."""
    of = {type(x).__name__ for x in value} if isinstance(value, (list, tuple)) else set()
    return f"{type(value).__name__}{f' of {of.pop()}' if len(of) == 1 else ''}"


def _remedy_of_columns(
    columns: Mapping[str, Any], targets: Sequence[str], strange: Sequence[str]
) -> str:
    texts = [name for name in strange if _kind(columns[name]).endswith("of str")]
    if set(texts) & set(targets):
        return f"number the classes: dataset.class_encode_column({targets[0]!r})"
    if texts:
        return (
            f"remove text columns after tokenization, dataset.remove_columns({texts}), and pass "
            "a DataLoader of dataset.with_format('torch')"
        )
    if strange:
        return "pass a DataLoader of dataset.with_format('torch')"
    if targets:
        return f"keep one target, for example dataset.remove_columns({targets[1]!r})"
    return "rename the target, for example dataset.rename_column('class', 'label')"


def _of_pyg(graphs: Any) -> Batch:
    x, y, members = (getattr(graphs, name, None) for name in ("x", "y", "batch"))
    if x is None or y is None:
        raise ArgumentError(
            "loaders",
            expected="PyG graphs with features x and a target y",
            got=f"a graph without {'x' if x is None else 'y'}",
            remedy="set data.x, for example data.x = torch.ones(data.num_nodes, 1)"
            if x is None
            else "set data.y, for example data.y = torch.tensor([0])",
        )
    keywords = {}
    if members is not None:
        keywords["batch"] = members.bincount(minlength=graphs.num_graphs)
    if getattr(graphs, "edge_attr", None) is not None:
        keywords["edge_attr"] = graphs.edge_attr
    return Batch((x, from_pyg(graphs)), y, keywords=keywords)
