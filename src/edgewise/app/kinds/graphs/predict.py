"""Predictor for graphs: classes and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.reading import read_json
from edgewise.app.kinds.graphs.data import (
    FiledGraph,
    GraphData,
    GraphInput,
    graph_of,
    graph_of_pyg,
    graphs_in,
    required_fields,
)
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.tasks.classification import Classification


class GraphClasses(Predictor):
    """Most probable classes of a graph, given as the fields of :func:`graph_of`, as JSON or as a
    ``Data`` object of PyTorch Geometric.
    """

    data, task = GraphData, Classification
    input = 'a graph, such as {"edges": [[0, 1], [1, 2]]} with the labels of its nodes'

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read the graphs of a file, one per row, or of a folder in the format of TU Dortmund."""
        if not path.is_dir():
            yield from super().from_file(path)
            return
        for graph in graphs_in(path, self.preprocessing.values):
            yield None, {"input": graph.name}, graph

    def from_python(self, inputs: Any) -> Any:
        return [inputs] if hasattr(inputs, "edge_index") else super().from_python(inputs)

    def columns(self) -> tuple[str, ...]:
        return required_fields(self.preprocessing.values)

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return row

    def prepare(self, value: Any) -> GraphInput:
        if isinstance(value, FiledGraph):
            return value.as_input(self.preprocessing.values)
        if hasattr(value, "edge_index"):
            width = self.preprocessing.model_arguments["in_width"]
            return graph_of_pyg(value, self.preprocessing.values, width)
        if isinstance(value, str):
            value = _object(value)
        if not isinstance(value, Mapping):
            raise _no_graph(value)
        missing = [name for name in self.columns() if name not in value]
        if missing:
            raise ArgumentError(
                "input",
                expected=f"a graph with {', '.join(self.columns())}",
                got=f"a graph without {', '.join(missing)}",
                remedy="add the keys that the training graphs have",
            )
        return graph_of(value, self.preprocessing.values)

    def answer(self, examples: list[GraphInput], *, top: int = 1) -> list[Answer]:
        edges = [graph.edge_index for graph in examples]
        no_features = [torch.empty(index.shape[1], 0) for index in edges]
        packed = PackedGraphs.of([graph.x for graph in examples], edges, no_features)
        x, graph, members, _ = packed.take(torch.arange(len(packed)))
        scores = self.model(x, graph, batch=members)
        return top_labels(scores.softmax(-1), self.preprocessing.values["labels"], top)

    def show(self, value: Any) -> str:
        graph = _object(value) if isinstance(value, str) else value
        name = graph.get("name") if isinstance(graph, Mapping) else getattr(graph, "name", None)
        return str(name or "graph")


def _object(text: str) -> Mapping[str, Any]:
    try:
        graph = read_json(text)
    except ValueError:
        graph = None
    if not isinstance(graph, dict):
        raise _no_graph(text)
    return graph


def _no_graph(value: Any) -> ArgumentError:
    return ArgumentError(
        "input",
        expected="a graph as a dict or as a JSON object",
        got=repr(value)[:60],
        remedy='give for example {"edges": [[0, 1], [1, 2]]}, or files with --input',
    )
