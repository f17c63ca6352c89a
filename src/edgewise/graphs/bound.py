"""The graphs that patterns were bound to, kept as long as they hold little memory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

from torch import Tensor

from edgewise.modes import outside_modes

if TYPE_CHECKING:
    from edgewise.graphs.graph import Graph, Pattern

MOST_BYTES = 64 << 20
MOST_GRAPHS = 64


@dataclass(eq=False)
class _Entry:
    graph: Graph
    used: int
    held: int = 0


class BoundGraphs:
    """Calls ``pattern._build`` once for each pattern and sizes, and keeps those used last.

    A graph grows while it is used, by the list of its edges and the layouts of engines. Whenever
    another is added, what was used since the last one is measured, and those used longest ago go
    until the rest holds at most ``most_bytes``. The one in use is always kept, however large.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_graphs: int = MOST_GRAPHS) -> None:
        self.most_bytes, self.most_graphs = most_bytes, most_graphs
        self._entries: dict[tuple[Pattern, int, int], _Entry] = {}
        self._clock = itertools.count()
        self._measured = -1
        self._lock = RLock()  # binding a composition binds its operands

    def __call__(self, pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
        """The graph of the pattern for these sizes."""
        key = pattern, num_targets, num_sources
        entry = self._entries.get(key)
        if entry is None:
            entry = self._add(key)
        entry.used = next(self._clock)
        return entry.graph

    def cache_clear(self) -> None:
        """Forget all, as ``functools.lru_cache`` does."""
        with self._lock:
            self._entries.clear()

    def held(self) -> int:
        """Bytes of all tensors that are kept here."""
        with self._lock:
            return held_bytes([entry.graph for entry in self._entries.values()])

    def _add(self, key: tuple[Pattern, int, int]) -> _Entry:
        pattern, num_targets, num_sources = key
        with self._lock:
            with outside_modes():
                graph = pattern._build(num_targets, num_sources)
            graph.name = graph.name or repr(pattern)
            self._make_room()
            return self._entries.setdefault(key, _Entry(graph, next(self._clock)))

    def _make_room(self) -> None:
        for entry in self._entries.values():
            if entry.used > self._measured:
                entry.held = held_bytes(entry.graph)
        self._measured = next(self._clock)
        total = sum([entry.held for entry in self._entries.values()])
        while self._entries and (total > self.most_bytes or len(self._entries) >= self.most_graphs):
            oldest, entry = min(self._entries.items(), key=lambda item: item[1].used)
            total -= entry.held
            del self._entries[oldest]


def held_bytes(thing: Any) -> int:
    """Bytes of the tensors that are found in attributes and containers; shared memory once."""
    storages: dict[int, int] = {}
    seen: set[int] = set()
    todo = [thing]
    while todo:
        found = todo.pop()
        if isinstance(found, Tensor):
            if not found.is_meta:
                storage = found.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
            continue
        if id(found) in seen or isinstance(found, (int, float, str, type)):
            continue
        seen.add(id(found))
        if isinstance(found, dict):
            todo.extend(found.values())
        elif isinstance(found, (list, tuple)):
            todo.extend(found)
        elif hasattr(found, "__dict__"):
            todo.extend(vars(found).values())
    return sum(storages.values())
