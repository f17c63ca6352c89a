"""Link prediction on the graph of any edge list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.graphs.edge_files import read_edges
from edgewise.data.graphs.links import Links, Pairs, pairs_of_one_kind
from edgewise.errors import ArgumentError


@dataclass(frozen=True)
class EdgeList(Links):
    """The undirected graph of any edge list.

    See :func:`edgewise.data.graphs.edge_files.read_edges`.

    Attributes:
        path: the file.
        header: whether its first line names the columns; ``None`` recognises it.
        names: ids are names, even where they look like numbers.

    """

    path: str = ""
    header: bool | None = None
    names: bool = False

    def read(self) -> Pairs:
        if not self.path:
            raise ArgumentError(
                "data.path", expected="a file", got="''", remedy="name a text file of edges"
            )
        found = read_edges(self.path, header=self.header, names=self.names)
        return pairs_of_one_kind(found, Path(self.path))
