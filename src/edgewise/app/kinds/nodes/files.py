"""Your own graph: an edge list, and features and classes or numbers of the nodes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_given, check_shares, check_splits
from edgewise._utils.errors import ArgumentError, MissingDataError, counted, reading, unknown_name
from edgewise._utils.limits import check_memory
from edgewise.app.files.edges import EdgeTable, read_edges
from edgewise.app.files.files import naming, unreadable
from edgewise.app.files.frames import FRAME, FrameSource, Source, open_source, take_frames
from edgewise.app.files.labels import distinct_labels, id_meaning
from edgewise.app.files.read_table import read_table
from edgewise.app.files.reading import log
from edgewise.app.files.split_column import NAMES, split_names
from edgewise.app.files.table import Table, as_number
from edgewise.app.files.target_columns import (
    MANY,
    TargetColumns,
    TaskType,
    missing_cells,
    note_target,
    warn_misread,
)
from edgewise.app.files.targets import class_counts
from edgewise.app.kinds.nodes.data import (
    NodeData,
    NodeGraph,
    csr,
    graph_record,
    identity,
    typed_edges,
)
from edgewise.app.train.edge_splits import both_ways, distinct
from edgewise.app.train.folds import fill_splits
from edgewise.app.train.splits import Splits, TargetScale
from edgewise.app.train.standardisation import Standardisation
from edgewise.graphs.typed import REVERSED

FeatureScaling = Literal["auto", "columns", "rows", "none"]
ID = ("id", "node", "node_id", "nodeid", "name", "key")
LABEL = ("label", "class", "y", "target", "topic", "category")
SPARSE = 0.9  # Fraction of zeros above which a sparse matrix product is faster.
MOST = 0.5  # Fraction of zeros above which integers are assumed to be word counts.
PER_NODE = 200  # Memory of an id and its text in bytes.
ON_DISK = "save each array as a file .npy in a folder, and use the recipe nodes-on-disk"
OTHER = "other"  # Type of nodes without a type in the table.
MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class Nodes:
    """Nodes of a file, before scaling and splitting. Features are NaN for a node without features,
    labels and types "" if unknown, splits "" for none. ``pairs`` has the edges ``[2, E]``.
    """

    path: Path | FrameSource
    ids: list[str]
    x: Tensor
    names: list[str]
    labels: list[str] | None
    splits: list[str] | None
    id_column: str
    label_column: str = "y"
    pairs: Tensor = field(default_factory=lambda: torch.empty(2, 0, dtype=torch.long))
    edges: EdgeTable | None = None
    """Table with the relations of the edges ``pairs``, if they have any."""
    types: list[str] | None = None


@dataclass(frozen=True)
class NodeFiles(NodeData):
    """Classes or numbers of nodes on the user's own graph: a table of nodes and a table of edges.

    Labels, edges and features of a node may be missing. A node without features (an empty row, or
    an id that only the edge list has) gets the mean of every feature. If there are no features at
    all, the model learns an embedding of each node. An ``.npz`` file has ``edge_index`` ``[2, E]``,
    ``x`` ``[N, F]``, ``y`` ``[N]`` (-1 for an unknown class, NaN for an unknown number) and
    optionally ``train_mask``, ``val_mask``, ``test_mask``, ``ids`` and ``classes``.

    Attributes:
        nodes: table or data frame with one row per node, or an ``.npz`` file with nodes and edges.
        edges: table or data frame with two columns of ids, or an edge list.
        id: id column of ``nodes``; "" finds it by its usual names, or takes the first column.
        target: column of the classes or numbers, which may have blank cells; "" finds it by its
            usual names, or takes the only text column with repeated values. The names of classes
            are the texts of the cells.
        task_type: ``regression`` predicts numbers, ``classification`` classes. ``auto`` predicts
            numbers if all labels are numbers, and if some are not integers or the number of
            distinct labels is above both 20 and half the number of labels.
        split: column with ``train``, ``val`` or ``test``; "" finds it by its usual names. Without
            such a column, the labelled nodes are split at random; classes are stratified.
        features: feature columns; by default all other numeric columns.
        source, destination: columns of ``edges``: names, or numbers from 1 without a header; ""
            finds them by their usual names, or takes the only two columns.
        header: whether the first line of ``edges`` names its columns; ``None`` detects it.
        relation: column of ``edges`` with the relation of each edge, for models such as rgcn; a
            file of N-Triples (``.nt``, ``.nt.gz``) always has relations.
        node_type: column of ``nodes`` with the type of each node, for models such as hgt.
        directed: whether edges are directed, so that only the destination attends to the source.
            Otherwise each relation also gets a reversed relation ``rev_NAME``.
        scale: ``columns`` standardises each feature; ``rows`` divides the features of each node by
            their sum, for word counts; ``none`` keeps them. ``auto`` chooses ``rows`` if the
            features look like word counts (non-negative integers, most of them 0), else
            ``columns``.
        val, test: fractions of the labelled nodes, for a split that the file does not have.
        split_seed: random seed of the split.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.nodes import NodeFiles
        >>> papers = pd.DataFrame({"id": range(30), "year": range(30), "label": ["a", "b"] * 15})
        >>> links = pd.DataFrame({"source": range(29), "target": range(1, 30)})
        >>> splits = NodeFiles(nodes=papers, edges=links).load()
        >>> splits.model_arguments
        {'in_width': 1, 'out_width': 2}
    """

    nodes: Source = ""
    edges: Source = ""
    id: str = ""
    target: str = ""
    task_type: TaskType = "auto"
    split: str = ""
    features: tuple[str, ...] = ()
    source: str = ""
    destination: str = ""
    relation: str = ""
    node_type: str = ""
    header: bool | None = None
    directed: bool = False
    scale: FeatureScaling = "auto"
    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        take_frames(self, "nodes", "edges")
        check_choice("data.scale", self.scale, get_args(FeatureScaling))
        check_choice("data.task_type", self.task_type, get_args(TaskType))
        shares = {"data.val": self.val, "data.test": self.test}
        check_shares(shares, "choose for example 0.1 and 0.2")

    def load(self) -> Splits:
        what = "a table of nodes, or an .npz file"
        path = open_source(check_given("data.nodes", self.nodes, what), "data.nodes")
        nodes = self._read(path, open_source(self.edges, "data.edges") if self.edges else None)
        with naming(path):
            return self._splits(nodes)

    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:
        if not preprocessing["features"]:
            raise ArgumentError(
                "input",
                expected="ids of training nodes, because a model trained without features cannot "
                "classify other nodes",
                got=str(path),
                remedy="give ids of the training graph, or train with features",
            )
        prediction_data = replace(
            self, features=tuple(preprocessing["features"]), target="", split=""
        )
        if path.suffix == ".npz":
            new_nodes = self._read_npz(path, labelled=False)
        else:
            files = {"nodes": self.nodes, "edges": self.edges}
            names = [
                f"{kind}.csv" if file.startswith(FRAME) else Path(file).name
                for kind, file in files.items()
            ]
            new_nodes = prediction_data._read(path / names[0], path / names[1], labelled=False)
        if new_nodes.x.shape[1] != len(preprocessing["features"]):
            raise unreadable(
                path,
                expected=f"{counted(len(preprocessing['features']), 'feature')}, as in training",
                got=counted(new_nodes.x.shape[1], "feature"),
                remedy="give the features that the model was trained on",
            )
        standard = Standardisation(preprocessing["mean"], preprocessing["std"])
        x = scaled(new_nodes.x, preprocessing["scale"], standard)
        return self._node_graph(new_nodes, x, preprocessing)

    def _read(
        self, nodes: Path | FrameSource, edges: Path | FrameSource | None, *, labelled: bool = True
    ) -> Nodes:
        if isinstance(nodes, Path) and nodes.suffix == ".npz":
            return self._read_npz(nodes)
        what = "a table of edges in addition to the table of nodes"
        if edges is None:
            check_given("data.edges", "", what)
        assert edges is not None
        table = read_table(nodes, argument="data.nodes")
        table_nodes = self._of_table(table, labelled)
        edge_table = read_edges(
            edges,
            header=self.header,
            names=True,
            source=self.source,
            destination=self.destination,
            relation=self.relation,
        )
        if not set(edge_table.ids) & set(table_nodes.ids):
            raise ArgumentError(
                "data.id",
                expected=f"ids of {edges.name}, such as {next(iter(edge_table.ids))!r}, in "
                f"{nodes.name}",
                got=f"other ids, such as {table_nodes.ids[0]!r}",
                remedy=f"set --data.id to the column of {nodes.name} with the ids of {edges.name}",
            )
        nodes_with_edges = _with_edges(table_nodes, list(edge_table.ids), edge_table.pairs)
        if edge_table.edge_type is None:
            return nodes_with_edges
        return replace(nodes_with_edges, edges=edge_table)

    def _read_npz(self, path: Path, *, labelled: bool = True) -> Nodes:
        """Read a graph from the arrays of an ``.npz`` file."""
        arrays = _npz_arrays(path)
        for name in ("edge_index", "x", *(("y",) if labelled else ())):
            if name not in arrays:
                got = f"only the arrays {', '.join(arrays)}" if arrays else "no arrays"
                remedy = f"add the array {name!r} to the file"
                raise unreadable(path, expected=f"an array {name!r}", got=got, remedy=remedy)
        _check_shapes(path, arrays)
        # An array [N, 0] takes no space, whatever N is.
        count = len(arrays["x"])
        check_memory(str(path), PER_NODE * count, f"{count:,} nodes", ON_DISK)
        is_double = arrays["x"].dtype == np.float64
        x = torch.tensor(arrays["x"], dtype=torch.double if is_double else torch.float32)
        labels = None
        if labelled:
            labels = _npz_labels(path, arrays, numbers=self.task_type == "regression")
        ids = _npz_texts(path, {"ids": np.arange(len(x)), **arrays}, "ids")
        pairs = torch.tensor(arrays["edge_index"], dtype=torch.long)
        names = [f"x{i}" for i in range(x.shape[1])]
        return Nodes(path, ids, x, names, labels, _npz_splits(path, arrays), "id", pairs=pairs)

    def _of_table(self, table: Table, labelled: bool) -> Nodes:
        columns = list(table.columns)
        usual_ids = _usual(columns, ID)
        id_column = table.choose(
            "data.id", self.id, usual_ids[:1] or columns[:1], "the column of ids"
        )
        ids = table.texts("data.id", id_column)
        _check_ids(table, ids, id_column)
        split = self.split or next(iter(_usual(columns, NAMES)), "")
        types = table.texts("data.node_type", self.node_type) if self.node_type else None
        taken = {id_column, split, self.node_type, *self.features}
        labels, target = None, ""
        if labelled:
            target = self._target_column(table, taken)
            missing = missing_cells(table, target, self.task_type)
            texts = zip(table.columns[target], missing, strict=True)
            labels = ["" if is_missing else text for text, is_missing in texts]
            if self._are_numbers(labels, table.delimiter):
                labels = _decimals(table, target)
            elif self.task_type == "auto":
                warn_misread(table, target, sorted({*labels} - {""}), "data.target")
            taken.add(target)
        else:
            _check_same_features(table, self.features)
            taken = set(columns) - set(self.features)
        splits = None
        if split and labelled:
            splits = split_names(table, "data.split", split, allow_blank=True)
        names = list(self.features) or [name for name in columns if name not in taken]
        x = _features(table, names)
        columns_of_nodes = id_column, target or "y"
        return Nodes(table.path, ids, x, names, labels, splits, *columns_of_nodes, types=types)

    def _target_column(self, table: Table, taken: Collection[str]) -> str:
        usual = [name for name in _usual(list(table.columns), LABEL) if name not in taken]
        candidates = usual or _repeating_columns(table, taken)
        what = "the column of the classes or numbers"
        target = table.choose("data.target", self.target, candidates, what, taken)
        if not self.target:
            reason = "because of its name" if usual else "the only text column with repeated values"
            note_target(target, reason)
        return target

    def _splits(self, nodes: Nodes) -> Splits:
        assert nodes.labels is not None
        split_names = nodes.splits or ["train"] * len(nodes.ids)
        split_names = [
            split if label else "" for split, label in zip(split_names, nodes.labels, strict=True)
        ]
        numeric = self._are_numbers(nodes.labels)
        labels = [] if numeric else _classes(nodes)
        number = {label: index for index, label in enumerate(labels)}
        keys = [""] * len(split_names) if numeric else nodes.labels
        indices = fill_splits(split_names, keys, val=self.val, test=self.test, seed=self.split_seed)
        check_splits(**indices)
        if numeric:
            columns = TargetColumns(
                Table.of(nodes.path.name, {nodes.label_column: nodes.labels}),
                [nodes.label_column],
                "regression",
                argument="data.target",
            )
            y, targets = columns.values, columns.describe(columns.values[indices["train"]])
        else:
            y, targets = torch.tensor([number.get(label, 0) for label in nodes.labels]), ()
        filled = ~nodes.x.isnan().all(1) if nodes.names else torch.zeros(0, dtype=torch.bool)
        zero = torch.zeros(len(nodes.names), dtype=torch.double)
        standard = Standardisation(zero, zero + 1)
        scale = self.scale
        if scale == "auto":
            scale = "rows" if filled.any() and are_counts(nodes.x[filled]) else "columns"
        if scale == "columns" and filled.any():
            standard = Standardisation.of(nodes.x[filled])
        x = scaled(nodes.x, scale, standard) if nodes.names else identity(len(nodes.ids))
        node_graph = self._node_graph(nodes, x)
        if self.unlabelled and numeric:
            raise ArgumentError(
                "data.unlabelled",
                expected="classes to predict, if nodes without labels are used in training",
                got="numbers to predict",
                remedy="use the recipe nodes, or --data.task_type classification",
            )
        splits = self.node_splits(x, node_graph.graph, y, indices, "data.nodes")
        preprocessing = graph_record(node_graph, labels) | {
            "features": nodes.names,
            "column": nodes.id_column,
            "scale": scale,
            "mean": standard.mean,
            "std": standard.std,
        }
        sizes = {"in_width": x.shape[1], "out_width": len(labels) or 1, **node_graph.sizes()}
        train = replace(splits["train"], target_scale=TargetScale.of(targets))
        counts = class_counts(y[indices["train"]], len(labels)) if labels else ()
        return Splits(
            sizes,
            train,
            splits["val"],
            splits["test"],
            batch_size=1,
            preprocessing=preprocessing,
            targets=targets,
            class_counts=counts,
        )

    def _are_numbers(self, labels: Sequence[str], delimiter: str = ",") -> bool:
        """Return whether labels are numbers to predict, not classes; "" is a missing label."""
        if self.task_type != "auto":
            return self.task_type == "regression"
        present = [label for label in labels if label]
        numbers = {as_number(label, delimiter) for label in present}
        if any(math.isnan(value) for value in numbers):
            return False
        has_many_values = len(numbers) > max(MANY, len(present) / 2)
        return has_many_values or not all(value.is_integer() for value in numbers)

    def _node_graph(
        self, nodes: Nodes, x: Tensor, preprocessing: Mapping[str, Any] | None = None
    ) -> NodeGraph:
        """Return the graph; with the types of a training graph, numbered as in its record."""
        if nodes.edges is None:
            return NodeGraph(nodes.ids, x, self._edge_index(nodes))
        texts = [text or OTHER for text in nodes.types or [OTHER] * len(nodes.ids)]
        node_types = sorted(set(texts))
        table = nodes.edges
        if preprocessing is not None:
            node_types = list(map(str, preprocessing["node_types"]))
            relations = map(str, preprocessing["relations"])
            table = _renumbered(table, [n for n in relations if not n.startswith(REVERSED)])
            for name in sorted(set(texts)):
                if name not in node_types:
                    raise unknown_name("node type", name, node_types)
        number = {name: index for index, name in enumerate(node_types)}
        node_type = torch.tensor([number[name] for name in texts])
        edge_index, types = typed_edges(table, nodes.pairs, node_type, node_types, self.directed)
        return NodeGraph(nodes.ids, x, edge_index, types)

    def _edge_index(self, nodes: Nodes) -> Tensor:
        """Return the distinct edges without self-loops, sorted by target."""
        pairs = nodes.pairs[:, nodes.pairs[0] != nodes.pairs[1]]
        pairs = pairs if self.directed else both_ways(pairs)
        return distinct(pairs.flip(0)).flip(0)


def _renumbered(table: EdgeTable, relations: list[str]) -> EdgeTable:
    """Return the table with its relations numbered as in the training graph."""
    for name in table.relations:
        if name not in relations:
            raise unknown_name("relation", name, relations)
    number = torch.tensor([relations.index(name) for name in table.relations])
    assert table.edge_type is not None
    return table._replace(edge_type=number[table.edge_type], relations=tuple(relations))


def are_counts(x: Tensor) -> bool:
    """Return whether features ``[N, F]`` look like word counts."""
    return bool((x >= 0).all() and (x == x.round()).all() and (x == 0).float().mean() > MOST)


def scaled(x: Tensor, scale: FeatureScaling, standard: Standardisation) -> Tensor:
    """Return scaled features in float32, 0 for nodes without features; CSR if most are 0.
    ``"rows"`` divides each row by its sum; other scales standardise each feature.
    """
    if scale == "rows":
        # 0 / 0 is NaN, which becomes 0.
        x = (x / x.abs().sum(1, keepdim=True)).float().nan_to_num(0.0)
    else:
        x = standard.scaled(x).nan_to_num(0.0)
    return csr(x) if (x == 0).float().mean() > SPARSE else x


def _decimals(table: Table, column: str) -> list[str]:
    """Return numbers as text with a decimal point; "" for a missing one."""
    values = TargetColumns(table, [column], "regression", argument="data.target").values[:, 0]
    return ["" if math.isnan(value) else repr(value) for value in values.tolist()]


def _usual(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    lowered = {column.lower(): column for column in columns}
    return [lowered[name] for name in names if name in lowered]


def _repeating_columns(table: Table, taken: Collection[str]) -> list[str]:
    """Return the text columns, not taken, in which most values are repeated."""
    used = {*taken, *table.numeric}
    free = [name for name in table.columns if name not in used]
    return [name for name in free if len(set(table.columns[name])) <= len(table) / 2]


def _check_ids(table: Table, ids: list[str], column: str) -> None:
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if not name.strip() or name in seen:
            first_row = f" and {table.line(seen[name])}" if name in seen else ""
            raise ArgumentError(
                "data.id",
                expected=f"a different id for each node in column {column!r}",
                got=f"{name!r} in row {table.line(row)}{first_row} of {table.path.name}",
                remedy="correct this row, or name the id column with --data.id",
            )
        seen[name] = row


def _check_same_features(table: Table, names: Sequence[str]) -> None:
    """Raise ArgumentError if a table lacks one of ``names``, the features of the training graph."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise unreadable(
            table.path,
            expected=f"a column {missing[0]!r}, a feature of the training graph",
            got=f"the columns {', '.join(table.columns)}",
            remedy="name the feature columns as in the training table",
        )


