"""Least-recently-used cache, limited by memory, of the graphs that ``Pattern.bind`` returns."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

from torch import Tensor

from edgewise._utils.dispatch_modes import disable_modes

if TYPE_CHECKING:
    from edgewise.graphs.graph import Graph, Pattern

    _Key = tuple[Pattern, int, int]

MOST_BYTES = 64 << 20
MOST_GRAPHS = 64


@dataclass(eq=False)
class _Entry:
    graph: Graph
    held: int = 0


class BoundGraphs:
    """Least-recently-used cache of the graphs ``pattern._build(num_targets, num_sources)``."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_graphs: int = MOST_GRAPHS) -> None:
        self.most_bytes, self.most_graphs = most_bytes, most_graphs
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()  # Least recently used first.
        self._unmeasured: dict[_Key, _Entry] = {}  # Entries used since the last measurement.
        self._newest: _Entry | None = None
        self._measured = 0  # In bytes.
        # The lock is reentrant, because binding `a | b` also binds `a` and `b`.
        self._lock = RLock()

    def __call__(self, pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
        """Return the graph of a pattern for these numbers of nodes, from the cache if possible."""
        key = pattern, num_targets, num_sources
        entry = self._entries.get(key)
        if entry is None or entry is not self._newest:
            with self._lock:
                entry = self._entries.get(key) or self._add(key)
                self._entries.move_to_end(key)
                self._newest = self._unmeasured[key] = entry
        return entry.graph

    def cache_clear(self) -> None:
        """Remove all graphs from the cache; named as in ``functools.lru_cache``."""
        with self._lock:
            self._entries.clear()
            self._unmeasured.clear()
            self._newest, self._measured = None, 0

    def held(self) -> int:
        """Return the size of all cached tensors in bytes."""
        with self._lock:
            return held_bytes([entry.graph for entry in self._entries.values()])

    def _add(self, key: _Key) -> _Entry:
        pattern, num_targets, num_sources = key
        with disable_modes():
            graph = pattern._build(num_targets, num_sources)
        graph.name = graph.name or repr(pattern)
        self._make_room()
        entry = self._entries[key] = _Entry(graph)
        return entry

    def _make_room(self) -> None:
        # A graph grows when it is used, because derived tensors are cached on it.
        for entry in self._unmeasured.values():
            self._measured -= entry.held
            entry.held = held_bytes(entry.graph)
            self._measured += entry.held
        self._unmeasured.clear()
        while self._entries and (
            self._measured > self.most_bytes or len(self._entries) >= self.most_graphs
        ):
            self._measured -= self._entries.popitem(last=False)[1].held


bound_graphs = BoundGraphs()
"""The cache that ``Pattern.bind`` uses."""


def held_bytes(root: Any) -> int:
    """Return the bytes of all storages in an object and its attributes, lists and dicts."""
    storages: dict[int, int] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        member = stack.pop()
        if isinstance(member, Tensor):
            if not member.is_meta:
                storage = member.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
            continue
        if id(member) in seen or isinstance(member, (int, float, str, type)):
            continue
        seen.add(id(member))
        if isinstance(member, dict):
            stack.extend(member.values())
        elif isinstance(member, (list, tuple)):
            stack.extend(member)
        elif hasattr(member, "__dict__"):
            stack.extend(vars(member).values())
    return sum(storages.values())
