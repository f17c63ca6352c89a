"""Link prediction on the ego-Facebook network."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.data.files import find_files
from edgewise.data.graphs.links import Links, Pairs, pairs_of_one_kind
from edgewise.data.tables.edges import read_edges

FILE = "facebook_combined.txt.gz"
ADDRESS = f"https://snap.stanford.edu/data/{FILE}"


@dataclass(frozen=True)
class EgoFacebook(Links):
    """Friendships of ten ego networks of Facebook: 4,039 nodes and 88,234 undirected edges.

    Paper: McAuley and Leskovec, Learning to discover social circles in ego networks, 2012.
    """

    def read(self) -> Pairs:
        path = find_files("ego_facebook", {FILE: ADDRESS}) / FILE
        return pairs_of_one_kind(read_edges(path), path)
