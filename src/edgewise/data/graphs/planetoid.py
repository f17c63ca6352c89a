"""Citation networks Cora, CiteSeer and PubMed for node classification.

Paper: Yang et al., Revisiting semi-supervised learning with graph embeddings, 2016 (the public
split: 20 training labels per class, 500 validation papers and 1000 test papers).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor

from edgewise.arguments import check_choice
from edgewise.data.checksums import SHA256
from edgewise.data.files import find_files
from edgewise.data.graphs.node_data import (
    NodeData,
    NodeGraph,
    csr,
    kept_graph,
    node_split,
    semi_supervised_split,
)
from edgewise.data.splits import Splits
from edgewise.errors import ArgumentError, require

Name = Literal["Cora", "CiteSeer", "PubMed"]
NAMES: tuple[Name, ...] = get_args(Name)
CLASSES = {
    "Cora": [
        "Theory",
        "Reinforcement_Learning",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Case_Based",
        "Rule_Learning",
    ],
    "CiteSeer": ["AI", "ML", "IR", "DB", "Agents", "HCI"],
}
"""Topic of each class number. The files do not contain the topics; they follow from the number of
papers of each topic in the original data.
"""
COMMIT = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
ADDRESS = f"https://github.com/kimiyoung/planetoid/raw/{COMMIT}/data"


@dataclass(frozen=True)
class Planetoid(NodeData):
    """Citation network; a batch is the whole graph, with a loss over the papers of one split.

    Attributes:
        name: ``"Cora"``, ``"CiteSeer"`` or ``"PubMed"``.
        normalize: whether to divide the word counts of each paper by their sum.
        sparse: whether to store the features as ``torch.sparse_csr``; about 1 % are not zero.
        unlabelled: whether the training batch has all papers, with target -100 for papers without a
            training label, for losses that use unlabelled nodes, such as consistency.

    Example:
        >>> from edgewise import data
        >>> splits = data.planetoid(name="PubMed").load()  # doctest: +SKIP
    """

    name: Name = "Cora"
    normalize: bool = True
    sparse: bool = True
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_choice("data.name", self.name, NAMES)

    @property
    def files(self) -> list[str]:
        """Names of the raw files, each with a known checksum."""
        return list(SHA256[self.name])

    def load(self) -> Splits:
        x, y, edge_index, index = read_papers(self.name)
        if self.normalize:
            x = x / x.sum(-1, keepdim=True).clamp(min=1)
        if self.sparse:
            x = csr(x)
        kept = NodeGraph([str(number) for number in range(len(x))], x, edge_index)
        graph, classes = kept.graph, int(y.max()) + 1
        parts = {name: node_split(x, graph, y[i], i) for name, i in index.items()}
        if self.unlabelled:
            parts["train"] = semi_supervised_split(x, graph, y, index["train"])
        return Splits(
            {"in_width": x.shape[1], "out_width": classes},
            parts["train"],
            parts["val"],
            parts["test"],
            batch_size=1,
            preprocessing=kept_graph(
                kept, CLASSES.get(self.name) or [str(c) for c in range(classes)]
            ),
        )

    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:  # noqa: ARG002
        raise ArgumentError(
            "input",
            expected=f"indices of papers of {self.name}",
            got=str(path),
            remedy="use `edgewise train nodes` on your own files to predict on new graphs",
        )


class Papers(NamedTuple):
    """Word counts ``[N, F]``, topics ``[N]``, citations ``[2, E]`` and node indices per split."""

    x: Tensor
    y: Tensor
    edge_index: Tensor
    splits: dict[str, Tensor]


def read_papers(name: Name) -> Papers:
    """Return a network with its public split, read by PyTorch Geometric.

    The files are pickles: they are unpickled only after their checksums matched.

    Raises:
        MissingDataError: a file is missing.
        ArgumentError: a file differs from the published one.
        MissingExtraError: torch_geometric or SciPy is not installed.
    """
    purpose = f"the data set {name}"
    raw = find_files(name, {file: f"{ADDRESS}/{file}" for file in SHA256[name]})
    with warnings.catch_warnings():
        # Hide warnings: the pickles refer to modules of NumPy and SciPy that were renamed since
        # 2016.
        warnings.simplefilter("ignore")
        require("torch_geometric", extra="graphs", purpose=purpose)
        # The pickles contain sparse matrices of SciPy.
        require("scipy", extra="graphs", purpose=purpose)
        from torch_geometric.io import read_planetoid_data

        found = read_planetoid_data(str(raw), name)
    splits = {part: found[f"{part}_mask"].nonzero()[:, 0] for part in ("train", "val", "test")}
    return Papers(found.x, found.y, found.edge_index, splits)
