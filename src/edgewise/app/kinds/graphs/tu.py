"""Graph classification data sets of TU Dortmund: MUTAG, ENZYMES, PROTEINS and many more.

Paper: Morris et al., TUDataset: a collection of benchmark datasets for learning with graphs, 2020.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from edgewise._utils.arguments import check_range
from edgewise.app.files.checksums import SHA256
from edgewise.app.files.files import NAME, check_name, fetch, find_raw, naming
from edgewise.app.kinds.graphs.data import GraphData, graph_preprocessing, labelled, node_features
from edgewise.app.kinds.graphs.files import REQUIRED, read_graph_files
from edgewise.app.train.folds import Folds
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.splits import Splits
from edgewise.app.train.standardisation import Standardisation

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets"


@dataclass(frozen=True)
class TU(GraphData):
    """Graphs with one class each, for stratified cross-validation.

    A model is called as ``model(x, graph, batch=members)``: node features, the batched graph, and
    the membership graph, in which output b attends to the nodes of graph b.

    Attributes:
        name: name of the data set, with which its files begin.
        attributes: whether to include the numeric node attributes, if there are any, standardised
            over the training set. Node labels are always included, one-hot. Nodes without either
            have the single feature 1.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`.
        batch_size: graphs per batch.
    """

    folders = ("ENZYMES", "MUTAG")

    name: str = "MUTAG"
    attributes: bool = True
    folds: int = 10
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_name(self.name)
        self._folds()
        check_range("data.batch_size", self.batch_size, "choose for example 32", least=1)

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    @property
    def files(self) -> list[str]:
        """Names of the raw files: those with a known checksum, or else the required files."""
        return list(SHA256.get(self.name, [f"{self.name}_{suffix}.txt" for suffix in REQUIRED]))

    def load(self) -> Splits:
        raw = find_raw(self.name, self.files, self._download)
        graph_files = read_graph_files(raw, self.name)
        classes, y = graph_files.classes.unique(return_inverse=True)
        with naming(*self.files):
            index = self._folds().split("stratified", y.tolist())
        kinds = [column.unique().tolist() for column in graph_files.labels.T]
        scale = None
        if self.attributes and graph_files.attributes.shape[1]:
            member = torch.arange(len(y)).repeat_interleave(graph_files.node_start.diff())
            train_attributes = graph_files.attributes[torch.isin(member, index["train"])]
            scale = Standardisation.of(train_attributes).record()
        preprocessing = graph_preprocessing(
            [graph_files.class_names[class_number] for class_number in classes.tolist()],
            kinds,
            scale,
        )
        x = node_features(graph_files.labels, graph_files.attributes, preprocessing)
        no_edge_features = torch.empty(graph_files.edge_index.shape[1], 0)
        graphs = PackedGraphs(
            x,
            graph_files.edge_index,
            no_edge_features,
            graph_files.node_start,
            graph_files.edge_start,
        )
        codes = PrecomputedEncodings(graphs)
        train, val, test = (labelled(codes, index[split], y) for split in ("train", "val", "test"))
        sizes = {"in_width": x.shape[1], "out_width": len(classes)}
        return Splits(
            sizes, train, val, test, self.batch_size, preprocessing=preprocessing, codes=codes
        )

    def _download(self, folder: Path) -> None:
        archive = folder / f"{self.name}.zip"
        fetch({archive.name: f"{ADDRESS}/{archive.name}"}, folder)
        with zipfile.ZipFile(archive) as packed:
            for member in packed.namelist():
                path = PurePosixPath(member)
                # Extract only plain file names, so that nothing is written outside of the folder.
                if path.match(f"{self.name}/{self.name}_*.txt") and NAME.fullmatch(path.name):
                    (folder / path.name).write_bytes(packed.read(member))
        archive.unlink()
