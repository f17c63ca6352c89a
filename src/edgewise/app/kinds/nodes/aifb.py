"""AIFB: the research group of people in the knowledge graph of an institute.

Paper: Ristoski et al., A collection of benchmark datasets for systematic evaluations of machine
learning on the semantic web, 2016. The split of the AIFB+ version is a resampled one: 112 people to
train on, 28 for validation and 36 for the test.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.edges import edge_table
from edgewise.app.files.files import find_files
from edgewise.app.files.triples import read_triples, short_name
from edgewise.app.kinds.nodes.data import (
    NodeData,
    NodeGraph,
    graph_record,
    identity,
    typed_edges,
)
from edgewise.app.train.splits import Splits

ADDRESS = (
    "https://github.com/SZU-AdvTech-2022/172-End-to-End-Entity-Classification-on-Multimodal-"
    "Knowledge-Graphs/raw/HEAD/mrgcn-master/data/projects/multimodal_datasets/aifb"
)
GRAPH = "aifb+.nt.gz"
FILES = {name: f"aifb+_{name}_set.nt.gz" for name in ("train", "valid", "test")}
ANSWERS = ("employs", "affiliation")
"""Relations that name the group of a person, which are removed."""


@dataclass(frozen=True)
class Aifb(NodeData):
    """Research groups of 176 people, in a graph of 43 relations and the same reversed.

    Literals, such as years and titles, are nodes. Nodes have no features.

    Attributes:
        literals: whether literals are nodes of the graph.

    Example:
        >>> from edgewise.app.kinds.nodes import Aifb
        >>> Aifb().load().model_arguments["out_width"]  # doctest: +SKIP
        4
    """

    folders = ("AIFB",)
    section = "Knowledge graphs"

    literals: bool = True

    def load(self) -> Splits:
        names = [GRAPH, *FILES.values()]
        raw = find_files("AIFB", {name: f"{ADDRESS}/{name.replace('+', '%2B')}" for name in names})
        triples = [
            (source, short_name(relation), target)
            for source, relation, target in read_triples(raw / GRAPH)
            if self.literals or not target.startswith('"')
        ]
        table = edge_table([t for t in triples if t[1] not in ANSWERS], raw / GRAPH)
        groups = {
            split: {person: short_name(group) for person, _, group in read_triples(raw / file)}
            for split, file in FILES.items()
        }
        classes = sorted({group for people in groups.values() for group in people.values()})
        ids = list(table.ids)
        count = len(ids)
        node_type = torch.zeros(count, dtype=torch.long)
        edge_index, types = typed_edges(table, table.pairs, node_type, ["node"], directed=False)
        node_graph = NodeGraph(ids, identity(count), edge_index, types)
        y = torch.zeros(count, dtype=torch.long)
        nodes = {}
        for split, people in zip(("train", "val", "test"), groups.values(), strict=True):
            nodes[split] = torch.tensor([table.ids[person] for person in people])
            y[nodes[split]] = torch.tensor([classes.index(group) for group in people.values()])
        splits = self.node_splits(node_graph.x, node_graph.graph, y, nodes)
        return Splits(
            {"in_width": count, "out_width": len(classes), **node_graph.sizes()},
            splits["train"],
            splits["val"],
            splits["test"],
            batch_size=1,
            preprocessing=graph_record(node_graph, classes),
        )

    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:  # noqa: ARG002
        raise ArgumentError(
            "input",
            expected="addresses of nodes of AIFB",
            got=str(path),
            remedy="use `edgewise train nodes` on your own files to predict on new graphs",
        )