def _features(table: Table, names: list[str]) -> Tensor:
    """Return the columns ``names`` as features ``[N, F]``; a row of only blank cells gets NaN."""
    if not names:
        return torch.empty(len(table), 0)
    values = np.stack([table.parsed("data.features", name).to_numpy() for name in names], axis=1)
    cells = table.frame[names]
    is_blank = cells.apply(lambda column: column.str.strip() == "").all(axis=1).to_numpy()
    wrong = np.isnan(values) & ~is_blank[:, None]
    for i, name in enumerate(names):
        for row in wrong[:, i].nonzero()[0][:1].tolist():
            raise ArgumentError(
                "data.features",
                expected=f"numbers in column {name!r}, or a node with all features blank",
                got=table.cell(name, row),
                remedy="correct this row, or name the feature columns, such as "
                "--data.features age,income",
            )
    return torch.tensor(values, dtype=torch.double)


def _with_edges(nodes: Nodes, ids: list[str], pairs: Tensor) -> Nodes:
    """Add edges, given by ids and positions ``[2, E]`` in them; an unknown id is a new node."""
    number = {name: i for i, name in enumerate(nodes.ids)}
    new = [name for name in ids if name not in number]
    _check_spelling(nodes, new)
    number |= {name: len(nodes.ids) + i for i, name in enumerate(new)}
    no_features = torch.full((len(new), nodes.x.shape[1]), torch.nan)
    no_texts = [""] * len(new)
    return replace(
        nodes,
        ids=nodes.ids + new,
        x=torch.cat([nodes.x, no_features]),
        labels=None if nodes.labels is None else nodes.labels + no_texts,
        splits=None if nodes.splits is None else nodes.splits + no_texts,
        types=None if nodes.types is None else nodes.types + no_texts,
        pairs=torch.tensor([number[name] for name in ids])[pairs],
    )


