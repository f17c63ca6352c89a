"""Precomputed positional encodings of the graphs of a data set, cached on disk. The name of the
file is a hash of the edges, the encoding, its settings and its source code.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.ragged import boundaries, ranges, segment_index, starts
from edgewise._utils.writing import write_file
from edgewise.app.files.files import cache_root
from edgewise.app.train.packed import PackedGraphs
from edgewise.encodings import distances, laplacian, members
from edgewise.graphs import Graph

AT_ONCE = 500  # Number of graphs per chunk.
SHOWN_FROM = 2000  # Minimum number of graphs for which a progress bar is shown.
TYPES = (torch.uint8, torch.int16, torch.int32)


class Encoding(Protocol):
    """Interface of the classes in :data:`edgewise.encodings.OF_NODES` and ``OF_PAIRS``."""

    of_pairs: bool
    compares_graphs: bool

    @property
    def settings(self) -> tuple[int, ...]:
        """Settings that change the encodings; they are part of the name of the cache file."""

    def code(self, graph: Graph) -> Tensor:
        """Return the encodings of nodes, ``[N, ...]``, or of pairs of nodes, ``[P, ...]``."""


@dataclass(frozen=True)
class CachedRows:
    """Encodings of nodes or of pairs of nodes, which ``start`` ``[G + 1]`` splits by graph; if
    ``of_edges``, edge indices in each graph, or -1 for no edge.
    """

    rows: Tensor
    start: Tensor
    of_edges: bool


class PrecomputedEncodings:
    """Precomputed encodings of all graphs, by the keyword argument of the model."""

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs
        self.kept: dict[str, CachedRows] = {}

    def prepare(self, encodings: Mapping[str, Encoding], *, shared: bool = True) -> None:
        """Load the encodings from the cache, or compute them; later batches include them."""
        self.graphs = replace(self.graphs, shared=shared)
        sizes = self.graphs.sizes
        for keyword, encoding in encodings.items():
            counts = sizes.square() if encoding.of_pairs else sizes
            start = boundaries(counts)
            of_edges = isinstance(encoding, distances.PathEdges)
            self.kept[keyword] = CachedRows(self._rows(encoding), start, of_edges)

    def take(self, which: Tensor) -> dict[str, Tensor]:
        """Return the encodings of a batch of graphs, in the order of :meth:`PackedGraphs.take`."""
        distinct = which.unique() if self.graphs.shared else which
        return {keyword: self._cut(cached, distinct) for keyword, cached in self.kept.items()}

    def _cut(self, cached: CachedRows, distinct: Tensor) -> Tensor:
        count = cached.start.diff()[distinct]
        rows = cached.rows[ranges(cached.start[distinct], count)]
        if not cached.of_edges:
            return rows if rows.is_floating_point() else rows.long()
        first = starts(self.graphs.edge_start.diff()[distinct])[segment_index(count, len(rows))]
        rows = rows.long()
        return torch.where(rows < 0, rows, rows + first[:, None])

    def _rows(self, encoding: Encoding) -> Tensor:
        path = cache_root() / "codes" / f"{type(encoding).__name__}-{self._key(encoding)}.npy"
        try:
            return torch.from_numpy(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError):  # The file does not exist or is damaged.
            rows = self._computed(encoding)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, lambda file: np.save(file, rows.numpy(), allow_pickle=False))
        return rows

    def _key(self, encoding: Encoding) -> str:
        graphs, digest = self.graphs, hashlib.sha256()
        for tensor in (graphs.edge_index, graphs.node_start, graphs.edge_start):
            digest.update(tensor.contiguous().numpy().tobytes())
        digest.update(repr(encoding.settings).encode())
        # An encoding that is defined in the module of a model may use functions of laplacian.py.
        encoding_module = inspect.getmodule(type(encoding))
        for module in (encoding_module, laplacian, members, sys.modules[__name__]):
            assert module is not None
            digest.update(Path(str(module.__file__)).read_bytes())
        return digest.hexdigest()[:32]

    def _computed(self, encoding: Encoding) -> Tensor:
        at_once = len(self.graphs) if encoding.compares_graphs else AT_ONCE
        chunks = torch.arange(len(self.graphs)).split(at_once)
        rows = []
        for which in shown(chunks, len(self.graphs), f"{type(encoding).__name__} codes"):
            _x, graph, _members, _edges = self.graphs.take(which)
            code = encoding.code(graph)
            if isinstance(encoding, distances.PathEdges):
                degree = self.graphs.edge_start.diff()[which]
                pairs = self.graphs.sizes[which].square()
                first = starts(degree)[segment_index(pairs, len(code))]
                code = torch.where(code < 0, code, code - first[:, None])
            rows.append(code)
        return narrow(torch.cat(rows))


def narrow(rows: Tensor) -> Tensor:
    """Convert integers to the smallest dtype that holds them, to save memory."""
    if rows.is_floating_point() or not rows.numel():
        return rows
    least, most = int(rows.min()), int(rows.max())
    for kind in TYPES:
        bounds = torch.iinfo(kind)
        if bounds.min <= least and most <= bounds.max:
            return rows.to(kind)
    return rows


def shown(chunks: Sequence[Tensor], graphs: int, title: str) -> Iterable[Tensor]:
    """Return the chunks, with a progress bar on the terminal if there are many graphs."""
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:  # rich belongs to the extra train.
        return chunks
    console = Console(stderr=True)
    quiet = graphs < SHOWN_FROM or not console.is_terminal
    return track(chunks, title, console=console, transient=True, disable=quiet)
