"""Links by relation: held-out triples of a knowledge graph, ranked among all entities.

Papers: Dettmers et al., Convolutional 2D knowledge graph embeddings, 2018 (WN18RR); Bordes et al.,
Translating embeddings for modeling multi-relational data, 2013 (filtered ranking).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from edgewise._utils.arguments import check_given, check_range, check_shares
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import runs_and_positions
from edgewise.app.files.edges import EdgeTable, Ids, read_relations
from edgewise.app.files.files import find_files, naming
from edgewise.app.files.frames import FrameSource, Source, open_source, take_frames
from edgewise.app.train.batches import Batch
from edgewise.app.train.evaluation import Evaluation, EvaluationBatch, EvaluationSplit
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.graphs import TypedGraph
from edgewise.models.triple_predictor import TriplePredictor

ADDRESS = (
    "https://github.com/villmow/datasets_knowledge_embedding/raw/"
    "9e392453d6804d1f51c13e5650ae58ed48b638d5/WN18RR/original"
)
QUICK = 20_000
"""Maximum number of triples with which ``edgewise train`` evaluates baselines."""
RANKED = 1 << 25
"""Maximum number of scores in a batch of validation and test, which limits memory."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    return run.train_examples > QUICK


class TripleSplit(NamedTuple):
    """Triples ``[3, E]`` of each split: head, number of the relation, tail."""

    train: Tensor
    val: Tensor
    test: Tensor
    entities: Ids
    relations: tuple[str, ...]
    files: tuple[Path | FrameSource, ...]