def _check_spelling(nodes: Nodes, new_ids: Sequence[str]) -> None:
    """Log the ids that only the edges have; ArgumentError for another spelling of a known id."""
    spelling = {id_meaning(name): name for name in nodes.ids} if new_ids else {}
    for name in new_ids:
        if id_meaning(name) in spelling:
            raise ArgumentError(
                "data.id",
                expected=f"the same spelling of an id in the edges and in {nodes.path.name}",
                got=f"{name!r} in the edges, and {spelling[id_meaning(name)]!r} in column "
                f"{nodes.id_column!r}",
                remedy="write this id in the same way in both tables",
            )
    if new_ids:
        features = ", and get the mean of each feature" if nodes.names else ""
        log.info(
            f"data.edges: {counted(len(new_ids), 'id')} of the edges, such as {new_ids[0]!r}, are "
            f"not in {nodes.path.name}: these nodes have no label{features}"
        )


def _classes(nodes: Nodes) -> list[str]:
    """Return the sorted class names."""
    labels = [label for label in nodes.labels or () if label]
    source = f"column {nodes.label_column!r} of {nodes.path.name}"
    names = distinct_labels(labels, "data.target", source)
    if len(names) < 2:
        raise ArgumentError(
            "data.target",
            expected="labels of at least two classes",
            got=", ".join(names) or "none",
            remedy="name another column with --data.target, or add nodes of other classes",
        )
    return names


