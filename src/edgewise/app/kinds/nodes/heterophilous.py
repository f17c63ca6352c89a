"""Heterophilous graphs, in which neighbours often have other classes: minesweeper and tolokers.

Paper: Platonov et al., A critical look at the evaluation of GNNs under heterophily: are we really
making progress?, 2023 (ten random splits with 50 / 25 / 25 % of the nodes; ROC-AUC)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.files import find_files
from edgewise.app.files.targets import Target, class_counts
from edgewise.app.kinds.nodes.data import NodeData, NodeGraph, graph_record
from edgewise.app.train.splits import Splits, TargetScale

Name = Literal["minesweeper", "tolokers"]
NAMES: tuple[Name, ...] = get_args(Name)
COMMIT = "a431395582e929d88271309716bea4fe24ce6318"
ADDRESS = f"https://github.com/yandex-research/heterophilous-graphs/raw/{COMMIT}/data"
CLASSES = {"minesweeper": ("empty", "mine"), "tolokers": ("active", "banned")}
FOLDS = 10


@dataclass(frozen=True)
class Heterophilous(NodeData):
    """Graph with two classes of nodes; ``edgewise train --folds`` uses all ten splits.

    Minesweeper is a grid of 100 × 100 cells, whose features are the number of mines around a cell,
    for half of the cells; the class is whether the cell has a mine. Tolokers are workers of a
    crowdsourcing platform, joined if they have worked on the same task; the class is whether the
    worker was banned.

    Attributes:
        name: ``"minesweeper"`` or ``"tolokers"``.
        fold: index of the split, from 0.
        folds: number of splits, at most 10.

    Example:
        >>> from edgewise.app.kinds.nodes import Heterophilous
        >>> Heterophilous("minesweeper").load().model_arguments  # doctest: +SKIP
        {'in_width': 7, 'out_width': 1}
    """

    folders = ("heterophilous",)

    name: Name = "minesweeper"
    fold: int = 0
    folds: int = FOLDS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.name", self.name, NAMES)
        if not 0 <= self.fold < self.folds <= FOLDS:
            raise ArgumentError(
                "data.fold, data.folds",
                expected=f"data.folds up to {FOLDS}, and data.fold from 0 to data.folds - 1",
                got=f"data.fold {self.fold}, data.folds {self.folds}",
                remedy=f"set data.folds to {FOLDS}, and data.fold from 0 to {FOLDS - 1}",
            )

    def load(self) -> Splits:
        files = {f"{name}.npz": f"{ADDRESS}/{name}.npz" for name in NAMES}
        raw = find_files("heterophilous", files)
        with np.load(raw / f"{self.name}.npz", allow_pickle=False) as arrays:
            x, labels, pairs = (
                torch.from_numpy(arrays[key]) for key in ("node_features", "node_labels", "edges")
            )
            index = {
                split: torch.from_numpy(arrays[f"{split}_masks"][self.fold]).nonzero()[:, 0]
                for split in ("train", "val", "test")
            }
        pairs = torch.cat([pairs, pairs.flip(1)]).unique(dim=0)
        node_graph = NodeGraph(list(map(str, range(len(x)))), x.float(), pairs.T.contiguous())
        classes = CLASSES[self.name]
        counts = class_counts(labels[index["train"]], len(classes))
        targets = (Target("class", classes, counts=counts),)
        y = labels[:, None].float()
        splits = self.node_splits(node_graph.x, node_graph.graph, y, index)
        return Splits(
            {"in_width": x.shape[1], "out_width": 1},
            replace(splits["train"], target_scale=TargetScale.of(targets)),
            splits["val"],
            splits["test"],
            batch_size=1,
            preprocessing=graph_record(node_graph, ()),  # The target has the names of its classes.
            targets=targets,
        )

    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:  # noqa: ARG002
        raise ArgumentError(
            "input",
            expected=f"indices of nodes of {self.name}",
            got=str(path),
            remedy="use `edgewise train nodes` on your own files to predict on new graphs",
        )
