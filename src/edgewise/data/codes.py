"""Codes of encodings, kept with the graphs that they are of.

Where a node is in a molecule is the same in every epoch and every run. The codes of all graphs of a
data set are computed once, a chunk of graphs at a time, and kept in the cache under a name that is
a hash of the edges, of the encoding with its settings, and of the code that computes it: when one
of them changes, they are computed anew.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from edgewise.data.files import cache_root
from edgewise.data.packed import PackedGraphs
from edgewise.encodings import distances, laplacian, members
from edgewise.graphs import Graph
from edgewise.ragged import boundaries, ranges, run_of_each, starts

AT_ONCE = 500  # graphs of a chunk
SHOWN_FROM = 2000  # graphs, of which the bar is worth a line
TYPES = (torch.uint8, torch.int16, torch.int32)


class Encoding(Protocol):
    """What :data:`edgewise.encodings.OF_NODES` and ``OF_PAIRS`` have in common."""

    of_pairs: bool
    compares_graphs: bool

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""

    def code(self, graph: Graph) -> Tensor:
        """``[N, ...]``, or ``[P, ...]`` where it is of pairs."""


@dataclass(frozen=True)
class Kept:
    """The codes of all graphs, one graph after the other.

    Attributes:
        rows: ``[N, ...]`` of nodes or ``[P, ...]`` of pairs; edges count from 0 in each graph.
        start: ``[G + 1]``, where the rows of each graph begin.
        of_edges: whether they are numbers of edges, -1 for none.

    """

    rows: Tensor
    start: Tensor
    of_edges: bool


class Codes:
    """The codes of a data set's graphs, by the keyword that a model is given them by.

    Args:
        graphs: of the data set; their nodes' features are not looked at.

    """

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs
        self.kept: dict[str, Kept] = {}

    def prepare(self, encodings: Mapping[str, Encoding], *, shared: bool = True) -> None:
        """Compute what is not in the cache; batches cut from now on have these codes.

        Raises:
            ArgumentError: a graph that the encoding cannot say anything about, such as a directed
                one for Laplacian eigenvectors.

        """
        self.graphs = replace(self.graphs, shared=shared)
        sizes = self.graphs.sizes
        for keyword, encoding in encodings.items():
            counts = sizes.square() if encoding.of_pairs else sizes
            start = boundaries(counts)
            of_edges = isinstance(encoding, distances.PathEdges)
            self.kept[keyword] = Kept(self._rows(encoding), start, of_edges)

    def take(self, which: Tensor) -> dict[str, Tensor]:
        """Of a batch of these graphs, as :meth:`PackedGraphs.take` packs them.

        Args:
            which: ``[B]``, indices of graphs, each as often as :meth:`PackedGraphs.take` packs it.

        """
        distinct = which.unique() if self.graphs.shared else which
        return {keyword: self._cut(kept, distinct) for keyword, kept in self.kept.items()}

    def _cut(self, kept: Kept, distinct: Tensor) -> Tensor:
        count = kept.start.diff()[distinct]
        rows = kept.rows[ranges(kept.start[distinct], count)]
        if not kept.of_edges:
            return rows if rows.is_floating_point() else rows.long()
        first = starts(self.graphs.edge_start.diff()[distinct])[run_of_each(count, len(rows))]
        rows = rows.long()
        return torch.where(rows < 0, rows, rows + first[:, None])

    def _rows(self, encoding: Encoding) -> Tensor:
        path = cache_root() / "codes" / f"{type(encoding).__name__}-{self._key(encoding)}.npy"
        try:
            return torch.from_numpy(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError):  # none yet, or a damaged one
            rows = self._computed(encoding)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part-{uuid4().hex}")
        try:
            with part.open("wb") as file:
                np.save(file, rows.numpy(), allow_pickle=False)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return rows

    def _key(self, encoding: Encoding) -> str:
        graphs, found = self.graphs, hashlib.sha256()
        for tensor in (graphs.edge_index, graphs.node_start, graphs.edge_start):
            found.update(tensor.contiguous().numpy().tobytes())
        found.update(repr(encoding.settings).encode())
        own = inspect.getmodule(type(encoding))  # a model's may compute its by laplacian
        for module in (own, laplacian, members, sys.modules[__name__]):
            assert module is not None
            found.update(Path(str(module.__file__)).read_bytes())
        return found.hexdigest()[:32]

    def _computed(self, encoding: Encoding) -> Tensor:
        at_once = len(self.graphs) if encoding.compares_graphs else AT_ONCE
        chunks = torch.arange(len(self.graphs)).split(at_once)
        rows = []
        with shown(chunks, len(self.graphs), f"{type(encoding).__name__} codes") as todo:
            for which in todo:
                _x, graph, _members, _edges = self.graphs.take(which)
                code = encoding.code(graph)
                if isinstance(encoding, distances.PathEdges):
                    degree = self.graphs.edge_start.diff()[which]
                    pairs = self.graphs.sizes[which].square()
                    first = starts(degree)[run_of_each(pairs, len(code))]
                    code = torch.where(code < 0, code, code - first[:, None])
                rows.append(code)
        return narrow(torch.cat(rows))


def narrow(rows: Tensor) -> Tensor:
    """The same numbers in the narrowest type: six million pairs are no reason for 64 bits each."""
    if rows.is_floating_point() or not rows.numel():
        return rows
    least, most = int(rows.min()), int(rows.max())
    for kind in TYPES:
        bounds = torch.iinfo(kind)
        if bounds.min <= least and most <= bounds.max:
            return rows.to(kind)
    return rows


@contextmanager
def shown(chunks: Iterable[Tensor], graphs: int, title: str) -> Iterator[Iterable[Tensor]]:
    """The chunks, with a bar on the standard error of a terminal where there are many graphs."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # it belongs to training
        yield chunks
        return
    console = Console(stderr=True)
    quiet = graphs < SHOWN_FROM or not console.is_terminal
    with Progress(console=console, transient=True, disable=quiet) as bar:
        task: Any = bar.add_task(title, total=graphs)

        def counted() -> Iterator[Tensor]:
            for chunk in chunks:
                yield chunk
                bar.advance(task, len(chunk))

        yield counted()