@dataclass(frozen=True)
class Triples(Data):
    """Base class of triples (head, relation, tail). Head and tail of a held-out triple are ranked
    among all entities.

    Each triple asks two questions: (head, relation, ?), and (?, relation, tail), which is asked as
    (tail, reversed relation, ?). Each training batch asks for some of the training triples and uses
    the others for message passing. Validation and test use all training triples for message
    passing, and do not rank the other right answers of any split (the filtered setting).

    Batches: inputs ``(questions [2, B], entities [M], graph)``. With ``negatives``, training
    batches have the keyword argument ``positives [B]`` and targets ``[B, 1]`` of 0, the column of
    the right answer. Other targets ``[B, K]`` are columns of scores: first that of the right
    answer, then those of the other right answers, padded with -1.

    Attributes:
        negatives: entities sampled per training batch, without replacement; 0, or more than there
            are entities, ranks all of them.
        batch_size: predicted triples per training batch, at most a tenth of the training triples.
    """

    negatives: int = 1024
    batch_size: int = 1024

    provides: ClassVar[tuple[str, ...]] = ("num_nodes", "relations")

    def __post_init__(self) -> None:
        check_range("data.negatives", self.negatives, "choose 0 for all entities", least=0)
        check_range("data.batch_size", self.batch_size, "choose a larger number", least=1)

    @abstractmethod
    def read(self) -> TripleSplit:
        """Read the triples from their files."""

    def load(self) -> Splits:
        split = self.read()
        with naming(*split.files):
            return self._splits(split)

    def _splits(self, split: TripleSplit) -> Splits:
        entities, train = len(split.entities), split.train
        for name, triples in (("train", train), ("val", split.val), ("test", split.test)):
            if not triples.shape[1]:
                raise ArgumentError(
                    name,
                    expected=f"at least one triple in the {name} split",
                    got="none",
                    remedy="add triples whose entities and relation also occur in others, or "
                    "change data.val and data.test",
                )
        known = torch.cat([train, split.val, split.test], dim=1)
        graph = triple_graph(train, entities, split.relations)
        answers = Answers(both_questions(known, len(split.relations)), entities)
        size = min(self.batch_size, max(train.shape[1] // 10, 1))
        ranked = partial(_ranking, graph, answers, len(split.relations))
        return Splits(
            {"num_nodes": entities, "relations": len(graph.relations)},
            SampledSplit.of(partial(self._draw, graph, train, answers), train.shape[1], size),
            ranked(split.val),
            ranked(split.test),
            batch_size=max(RANKED // entities, 1),
            preprocessing={
                "ids": list(split.entities),
                "relations": list(split.relations),
                "known": known,
            },
        )

    def _draw(
        self,
        graph: TypedGraph,
        train: Tensor,
        answers: Answers,
        index: Tensor,
        generator: Generator,
    ) -> Batch:
        is_message = torch.ones(train.shape[1], dtype=torch.bool).index_fill_(0, index, False)
        messages = graph.select(torch.cat([is_message, is_message]))
        questions = both_questions(train[:, index], len(graph.relations) // 2)
        asked, right = questions[:2], questions[2]
        if not 0 < self.negatives < answers.entities:
            everything = torch.arange(answers.entities)
            return Batch((asked, everything, messages), right[:, None])
        sample = torch.randperm(answers.entities, generator=generator)[: self.negatives]
        target = torch.zeros(len(right), 1, dtype=torch.long)
        return Batch((asked, sample, messages), target, keywords={"positives": right})


def triple_graph(triples: Tensor, entities: int, relations: Sequence[str]) -> TypedGraph:
    """Return the graph of triples ``[3, E]`` and the same reversed."""
    named = [("", name, "") for name in relations]
    return TypedGraph(triples[[0, 2]], entities, entities, triples[1], named).with_reverse()


def both_questions(triples: Tensor, relations: int) -> Tensor:
    """Return for triples ``[3, E]`` a node, a relation and an answer of each question, ``[3, 2E]``:
    first the tails that are asked, then the heads.
    """
    head, relation, tail = triples
    return torch.cat([triples, torch.stack([tail, relation + relations, head])], dim=1)


class Answers:
    """Lookup of the right answers to a question, from questions and answers ``[3, E]``."""

    def __init__(self, questions: Tensor, entities: int) -> None:
        self.entities = entities
        keys, order = self._key(questions).sort(stable=True)
        self._keys, self._answers = keys, questions[2][order]

    def _key(self, questions: Tensor) -> Tensor:
        return questions[1] * self.entities + questions[0]

    def all(self, questions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the answers to questions ``[2, B]``: for each answer, ``[A]``, the index of its
        question, the entity, and its position among the answers to the question.
        """
        keys = self._key(questions)
        first = torch.searchsorted(self._keys, keys)
        count = torch.searchsorted(self._keys, keys, right=True) - first
        row, position = runs_and_positions(count)
        return row, self._answers[first[row] + position], position

    def rows(self, questions: Tensor, right: Tensor) -> Tensor:
        """Return the answers to questions ``[2, B]``, ``[B, K]``, padded with -1: first the
        ``right`` one, then all others.
        """
        row, answer, position = self.all(questions)
        rows = torch.full((len(right), 1 + int(torch.bincount(row).max())), -1)
        rows[:, 0] = right
        rows[row, 1 + position] = answer.masked_fill(answer == right[row], -1)
        return rows


@dataclass(frozen=True, kw_only=True)
class RankingBatch(EvaluationBatch):
    """Batch of questions; the states of the nodes are computed once per evaluation."""

    def outputs(self, model: nn.Module) -> Tensor:
        if model.training or torch.is_grad_enabled() or not isinstance(model, TriplePredictor):
            return super().outputs(model)
        outputs: Tensor = model(*self.inputs, states=self.evaluation(model))
        return outputs


def _ranking(graph: TypedGraph, answers: Answers, relations: int, triples: Tensor) -> Split:
    """Return a split that ranks all entities for both questions of some triples."""
    questions = both_questions(triples, relations)
    everything = torch.arange(answers.entities)

    def states(model: nn.Module) -> Tensor:
        assert isinstance(model, TriplePredictor)
        return model.embed(graph.to(model.relation.device))

    def make(index: Tensor) -> Batch:
        asked = questions[:, index]
        inputs = asked[:2], everything, graph
        target = answers.rows(asked[:2], asked[2])
        return RankingBatch(inputs, target, evaluation=Evaluation(states))

    return EvaluationSplit(questions.shape[1], make)


@dataclass(frozen=True)
class TripleFiles(Triples):
    """Triples of a table with three columns, of lines ``head relation tail``, or of N-Triples.

    Without files for validation and test, a random sample of the triples is held out, but no triple
    that is the only one of an entity or relation. Repeated triples count once.

    Attributes:
        path: the file, or a data frame.
        val_path, test_path: optional files of validation and test triples, in the same form.
        head, relation, tail: column names, or column numbers from 1 if there is no header; "" finds
            the columns by usual names, or takes the only three columns in this order.
        val, test: fractions of the triples for validation and test, without such files.
        split_seed: random seed of the split.
        header: whether the first line names the columns; ``None`` detects it.
        names: whether ids are names, even if they look like numbers.
        negatives, batch_size: see :class:`Triples`.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.triples import TripleFiles
        >>> rows = [(f"p{i}", "knows", f"p{(i + k) % 20}") for i in range(20) for k in (1, 2)]
        >>> friends = pd.DataFrame(rows, columns=["head", "relation", "tail"])
        >>> TripleFiles(path=friends).load().model_arguments
        {'num_nodes': 20, 'relations': 2}
    """

    path: Source = ""
    val_path: Source = ""
    test_path: Source = ""
    head: str = ""
    relation: str = ""
    tail: str = ""
    val: float = 0.1
    test: float = 0.1
    split_seed: int = 0
    header: bool | None = None
    names: bool = False

    def __post_init__(self) -> None:
        take_frames(self, "path", "val_path", "test_path")
        super().__post_init__()
        if bool(self.val_path) != bool(self.test_path):
            given = "data.val_path" if self.val_path else "data.test_path"
            raise ArgumentError(
                "data.val_path, data.test_path",
                expected="both files or none",
                got=f"only {given}",
                remedy="name both, or none to hold out a sample of data.path",
            )

    def read(self) -> TripleSplit:
        check_given("data.path", self.path, "a file of triples")
        paths = [open_source(path) for path in (self.path, self.val_path, self.test_path) if path]
        tables = [
            read_relations(
                path,
                header=self.header,
                names=self.names,
                head=self.head,
                relation=self.relation,
                tail=self.tail,
            )
            for path in paths
        ]
        split = merged(paths, tables)
        return split if self.val_path else self._sampled(split)

    def _sampled(self, split: TripleSplit) -> TripleSplit:
        """Return a split in which a sample of the training triples is held out."""
        check_shares({"data.val": self.val, "data.test": self.test}, "choose for example 0.1")
        count = split.train.shape[1]
        order = torch.randperm(count, generator=Generator().manual_seed(self.split_seed))
        triples = split.train[:, order]
        # The first triple of an entity or relation stays in the training set.
        free = torch.ones(count, dtype=torch.bool)
        for numbers in (triples[[0, 2]].T.flatten(), triples[1].repeat_interleave(2)):
            first = torch.full((int(numbers.max()) + 1,), 2 * count)
            first.scatter_reduce_(0, numbers, torch.arange(2 * count), "amin")
            free[first[first < 2 * count] // 2] = False
        held_out = free.nonzero()[:, 0]
        val, test = (round(count * fraction) for fraction in (self.val, self.test))
        if val + test > len(held_out):  # Keep the proportion of both.
            val = len(held_out) * val // (val + test)
            test = len(held_out) - val
        is_train = torch.ones(count, dtype=torch.bool)
        is_train[held_out[: val + test]] = False
        return split._replace(
            train=triples[:, is_train],
            val=triples[:, held_out[:val]],
            test=triples[:, held_out[val : val + test]],
        )


def merged(paths: Sequence[Path | FrameSource], tables: Sequence[EdgeTable]) -> TripleSplit:
    """Return the distinct triples of the files of each split, with shared numbers; without files
    of validation and test triples, these are empty.

    Raises:
        ArgumentError: a relation of a later file is not in the training file, or a triple is in two
            files.
    """
    relations = tables[0].relations
    names = dict.fromkeys(chain.from_iterable(table.ids for table in tables))
    entities = {name: number for number, name in enumerate(names)}
    relation_number = {name: number for number, name in enumerate(relations)}
    splits: list[Tensor] = []
    seen = torch.empty(0, dtype=torch.long)
    for path, table in zip(paths, tables, strict=True):
        unknown = [name for name in table.relations if name not in relation_number]
        if unknown:
            raise ArgumentError(
                str(path),
                expected="only relations of the training triples",
                got=repr(unknown[0]),
                remedy="move a triple of this relation to the training triples, or remove it",
            )
        number = torch.tensor([entities[name] for name in table.ids])
        of_relation = torch.tensor([relation_number[name] for name in table.relations])
        assert table.edge_type is not None
        head, tail = number[table.pairs]
        keys = (of_relation[table.edge_type] * len(entities) + head) * len(entities) + tail
        keys = keys.unique()
        repeated = keys[torch.isin(keys, seen)]
        if len(repeated):
            raise ArgumentError(
                str(path),
                expected="no triple of the files before it",
                got=f"{counted(len(repeated), 'triple')} of them",
                remedy="remove these triples from one of the files",
            )
        seen = torch.cat([seen, keys])
        rest, tail = keys // len(entities), keys % len(entities)
        splits.append(torch.stack([rest % len(entities), rest // len(entities), tail]))
    nothing = torch.empty(3, 0, dtype=torch.long)
    train, val, test = splits if len(splits) > 1 else (splits[0], nothing, nothing)
    return TripleSplit(train, val, test, entities, relations, tuple(paths))


@dataclass(frozen=True)
class WN18RR(Triples):
    """WordNet with 40,943 synsets, 11 relations and 86,835 training triples.

    It is WN18 without the relations that are reversals of others. Entities are offsets in WordNet.

    Example:
        >>> from edgewise.app.kinds.triples import WN18RR
        >>> splits = WN18RR(negatives=2048).load()  # doctest: +SKIP
    """

    folders = ("WN18RR",)
    section = "Knowledge graphs"

    def read(self) -> TripleSplit:
        names = ("train.txt", "valid.txt", "test.txt")
        raw = find_files("WN18RR", {name: f"{ADDRESS}/{name}" for name in names})
        paths = [raw / name for name in names]
        return merged(paths, [read_relations(path, header=False, names=True) for path in paths])
