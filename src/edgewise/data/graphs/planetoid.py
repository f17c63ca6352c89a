"""Node classification on citation networks: the papers of Cora, CiteSeer and PubMed.

Paper: Yang et al., Revisiting semi-supervised learning with graph embeddings, 2016 (the public
split: 20 labels a class to train on, 500 papers to validate and 1000 to test).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice
from edgewise.batches import UNLABELLED
from edgewise.data.files import find_files, unreadable
from edgewise.data.graphs.edge_splits import distinct
from edgewise.data.graphs.node_data import NodeData, NodeGraph, csr, kept_graph, node_split
from edgewise.data.graphs.pickled import read_array, read_lists, read_sparse
from edgewise.data.reading import check_line_count, read_numbers
from edgewise.data.splits import Splits
from edgewise.errors import ArgumentError

Name = Literal["Cora", "CiteSeer", "PubMed"]
NAMES: tuple[Name, ...] = get_args(Name)
PARTS = ("tx", "allx", "y", "ty", "ally", "graph", "test.index")
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
"""The topics in the order of their numbers, which the files do not name: by how many papers have
each in the original data."""
VALIDATED = 500
ADDRESS = "https://github.com/kimiyoung/planetoid/raw/master/data"
TOGETHER = "bring the files of one and the same data set together"


@dataclass(frozen=True)
class Planetoid(NodeData):
    """One graph of papers; a batch is all of it, and the papers of a split count.

    Attributes:
        name: which network.
        normalize: divide the word counts of each paper by their sum.
        sparse: keep only the words that a paper has (``torch.sparse_csr``), about 1 % of them.
        unlabelled: training sees the output at every paper, with the target -100 where the split
            gives no label: for losses that need none, such as agreement of several views.

    """

    name: Name = "Cora"
    normalize: bool = True
    sparse: bool = True
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_choice("data.name", self.name, NAMES)

    @property
    def files(self) -> list[str]:
        """Names of the raw files."""
        return [f"ind.{self.name.lower()}.{part}" for part in PARTS]

    def load(self) -> Splits:
        raw = find_files(self.name, {name: f"{ADDRESS}/{name}" for name in self.files})
        x, y, edge_index, index = read_papers(raw, self.name)
        if self.normalize:
            x = x / x.sum(-1, keepdim=True).clamp(min=1)
        if self.sparse:
            x = csr(x)
        kept = NodeGraph([str(number) for number in range(len(x))], x, edge_index)
        graph, classes = kept.graph, int(y.max()) + 1
        parts = {name: node_split(x, graph, y[i], i) for name, i in index.items()}
        if self.unlabelled:
            known = y.new_full(y.shape, UNLABELLED).index_copy_(
                0, index["train"], y[index["train"]]
            )
            parts["train"] = node_split(x, graph, known, None)
        return Splits(
            {"in_width": x.shape[1], "out_width": classes},
            parts["train"],
            parts["val"],
            parts["test"],
            batch_size=1,
            fitted=kept_graph(kept, CLASSES.get(self.name) or [str(c) for c in range(classes)]),
        )

    def read_new(self, path: Path, fitted: dict[str, Any]) -> NodeGraph:  # noqa: ARG002
        raise ArgumentError(
            "input",
            expected=f"numbers of papers of {self.name}",
            got=str(path),
            remedy="train `edgewise train nodes` on files of your own to answer on new ones",
        )


class Papers(NamedTuple):
    """Word counts ``[N, F]``, topics ``[N]``, citations ``[2, E]`` and the papers of each split."""

    x: Tensor
    y: Tensor
    edge_index: Tensor
    splits: dict[str, Tensor]


def read_papers(raw: Path, name: str) -> Papers:
    """The public split, from the files of the data set in a folder.

    Raises:
        MissingDataError: a file is not there.
        ArgumentError: a file is damaged, or does not fit to the others.
    """
    files = {part: raw / f"ind.{name.lower()}.{part}" for part in PARTS}
    words, tested_words = (read_sparse(files[part]) for part in ("allx", "tx"))
    if words.shape[1] != tested_words.shape[1]:
        raise unreadable(
            files["tx"],
            expected=f"as many words as in {files['allx'].name}, {words.shape[1]}",
            got=f"{tested_words.shape[1]}",
            remedy=TOGETHER,
        )
    train, topics, tested_topics = (_topics(files[part]) for part in ("y", "ally", "ty"))
    check_line_count(files["ally"], topics, len(words), f"papers of {files['allx'].name}")
    check_line_count(files["ty"], tested_topics, len(tested_words), f"papers of {files['tx'].name}")
    if len(train) + VALIDATED > len(topics):
        raise unreadable(
            files["y"],
            expected=f"at most {len(topics) - VALIDATED} of the papers of {files['ally'].name}",
            got=f"{len(train)}",
            remedy=TOGETHER,
        )
    cited = read_lists(files["graph"])
    tested = _tested(files["test.index"], len(words), len(cited))
    check_line_count(
        files["test.index"], tested, len(tested_words), f"papers of {files['tx'].name}"
    )
    # CiteSeer has 15 papers without words and topic, between those that are tested.
    x = torch.zeros(len(cited), words.shape[1])
    x[: len(words)], x[tested] = words.to_dense(), tested_words.to_dense()
    y = torch.zeros(len(cited), dtype=torch.long)
    y[: len(topics)], y[tested] = topics, tested_topics
    val = torch.arange(len(train), len(train) + VALIDATED)
    splits = {"train": torch.arange(len(train)), "val": val, "test": tested.sort().values}
    return Papers(x, y, _citations(files["graph"], cited), splits)


def _topics(path: Path) -> Tensor:
    """``[N]``, from rows of which the paper's topic alone is 1."""
    rows = read_array(path)
    if (
        rows.dim() != 2
        or not len(rows)
        or ((rows != 0) & (rows != 1)).any()
        or (rows.sum(1) > 1).any()
    ):
        expected = "a row for each paper, in which its topic is 1 and all others 0"
        raise unreadable(path, expected=expected, got=f"other numbers, of shape {list(rows.shape)}")
    return rows.max(dim=1).indices


def _tested(path: Path, first: int, papers: int) -> Tensor:
    """The numbers of the papers to test on, ``[N]``."""
    lines = read_numbers(path, integers=True)
    tested = lines.flatten()
    smallest, largest = int(tested.min()), int(tested.max())
    if (
        lines.shape[1] != 1
        or len(tested.unique()) != len(tested)
        or smallest != first
        or largest != papers - 1
    ):
        raise unreadable(
            path,
            expected=f"distinct numbers of papers from {first} to {papers - 1}, one in each line",
            got=f"{len(tested.unique())} of {len(tested)}, from {smallest} to {largest}",
            remedy=TOGETHER,
        )
    return tested


def _citations(path: Path, cited: dict[int, list[int]]) -> Tensor:
    """Distinct citations ``[2, E]`` of others, sorted by target as PyG sorts them."""
    nodes = range(len(cited))
    pairs = [(paper, other) for paper, others in cited.items() for other in others]
    outside = [pair for pair in pairs if pair[0] not in nodes or pair[1] not in nodes]
    if outside or set(cited) != set(nodes):
        raise unreadable(
            path,
            expected=f"citations among {len(nodes)} papers, and a list for each of them",
            got=f"{outside[0] if outside else 'other papers'}",
            remedy=TOGETHER,
        )
    one, other = torch.tensor(pairs).view(-1, 2).T
    different = one != other
    return distinct(torch.stack([other, one])[:, different]).flip(0)