def _npz_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of an ``.npz`` file; nothing is unpickled."""
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: give the path of an .npz file.")
    expected = "an .npz file of plain arrays"
    try:  # NumPy takes any other file for a pickle, and suggests allow_pickle in its error.
        with zipfile.ZipFile(path) as archive:
            size = sum(array.file_size for array in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise unreadable(
            path,
            expected=expected,
            got="a file of another format, or a damaged file",
            remedy="copy the file again, or save the arrays with numpy.savez",
        ) from error
    copies = 2  # One copy in NumPy, one in PyTorch.
    check_memory(str(path), copies * size, path.name, ON_DISK)
    remedy = "save plain arrays with numpy.savez, without Python objects"
    with (
        reading(path, expected=expected, remedy=remedy),
        np.load(path, allow_pickle=False) as arrays,
    ):
        return {name: arrays[name] for name in arrays.files}


def _npz_splits(path: Path, arrays: dict[str, Any]) -> list[str] | None:
    """Return the split of each node, "" for none; ``None`` without masks."""
    masks = {name: arrays[name].astype(bool) for name in MASKS if name in arrays}
    if not masks:
        return None
    both = np.flatnonzero(sum(mask.astype(int) for mask in masks.values()) > 1)
    if len(both):
        names = [name for name, mask in masks.items() if mask[both[0]]]
        raise unreadable(
            path,
            expected=f"each node in at most one of {', '.join(masks)}",
            got=f"node {both[0]} in {' and '.join(names)}, and {len(both)} such nodes in total",
            remedy="remove these nodes from all masks but one",
        )
    splits = [""] * len(arrays["x"])
    for name, mask in masks.items():
        for i in np.flatnonzero(mask).tolist():
            splits[i] = name.removesuffix("_mask")
    return splits


def _npz_texts(path: Path, arrays: dict[str, Any], name: str) -> list[str]:
    """Return an array of a file as texts; bytes are decoded as UTF-8."""
    texts = arrays[name]
    if texts.dtype.kind == "S":
        with reading(path, expected=f"texts in UTF-8 in {name}", remedy="decode the bytes first"):
            texts = np.char.decode(texts, "utf-8")
    return [str(text) for text in texts.tolist()]


def _npz_labels(path: Path, arrays: dict[str, Any], *, numbers: bool) -> list[str]:
    """Return the class or number of each node; "" if ``y`` is NaN, blank or a negative class. With
    ``numbers``, integers are numbers to predict, which may be negative.
    """
    y = arrays["y"]
    if y.dtype.kind not in "iuf":
        return [label if label.strip() else "" for label in _npz_texts(path, arrays, "y")]
    present = y[~np.isnan(y)]
    if not np.isfinite(present).all():
        raise unreadable(
            path,
            expected="finite numbers or NaN in y",
            got="infinity",
            remedy="replace infinite values",
        )
    if numbers or ("classes" not in arrays and (present != np.round(present)).any()):
        return ["" if np.isnan(value) else repr(float(value)) for value in y]
    indices = np.where(np.isnan(y), -1, y).astype(int).tolist()
    names = _npz_texts(path, arrays, "classes") if "classes" in arrays else None
    if names is not None and max(indices) >= len(names):
        got = f"{counted(len(names), 'name')}, and a class {max(indices)}"
        raise unreadable(
            path,
            expected="an array classes with a name for each class in y",
            got=got,
            remedy="add the missing names to the array classes",
        )
    return ["" if i < 0 else names[i] if names else str(i) for i in indices]


def _check_shapes(path: Path, arrays: dict[str, Any]) -> None:
    if arrays["x"].dtype.kind not in "iufb":
        got = str(arrays["x"].dtype)
        raise unreadable(
            path,
            expected="a numeric array x of node features",
            got=got,
            remedy="remove the columns that are not numeric",
        )
    count = arrays["x"].shape[0] if arrays["x"].ndim else 0
    shapes = {name: arrays[name].shape for name in ("edge_index", "x")}
    nodes = {name: (count,) for name in ("y", "ids", *MASKS) if name in arrays}
    wrong = [name for name, shape in nodes.items() if arrays[name].shape != shape]
    pairs = shapes["edge_index"]
    if len(shapes["x"]) != 2 or len(pairs) != 2 or pairs[0] != 2 or wrong:
        got = ", ".join(f"{name} {list(arrays[name].shape)}" for name in [*shapes, *wrong])
        expected = "edge_index [2, E], x [N, F], and y, ids and masks [N]"
        raise unreadable(path, expected=expected, got=got, remedy="correct the array shapes")
    ends = arrays["edge_index"]
    if ends.dtype.kind not in "iu" or (ends.size and not 0 <= ends.min() <= ends.max() < count):
        expected = f"an edge_index of integers from 0 to {count - 1}"
        got = f"{ends.dtype} from {ends.min()} to {ends.max()}" if ends.size else str(ends.dtype)
        remedy = "number the nodes from 0, and save edge_index as integers"
        raise unreadable(path, expected=expected, got=got, remedy=remedy)
    if not np.isfinite(arrays["x"]).all():
        raise unreadable(
            path,
            expected="an array x of finite numbers",
            got="NaN or infinity",
            remedy="replace NaN and infinite values",
        )
