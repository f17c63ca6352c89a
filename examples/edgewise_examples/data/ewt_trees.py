"""English web texts with syntax trees: the trees are given, and labels of words are predicted.

Source: Silveira et al., A gold standard dependency corpus for English, 2014 (Universal
Dependencies).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import boundaries, ranges, segment_index
from edgewise.app.kinds.tags.conllu import read_conllu
from edgewise.app.kinds.tags.files import ewt_texts
from edgewise.app.train import Batch, Data, PackedGraphs, Split, Splits
from edgewise.app.train.batches import UNLABELLED
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.text.labelled import Labelled
from edgewise.graphs import tree

Links = Literal["tree", "chain"]
Label = Literal["deprel", "upos"]


@dataclass(frozen=True)
class EWTTrees(Data):
    """Node classification data set whose nodes are the words of syntax trees.

    A model is called as ``model(x, graph, batch=sizes)``. The features x are hashed character
    n-grams of each word, words attend to their dependents in ``graph``, and ``sizes`` holds the
    number of words of each sentence. If the model has positional encodings, their values are
    further keyword arguments.

    Attributes:
        label: what to predict: ``deprel``, the relation of a word to its head (without subtype), or
            ``upos``, its part of speech.
        links: ``tree`` for the syntax tree, or ``chain``, in which each word attends to the
            previous one.
        hashed: number of hash buckets for the features of a word, which are the word and its
            prefixes and suffixes of one to three letters.
        batch_size: number of sentences per batch.
        train_rows: number of training sentences, from the start of the file; 0 for all 12,544.
    """

    section = "Sequences"

    label: Label = "deprel"
    links: Links = "tree"
    hashed: int = 2048
    batch_size: int = 32
    train_rows: int = 0

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        check_choice("data.label", self.label, get_args(Label))
        check_choice("data.links", self.links, get_args(Links))
        check_range("data.hashed", self.hashed, "choose for example 2048", least=1)
        check_range("data.batch_size", self.batch_size, "choose for example 32", least=1)
        check_range("data.train_rows", self.train_rows, "choose 0 for all", least=0)

    def load(self) -> Splits:
        sentences, counts = [], []
        for split, (file, text) in ewt_texts().items():
            labels, heads = (read_conllu(text, file, column) for column in (self.label, "head"))
            num_rows = self.train_rows if split == "train" else 0
            read = list(zip(labels, heads, strict=True))[: num_rows or None]
            sentences += [sentence(*tree, self.links, file) for tree in read]
            counts.append(len(read))
        index = torch.arange(len(sentences)).split(counts)
        labels_of = [[label.partition(":")[0] for label in tree.labels] for tree in sentences]
        names = sorted({label for i in index[0].tolist() for label in labels_of[i]})
        number = {name: i for i, name in enumerate(names)}
        y = torch.tensor([number.get(label, UNLABELLED) for tree in labels_of for label in tree])

        graphs, pieces = forest(sentences, self.hashed)
        codes = PrecomputedEncodings(graphs)
        train, val, test = (_part(codes, which, pieces, y) for which in index)
        sizes = {"in_width": self.hashed, "out_width": len(names)}
        return Splits(
            sizes, train, val, test, self.batch_size, preprocessing={"labels": names}, codes=codes
        )


class Sentence(NamedTuple):
    """Sentence: its words, their labels, and edges ``[2, E]`` from dependents to heads."""

    words: list[str]
    labels: list[str]
    edges: Tensor


def sentence(labelled: Labelled, headed: Labelled, links: Links, file: str) -> Sentence:
    """Return a sentence with its syntax tree, or with the chain of its words.

    Args:
        labelled: pairs of a word and its label.
        headed: pairs of a word and its head.
        links: "tree" or "chain".
        file: name of the file for error messages.

    Raises:
        ArgumentError: the heads do not form a tree.
    """
    n = len(labelled)
    try:
        chain = [*range(1, n), -1]
        parents = chain if links == "chain" else [int(head) - 1 for _, head in headed]
        graph = tree(parents, reads="children").bind(n)
    except (ValueError, ArgumentError) as error:
        heads = " ".join(head for _, head in headed)
        raise ArgumentError(
            file,
            expected="heads that form a tree: for each word the number of another word, or 0 for "
            "the root",
            got=f"the heads {heads[:60]} in the sentence that begins with {labelled[0][0]!r}",
            remedy="correct the heads of this sentence",
        ) from error
    words, labels = (list(column) for column in zip(*labelled, strict=True))
    return Sentence(words, labels, graph.edge_index)


def pieces_of(word: str) -> list[str]:
    """Return the features of a word: the word, its lower-case form, its prefixes and suffixes."""
    lower = word.lower()
    ends = [f"{lower[:k]}-" for k in (1, 2, 3)] + [f"-{lower[-k:]}" for k in (1, 2, 3)]
    return [word, f"={lower}", *ends]


class Pieces(NamedTuple):
    """Hashed features of all words, in one tensor.

    Attributes:
        numbers: hash bucket of each feature of each word.
        start: index of the first feature of each word in ``numbers``, then their total number.
        hashed: number of hash buckets.
    """

    numbers: Tensor
    start: Tensor
    hashed: int

    def of(self, words: Tensor) -> Tensor:
        """Return how often each hash bucket occurs in each of n words, ``[n, hashed]``."""
        sizes = self.start.diff()[words]
        numbers = self.numbers[ranges(self.start[words], sizes)]
        row = segment_index(sizes, len(numbers))
        return torch.zeros(len(words), self.hashed).index_put_(
            (row, numbers), torch.ones(1), accumulate=True
        )


def forest(sentences: Sequence[Sentence], hashed: int) -> tuple[PackedGraphs, Pieces]:
    """Return the trees of all sentences, and the features of all words.

    The only node feature of a tree is the index of the word among all words.
    """
    words = [word for tree in sentences for word in tree.words]
    pieces = [[zlib.crc32(p.encode()) % hashed for p in pieces_of(w)] for w in words]
    edges = [tree.edges for tree in sentences]
    word_indices = torch.arange(len(words)).split([len(tree.words) for tree in sentences])
    graphs = PackedGraphs.of(
        [indices[:, None] for indices in word_indices],
        edges,
        [torch.empty(e.shape[1], 0) for e in edges],
    )
    numbers = torch.tensor([number for word in pieces for number in word])
    return graphs, Pieces(numbers, boundaries(torch.tensor([len(w) for w in pieces])), hashed)


def _part(codes: PrecomputedEncodings, which: Tensor, pieces: Pieces, y: Tensor) -> Split:
    def make(index: Tensor) -> Batch:
        words, graph, _members, _edges = codes.graphs.take(which[index])
        words = words[:, 0]
        keywords = {
            "batch": members_in_order(codes.graphs, which[index]),
            **codes.take(which[index]),
        }
        is_labelled = y[words] != UNLABELLED
        select = is_labelled.nonzero()[:, 0]
        return Batch((pieces.of(words), graph), y[words][is_labelled], select, keywords)

    return Split(len(which), make)


def members_in_order(graphs: PackedGraphs, which: Tensor) -> Tensor:
    """Return the number of nodes ``[B]`` of the graphs ``which``, in the order of the batch."""
    return graphs.sizes[which.unique()]
