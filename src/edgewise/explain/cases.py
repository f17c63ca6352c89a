"""Creation of a :class:`Case` for each prediction (answer) of a run, for each kind of run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from edgewise.data.graphs.edge_splits import both_ways
from edgewise.data.graphs.node_data import graph_kept
from edgewise.data.molecules.masked_molecules import ATOM_KINDS, hide
from edgewise.data.molecules.molecule_table import packed
from edgewise.data.precomputed_encodings import PrecomputedEncodings
from edgewise.data.text.tokenizer import special_ids
from edgewise.digits import rounded
from edgewise.errors import ArgumentError
from edgewise.explain.attribution import (
    Case,
    Contributions,
    Method,
    contributions,
    outputs_of,
)
from edgewise.explain.calls import Tape
from edgewise.explain.explanation import atom_labels, patch_labels, steps_of
from edgewise.explain.removal import edges_around, remaining
from edgewise.graphs import Graph, edges
from edgewise.inference.graphs import GraphClasses
from edgewise.inference.images import ImageClasses
from edgewise.inference.molecules import (
    KINDS,
    HiddenAtoms,
    MoleculeProperties,
    PenalisedLogP,
    _flags,
    read_smiles,
)
from edgewise.inference.nodes import LinkSuggestions, NodeClasses, NodeProperties, OnNodes
from edgewise.inference.predictor import Predictor
from edgewise.inference.properties import Properties
from edgewise.inference.recommendations import Recommendations
from edgewise.inference.series import Forecasts
from edgewise.inference.text import (
    Continuations,
    HiddenWords,
    SentenceClasses,
    SentenceProperties,
    Translations,
    WordTags,
)
from edgewise.interception import intercepting
from edgewise.layers import LanguageModel, Recommender, Tokens
from edgewise.models.link_predictor import LinkPredictor
from edgewise.ragged import ranges
from edgewise.targets import Target, probabilities

Scores = Callable[[], Tensor]
AT_ONCE = 256
"""Maximum number of nodes of a graph that are explained in one pass."""


def cases(predictor: Predictor, value: Any, *, top: int = 1) -> list[Case]:
    """Return a case for each part of the answer to an input, such as each word of a sentence.

    Args:
        predictor: predictor of a run.
        value: an input, as given to :meth:`edgewise.inference.Predictor.prepare`.
        top: number of recommended items or links to explain.

    Raises:
        ArgumentError: the input is invalid, or answers of this kind of run cannot be explained.

    """
    for part in predictor.model.modules():
        # Removing a node from the graph does not remove it from a recurrent network.
        if isinstance(part, torch.nn.RNNBase):
            raise ArgumentError(
                "run",
                expected="a model without recurrent layers, which would still read a removed token",
                got=f"a model with {type(part).__name__}",
                remedy="choose a run of a Transformer or graph network",
            )
    for kind, make in _MAKERS.items():
        if isinstance(predictor, kind):
            return list(make(predictor, value, top))
    raise ArgumentError(
        "run",
        expected=f"a run with one of the predictors {', '.join(kind.__name__ for kind in _MAKERS)}",
        got=f"the predictor {type(predictor).__name__}",
        remedy="pass a Case of your own to edgewise.explain.contributions",
    )


def _outputs(predictor: Any, example: Any) -> tuple[tuple[Any, ...], Tensor]:
    """Predict on one example, and return the positional arguments and the output of the model.

    Args:
        predictor: predictor of a run.
        example: result of ``predictor.prepare``.
    """
    with outputs_of(predictor.model) as found:
        predictor.answer([example])
    return found[-1]


def log_odds(scores: Tensor, label: Tensor) -> Tensor:
    """Return the log-odds log p / (1 - p) of a label for each row of logits.

    Args:
        scores: logits ``[R, K]``.
        label: index of a label for each row, ``[R]``.
    """
    own = scores.gather(1, label[:, None])[:, 0]
    others = scores.scatter(1, label[:, None], -torch.inf)
    return own - others.logsumexp(-1)


def _row_odds(scores: Scores, row: int, label: int) -> Scores:
    return lambda: log_odds(scores()[row : row + 1], torch.tensor([label]))


def _rows(predictor: Any, value: Any) -> tuple[tuple[Any, ...], Tensor, Scores]:
    """Predict on one input.

    Args:
        predictor: predictor of a run.
        value: the input.

    Returns:
        The positional arguments of the model; its outputs, flattened to ``[R, K]`` for K output
        columns; and a function that computes these outputs again, with gradients.
    """
    example = predictor.prepare(value)

    def scores() -> Tensor:
        out = _outputs(predictor, example)[1]
        return out.reshape(-1, out.shape[-1])

    with torch.no_grad():
        given, out = _outputs(predictor, example)
    return given, out.reshape(-1, out.shape[-1]), scores


def _target_cases(
    predictor: Properties,
    out: Tensor,
    scores: Scores,
    member: Tensor,
    labels: list[str],
    **fields: Any,
) -> Iterator[Case]:
    """Yield a case for each target; with several targets, answers begin with their names.

    Args:
        predictor: the predictor.
        out: outputs for one input, ``[1, K]`` for K output columns.
        scores: function that computes these outputs again.
        member: for each node of the model's graph, the index of its member (part of the input).
        labels: name of each member.
        fields: further attributes of each :class:`Case`.
    """
    start = 0
    for target in predictor.targets:
        places = slice(start, start + target.width)
        own = out[0, places]
        name = f"{target.name} " if len(predictor.targets) > 1 else ""
        if target.classes:
            best = int(probabilities(target, own).argmax())
            score = _class_odds(scores, places, best, target)
            yield Case(score, member, labels, f"{name}{target.classes[best]}", **fields)
        else:
            answer = f"{name}{rounded(float(own[0]))}"
            yield _number_case(scores, start, member, labels, answer, **fields)
        start += target.width


def _sentence_properties(predictor: SentenceProperties, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    member, labels = _words(predictor.tokenizer, given[0].ids.flatten())
    yield from _target_cases(predictor, out, scores, member, labels)


def _sentence(predictor: SentenceClasses, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    member, labels = _words(predictor.tokenizer, given[0].ids.flatten())
    best = int(out[0].argmax())
    answer = predictor.preprocessing.values["labels"][best]
    yield Case(_row_odds(scores, 0, best), member, labels, answer)


def _tags(predictor: WordTags, value: Any, _: int) -> Iterator[Case]:
    words = predictor.prepare(value)
    given, out, scores = _rows(predictor, value)
    tokens, sizes = given
    member = torch.arange(len(words)).repeat_interleave(sizes)
    start = sizes.cumsum(0) - sizes
    if len(tokens.sizes) > 1:
        raise _too_long(len(member))
    for row, (word, best) in enumerate(zip(words, out.argmax(-1).tolist(), strict=True)):
        own = torch.arange(int(start[row]), int(start[row] + sizes[row]))
        answer = f"{word}: {predictor.preprocessing.values['labels'][best]}"
        yield Case(_row_odds(scores, row, best), member, words, answer, own)


def _hidden_words(predictor: HiddenWords, value: Any, _: int) -> Iterator[Case]:
    given, out, every = _rows(predictor, value)
    member, labels = _words(predictor.tokenizer, given[0].ids.flatten())
    special = special_ids(predictor.tokenizer)

    def scores() -> Tensor:  # Special tokens are excluded, as in the answer.
        return every().index_fill(1, special, -torch.inf)

    out = out.index_fill(1, special, -torch.inf)
    for row, best in enumerate(out.argmax(-1).tolist()):
        word = predictor.tokenizer.decode([best]).strip()
        own = given[1][row].reshape(1)
        yield Case(_row_odds(scores, row, best), member, labels, word, own)


def _continuation(predictor: Continuations, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for the most probable next token, whose members are the last tokens."""
    data: Any = predictor.recipe.data
    ids = predictor.prepare(value)[-data.context :]
    model = predictor.model
    assert isinstance(model, LanguageModel)
    last = torch.tensor([len(ids) - 1])
    tokens = Tokens(ids, torch.tensor([len(ids)]))

    def scores() -> Tensor:
        out: Tensor = model(tokens, last)
        return out

    with torch.no_grad():
        best = int(scores()[0].argmax())
    labels = [data.decode(predictor.tokenizer, one.reshape(1)) for one in ids]
    answer = data.decode(predictor.tokenizer, torch.tensor([best]))
    yield Case(_row_odds(scores, 0, best), torch.arange(len(ids)), labels, answer, last)


