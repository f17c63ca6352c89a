"""Link prediction on the user's own edge list."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.arguments import check_named
from edgewise.data.graphs.links import Links, Pairs, pairs_of_one_kind
from edgewise.data.tables.edges import read_edges
from edgewise.data.tables.frames import Source, open_source, take_frames


@dataclass(frozen=True)
class EdgeList(Links):
    """Undirected graph of an edge list, or of two columns of a table.

    See :func:`edgewise.data.tables.edges.read_edges`.

    Attributes:
        path: the file, or a data frame.
        source, destination: column names, or column numbers from 1 if there is no header; "" finds
            the columns by usual names, or takes the only two columns.
        header: whether the first line names the columns; ``None`` detects it.
        names: whether ids are names, even if they look like numbers.
        val, test, split_seed, negatives, batch_size: see :class:`Links`.
    """

    path: Source = ""
    source: str = ""
    destination: str = ""
    header: bool | None = None
    names: bool = False

    def __post_init__(self) -> None:
        take_frames(self, "path")
        super().__post_init__()

    def read(self) -> Pairs:
        check_named("data.path", self.path, "a file of edges")
        found = read_edges(
            self.path,
            header=self.header,
            names=self.names,
            source=self.source,
            destination=self.destination,
        )
        return pairs_of_one_kind(found, open_source(self.path))
