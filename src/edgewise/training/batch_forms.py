"""What a loader gives, as a :class:`edgewise.batches.Batch`: tuples, dicts and PyG's graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from edgewise.batches import Batch
from edgewise.errors import ArgumentError
from edgewise.graphs import from_pyg

TARGETS = ("labels", "label", "target", "y")
"""What people, and Hugging Face's data sets, call that which is to be predicted."""


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
    count = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
    raise ArgumentError(
        "loaders",
        expected="batches: tuples (input, ..., target), dicts of tensors, PyG's graphs, or "
        "edgewise.data.Batch",
        got=type(value).__name__ + count,
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
            remedy="set it, for example data.x = torch.ones(data.num_nodes, 1)",
        )
    keywords = {}
    if members is not None:
        keywords["batch"] = members.bincount(minlength=graphs.num_graphs)
    if getattr(graphs, "edge_attr", None) is not None:
        keywords["edge_attr"] = graphs.edge_attr
    return Batch((x, from_pyg(graphs)), y, keywords=keywords)