def _translation(predictor: Translations, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each token of the translation, whose members are the source words."""
    from edgewise.data.text.packed_texts import PackedTexts
    from edgewise.data.text.parallel import Pairs

    ids = predictor.prepare(value)
    with torch.no_grad():
        text = predictor.answer([ids])[0]["translation"]
    source = PackedTexts(ids, torch.tensor([len(ids)]))
    batch = Pairs.of_sources(predictor.tokenizer, source, [text]).take(torch.tensor([0]))
    member, labels = _words(predictor.tokenizer, ids)
    wanted = batch.target.flatten()

    def scores() -> Tensor:
        out: Tensor = predictor.model(*batch.inputs, **batch.keywords)
        return out.reshape(-1, out.shape[-1])

    for row, best in enumerate(wanted.tolist()):
        if best not in special_ids(predictor.tokenizer).tolist():
            word = predictor.tokenizer.decode([best]).strip()
            yield Case(_row_odds(scores, row, best), member, labels, word)


def _graph_classes(predictor: GraphClasses, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    count, best = given[0].shape[-2], int(out[0].argmax())
    answer = predictor.preprocessing.values["labels"][best]
    labels = [f"node {node}" for node in range(count)]
    score = _row_odds(scores, 0, best)
    yield Case(score, torch.arange(count), labels, str(answer), by_edge=True)


def _property(predictor: PenalisedLogP, value: Any, _: int) -> Iterator[Case]:
    out, scores = _rows(predictor, value)[1:]
    labels = atom_labels(read_smiles(predictor.show(value)))
    member = torch.arange(len(labels))
    yield _number_case(scores, 0, member, labels, rounded(float(out[0, 0])), by_edge=True)


def _properties(predictor: MoleculeProperties, value: Any, _: int) -> Iterator[Case]:
    out, scores = _rows(predictor, value)[1:]
    labels = atom_labels(predictor.prepare(value).molecule)
    member = torch.arange(len(labels))
    yield from _target_cases(predictor, out, scores, member, labels, by_edge=True)


def _class_odds(scores: Scores, places: slice, label: int, target: Target) -> Scores:
    """Return a function that computes the log-odds of a class.

    Args:
        scores: function that computes the outputs of the model.
        places: output columns of the target.
        label: index of the class.
        target: description of the classes. A target of width 1 has two classes and one logit.
    """

    def odds() -> Tensor:
        own = scores()[:1, places]
        if target.width == 1:
            return own[:, 0] if label else -own[:, 0]
        return log_odds(own, torch.tensor([label]))

    return odds


def _number_case(
    scores: Scores, place: int, member: Tensor, labels: list[str], answer: str, **fields: Any
) -> Case:
    return Case(
        lambda: scores()[0, place : place + 1], member, labels, answer, is_odds=False, **fields
    )


def _hidden_atoms(predictor: HiddenAtoms, value: Any, _: int) -> Iterator[Case]:
    one = predictor.prepare(value)
    codes = PrecomputedEncodings(packed([one.molecule]))
    atoms = _flags([(one.molecule.GetNumAtoms(), one.atoms)])
    bonds = _flags([(one.molecule.GetNumBonds(), one.bonds)])
    batch = hide(codes, torch.tensor([0]), atoms, bonds)

    def scores() -> Tensor:
        return batch.select_outputs(predictor.model(*batch.inputs, **batch.keywords))

    with torch.no_grad():
        out = scores()
    labels = atom_labels(one.molecule)
    for row, found in enumerate(out):
        of_atom = row < len(one.atoms)
        allowed = slice(0, ATOM_KINDS) if of_atom else slice(ATOM_KINDS, None)
        best = int(found[allowed].argmax()) + (0 if of_atom else ATOM_KINDS)
        own = torch.tensor([one.atoms[row]]) if of_atom else None
        score = _row_odds(scores, row, best)
        yield Case(score, torch.arange(len(labels)), labels, KINDS[best], own, by_edge=True)


def _image(predictor: ImageClasses, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    embedding = next(
        (part for part in predictor.model.modules() if hasattr(part, "num_patches")), None
    )
    if embedding is None:
        raise ArgumentError(
            "run",
            expected="an image model with patches, such as vit",
            got=type(predictor.model).__name__,
            remedy="train such a model, for example with `edgewise train digits`",
        )
    height, width = given[0].shape[-2:]
    count = int(embedding.num_patches)  # type: ignore[arg-type]
    columns = round(math.sqrt(count * width / height))
    labels = patch_labels(count // columns, columns)
    best = int(out[0].argmax())
    answer = str(predictor.preprocessing.values["labels"][best])
    score = _row_odds(scores, 0, best)
    yield Case(score, torch.arange(count), labels, answer, class_token=True)


def _forecast(predictor: Forecasts, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each forecast value, whose members are the time steps of the history."""
    series = predictor.prepare(value)
    given, out, scores = _rows(predictor, value)
    count = given[0].shape[-1]
    labels = steps_of(series, count)
    for ahead in range(out.shape[-1]):
        yield Case(
            lambda ahead=ahead: scores()[0, ahead : ahead + 1],  # type: ignore[misc]
            torch.arange(count),
            labels,
            f"step {ahead + 1}: {rounded(float(out[0, ahead]))}",
            is_odds=False,
            best="attention",
        )


def _links(predictor: LinkSuggestions, value: Any, top: int) -> Iterator[Case]:
    node = predictor.prepare(value)
    model, ids = predictor.model, predictor.nodes.ids
    assert isinstance(model, LinkPredictor)
    graph = edges(both_ways(predictor.preprocessing.values["known"]), len(ids))
    with torch.no_grad():
        links = predictor.answer([node], top=top, evidence=0)[0]["links"]
    for link in links:
        own = torch.tensor([node, predictor.nodes.number(link["id"])])

        around = edges(graph.edge_index[:, edges_around(graph, own)], len(ids))

        def score(own: Tensor = own, around: Graph = around) -> Tensor:
            return model.score(model.embed(graph), own[:, None], remaining(around))

        member = torch.arange(len(ids))
        # The other methods do not see that an edge makes a common neighbour.
        yield Case(
            score,
            member,
            ids,
            link["id"],
            own,
            by_edge=True,
            whole_graph=True,
            best="removed",
        )


def _recommended(predictor: Recommendations, value: Any, top: int) -> Iterator[Case]:
    user = predictor.prepare(value)
    model, first = predictor.model, len(predictor.users.ids)
    assert isinstance(model, Recommender)
    graph, labels = predictor.graph, [*predictor.users.ids, *predictor.items.ids]
    with torch.no_grad():
        items = predictor.answer([user], top=top, evidence=0)[0]["items"]
    for item in items:
        number = predictor.items.number(item["item"])
        own = torch.tensor([user, first + number])

        def score(own: Tensor = own, number: int = number) -> Tensor:
            return model.scores(model.embed(graph), own[:1], torch.tensor([number]), graph)[0]

        member = torch.arange(len(labels))
        yield Case(
            score, member, labels, item["item"], own, by_edge=True, is_odds=False, whole_graph=True
        )


def _node(predictor: OnNodes, value: Any, _: int) -> Iterator[Case]:
    yield node_cases(predictor).case([predictor.nodes.number(value)])


def node_cases(predictor: OnNodes) -> NodeCases:
    """Return the :class:`NodeCases` of a predictor, which are created only once."""
    if predictor not in _NODE_CASES:
        _NODE_CASES[predictor] = NodeCases(predictor)
    return _NODE_CASES[predictor]


class NodeCases:
    """Cases for nodes of the training graph, each with the neighbourhood that affects its answer.

    The neighbourhoods of several nodes are packed, so that one pass explains all of them. If the
    answers on the neighbourhoods differ from those on the whole graph, as with attention to all
    nodes, each case has the whole graph.

    Args:
        predictor: predictor of a run on nodes.
    """

    def __init__(self, predictor: OnNodes) -> None:
        self.predictor, self.model = predictor, predictor.model
        kept = graph_kept(predictor.preprocessing.values)
        self.x, self.edge_index, self.ids = kept.x, kept.edge_index, kept.ids
        self.is_odds = not isinstance(predictor, NodeProperties)
        self.best = predictor.all_outputs.argmax(-1)
        order = self.edge_index[1].argsort(stable=True)
        self._sources = self.edge_index[0][order]
        self._degree = torch.bincount(self.edge_index[1], minlength=len(self.ids))
        self._start = self._degree.cumsum(0) - self._degree
        self.hops = self._find_hops()

    def _find_hops(self) -> int | None:
        """Return the radius (in hops) of neighbourhoods that give the answers of the whole graph.

        The result is ``None`` if no tested radius does, so that the whole graph is needed.
        """
        tape = Tape()
        with torch.no_grad(), intercepting(tape):
            self.model(self.x, edges(self.edge_index, len(self.ids)))
        size = (len(self.ids), len(self.ids))
        calls = sum((s.graph.num_sources, s.graph.num_targets) == size for s in tape.steps)
        some = torch.arange(0, len(self.ids), max(1, len(self.ids) // 16)).tolist()
        for hops in (calls, calls + 1):
            if hops > 4:
                return None
            with torch.no_grad():
                found = self.case(some, hops).score()
            whole = self._scores(self.predictor.all_outputs[some], some)
            if self.is_odds:
                found, whole = found.sigmoid(), whole.sigmoid()
            # The difference of numbers is relative to their spread, which has their unit.
            spread = 1.0 if self.is_odds else float(self.predictor.all_outputs.std())
            if float((found - whole).abs().max()) <= 1e-4 * spread:
                return hops
        return None

    def _scores(self, outputs: Tensor, nodes: Sequence[int]) -> Tensor:
        """Return the log-odds of the predicted class, or the predicted number, of each node.

        Args:
            outputs: model outputs for these nodes, one row for each node.
            nodes: indices of the nodes in the training graph.
        """
        return log_odds(outputs, self.best[list(nodes)]) if self.is_odds else outputs[:, 0]

    def answer(self, node: int) -> str:
        """Return the predicted class or number of a node as text."""
        if self.is_odds:
            return str(self.predictor.preprocessing.values["labels"][int(self.best[node])])
        return rounded(float(self.predictor.all_outputs[node, 0]))

    def neighbourhood(self, node: int, hops: int) -> tuple[Tensor, int]:
        """Return the nodes from which a node can be reached in a number of steps.

        Args:
            node: index of the node.
            hops: maximum number of steps.

        Returns:
            Indices of the nodes, nearest first, beginning with ``node``; and the number of those
                from which fewer than ``hops`` steps are needed.
        """
        known = torch.tensor([node])
        new, inner = known, 0
        for _ in range(hops):
            inner = len(known)
            count = self._degree[new]
            read = self._sources[ranges(self._start[new], count)].unique()
            new = read[~torch.isin(read, known)]
            known = torch.cat([known, new])
        return known, inner

    def case(self, nodes: Sequence[int], hops: int | None = None) -> Case:
        """Return one case for the predictions of several nodes.

        Args:
            nodes: indices of nodes; a single node if cases have the whole graph.
            hops: number of hops of the neighbourhoods; by default the number that suffices.
        """
        hops = self.hops if hops is None else hops
        answer = ", ".join(map(self.answer, nodes))
        if hops is None:
            graph, member = edges(self.edge_index, len(self.ids)), torch.arange(len(self.ids))
            own, x, labels = torch.tensor(list(nodes)), self.x, list(self.ids)
        else:
            blocks = [self.neighbourhood(node, hops) for node in nodes]
            every = torch.cat([block for block, _ in blocks])
            sizes = torch.tensor([len(block) for block, _ in blocks])
            own = sizes.cumsum(0) - sizes
            graph = edges(self.induced(blocks, own), len(every))
            member = torch.arange(len(every))
            x, labels = rows_of(self.x, every), [self.ids[node] for node in every.tolist()]

        def score() -> Tensor:
            return self._scores(self.model(x, graph)[own], nodes)

        return Case(
            score,
            member,
            labels,
            answer,
            own,
            by_edge=True,
            is_odds=self.is_odds,
            whole_graph=hops is None,
        )

    def contributions(
        self, nodes: Sequence[int], method: Method = "left_out"
    ) -> Iterator[tuple[Case, Contributions]]:
        """Yield the case of each node and its contributions, with many nodes in one pass.

        Args:
            nodes: indices of nodes.
            method: method of :func:`edgewise.explain.contributions`, without ``"removed"``.
        """
        if self.hops is None:
            for node in nodes:
                case = self.case([node])
                yield case, contributions(case, method)
            return
        for first in range(0, len(nodes), AT_ONCE):
            chunk = list(nodes[first : first + AT_ONCE])
            packed_case = self.case(chunk)
            found = contributions(packed_case, method)
            assert packed_case.own is not None
            starts = [*packed_case.own.tolist(), len(packed_case.labels)]
            # Pairs are sorted by the first member, and therefore by block.
            ends = torch.searchsorted(found.pairs[0].contiguous(), torch.tensor(starts)).tolist()
            for place, node in enumerate(chunk):
                start, stop = starts[place : place + 2]
                part = slice(ends[place], ends[place + 1])
                yield (
                    Case(
                        lambda node=node: self.case([node]).score(),  # type: ignore[misc]
                        torch.arange(stop - start),
                        packed_case.labels[start:stop],
                        self.answer(node),
                        torch.tensor([0]),
                        by_edge=True,
                        is_odds=self.is_odds,
                    ),
                    Contributions(
                        found.members[start:stop],
                        found.pairs[:, part] - start,
                        found.edges[part],
                        method,
                    ),
                )

    def induced(self, blocks: Sequence[tuple[Tensor, int]], offset: Tensor) -> Tensor:
        """Return the edges within several neighbourhoods, packed into one graph, ``[2, E]``.

        The nodes of a neighbourhood get consecutive new numbers. Edges into its outermost nodes are
        omitted.

        Args:
            blocks: results of :meth:`neighbourhood`.
            offset: new number of the first node of each block.
        """
        place = torch.full((len(self.ids),), -1)
        found = []
        for (block, inner), start in zip(blocks, offset.tolist(), strict=True):
            place[block] = torch.arange(len(block))
            count = self._degree[block]
            source = place[self._sources[ranges(self._start[block], count)]]
            target = torch.arange(len(block)).repeat_interleave(count)
            # Edges into the outermost nodes are omitted, because the answer does not depend on
            # them.
            inside = (source >= 0) & (target < inner)
            found.append(torch.stack([source[inside], target[inside]]) + start)
            place[block] = -1
        return torch.cat(found, dim=1)


def rows_of(x: Tensor, nodes: Tensor) -> Tensor:
    """Select rows of a dense or compressed sparse matrix.

    Args:
        x: the matrix.
        nodes: indices of the rows.
    """
    if x.layout is torch.strided:
        return x[nodes]
    start, count = x.crow_indices()[nodes], x.crow_indices().diff()[nodes]
    place = ranges(start, count)
    rows = torch.cat([count.new_zeros(1), count.cumsum(0)])
    shape = (len(nodes), x.shape[1])
    return torch.sparse_csr_tensor(rows, x.col_indices()[place], x.values()[place], shape)


def _words(tokenizer: Any, ids: Tensor) -> tuple[Tensor, list[str]]:
    """Join tokens to words.

    Args:
        tokenizer: tokenizer of the run.
        ids: token ids, ``[T]``.

    Returns:
        The word index of each token, ``[T]``, which is -1 for special tokens such as ``[CLS]``; and
        the words.
    """
    special = set(special_ids(tokenizer).tolist())
    member: list[int] = []
    labels: list[str] = []
    ended, marks = True, _marks_words(tokenizer)
    for token in ids.tolist():
        if token in special:
            member.append(-1)
            ended = True
            continue
        piece = tokenizer.id_to_token(token) or ""
        text = piece.removeprefix("##").lstrip("▁Ġ")
        marked = piece.startswith(("▁", "Ġ"))
        joins = piece.startswith("##") or (marks and not marked and text.isalnum())
        if joins and not ended:
            labels[-1] += text
        else:
            labels.append(text or piece)
        member.append(len(labels) - 1)
        ended = False
    return torch.tensor(member), labels


def _marks_words(tokenizer: Any) -> bool:
    """Return whether the tokens at the beginnings of words have a mark, such as ``Ġ``."""
    return any(piece.startswith(("▁", "Ġ")) for piece in list(tokenizer.get_vocab())[:2000])


def _too_long(count: int) -> ArgumentError:
    return ArgumentError(
        "input",
        expected="a sentence that the model reads as a whole",
        got=f"{count} tokens, which the model reads in parts",
        remedy="give a shorter sentence",
    )


_NODE_CASES: WeakKeyDictionary[OnNodes, NodeCases] = WeakKeyDictionary()
_MAKERS: dict[type[Predictor], Callable[[Any, Any, int], Iterator[Case]]] = {
    Continuations: _continuation,
    Forecasts: _forecast,
    GraphClasses: _graph_classes,
    HiddenAtoms: _hidden_atoms,
    HiddenWords: _hidden_words,
    ImageClasses: _image,
    LinkSuggestions: _links,
    MoleculeProperties: _properties,
    NodeClasses: _node,
    NodeProperties: _node,
    PenalisedLogP: _property,
    Recommendations: _recommended,
    SentenceClasses: _sentence,
    SentenceProperties: _sentence_properties,
    Translations: _translation,
    WordTags: _tags,
}
