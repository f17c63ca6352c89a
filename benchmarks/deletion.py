"""Effects of parts that are deleted from the input itself, beside the contributions of each method.

    python -m benchmarks.deletion RUN [--input FILE] [--cases 100] [--judge]

The parts are deleted one at a time, without using the explanation:

* word: a new text without it. The tag in the middle of a sentence is explained.
* atom or bond: a new molecule without it, whose ends get hydrogens. Atoms and bonds without which
  the molecule is not connected are left out.
* edge or node of a graph whose class is predicted: a new graph without it.
* citation or other edge of a node, link or recommended item: the whole training graph without it; a
  node: without its edges.
* word of a text to translate: a new text without it. The token in the middle of the translation is
  explained.
* tenth of a second: zeros instead of its samples (silent), or a recording without them (cut).
* patch: its mean over images (mean), or black.
* value of a series: the mean of the history, for the first and the last forecast.

The effects on the log-odds of the class, or on the number, are compared with the contributions of
each method by Spearman's rank correlation and by the fraction of equal signs (mean ± standard
deviation over inputs), and by how often the part with the largest absolute contribution has the
largest absolute effect, or one of the three largest. Parts are members, such as words, atoms or
nodes, or the edges of links.

``--judge`` reads each page as a reader does: it prints the first reason of the page, atom or bond,
node or edge, and the rank of its absolute effect among those of all deleted parts. If a page's
first reason cannot be deleted, such as a bond between two halves of a molecule, the input is
skipped.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import torch
from scipy.stats import spearmanr
from torch import Tensor

import edgewise
from benchmarks.fidelity import METHODS, inputs_of
from edgewise._utils.errors import ArgumentError
from edgewise.app.explain import cases
from edgewise.app.kinds.graphs.data import GraphInput
from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.kinds.items.predict import Recommendations
from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.kinds.molecules.predict import MoleculeProperties
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.kinds.nodes.predict import OnNodes
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.sounds.files import Recording, read_recording
from edgewise.app.kinds.sounds.predict import SoundClasses
from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.predict.cases import log_odds, model_call
from edgewise.app.runs import Run
from edgewise.app.train.text.tokenizer import special_ids
from edgewise.explain.attribution import (
    Case,
    Contributions,
    Method,
    contributions,
    listed,
    named_pairs,
)
from edgewise.explain.reasons import reasons_of
from edgewise.graphs import Graph, TypedGraph, edges

FEWEST, MOST = 3, 300
"""Minimum number of deleted parts of an input, and maximum number of those of a node or link."""
Part = int | tuple[int, int]
"""Index of a member, or indices of the two members that an edge joins."""
Effects = dict[str, dict[Part, float]]
"""Decrease of the score without each part, by the kind of deletion."""


def texts_without(words: list[str]) -> dict[Part, str]:
    """Return the text without each word, by the position of the word."""
    return {i: " ".join(words[:i] + words[i + 1 :]) for i in range(len(words))}


def molecules_without(smiles: str) -> dict[Part, str]:
    """Return the SMILES without each atom and bond, by the indices of atoms, where one valid
    molecule remains.
    """
    from rdkit import Chem, rdBase

    molecule = Chem.MolFromSmiles(smiles)
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    rest: dict[Part, str] = {}
    with rdBase.BlockLogs():
        for part in (*range(molecule.GetNumAtoms()), *bonds):
            edited = Chem.RWMol(molecule)
            if isinstance(part, tuple):
                ends = [edited.GetAtomWithIdx(atom) for atom in part]
                edited.RemoveBond(*part)
            else:
                ends = list(edited.GetAtomWithIdx(part).GetNeighbors())
            for atom in ends:
                atom.SetNoImplicit(False)
            if not isinstance(part, tuple):
                edited.RemoveAtom(part)
            text = Chem.MolToSmiles(edited)
            if text and "." not in text and Chem.MolFromSmiles(text) is not None:
                rest[part if isinstance(part, int) else (min(part), max(part))] = text
    return rest


def graphs_without(graph: GraphInput) -> dict[Part, GraphInput]:
    """Return the graph without each node and each edge."""
    source, target = graph.edge_index
    rest: dict[Part, GraphInput] = {}
    for first, second in {(min(pair), max(pair)) for pair in graph.edge_index.T.tolist()}:
        if first != second:
            index = graph.edge_index[:, ~_joins(graph.edge_index, first, second)]
            rest[first, second] = graph._replace(edge_index=index)
    for node in range(len(graph.x)):
        index = graph.edge_index[:, (source != node) & (target != node)]
        x = torch.cat([graph.x[:node], graph.x[node + 1 :]])
        rest[node] = graph._replace(x=x, edge_index=index - (index > node).long())
    return rest


def _joins(edge_index: Tensor, first: int, second: int) -> Tensor:
    """Return whether each edge joins two nodes, in any direction."""
    ends = torch.tensor([[first], [second]])
    return (edge_index == ends).all(0) | (edge_index == ends.flip(0)).all(0)


def recordings_without(recording: Recording, tenths: int) -> dict[str, dict[Part, Recording]]:
    """Return the recording with each tenth of a second silent, and without it."""
    samples, rate = recording
    silent: dict[Part, Recording] = {}
    cut: dict[Part, Recording] = {}
    for tenth in range(tenths):
        start, stop = round(tenth * 0.1 * rate), round((tenth + 1) * 0.1 * rate)
        before, after = samples[:start], samples[stop:]
        zeros = torch.zeros(len(samples) - len(before) - len(after))
        silent[tenth] = Recording(torch.cat([before, zeros, after]), rate)
        cut[tenth] = Recording(torch.cat([before, after]), rate)
    return {"silent": silent, "cut": cut}


@torch.no_grad()
def effects(predictor: Any, value: Any) -> Iterator[tuple[Case, Effects]]:
    """Yield cases of an input, with the effects of deleting parts from it."""
    explained = cases(predictor, value)
    if isinstance(predictor, Forecasts):
        yield from _of_steps(predictor, value, explained)
        return
    for of_token, effects_on_token in OF_TOKENS.items():
        if isinstance(predictor, of_token):
            yield effects_on_token(predictor, value, explained)
            return
    case = explained[0]  # Of several properties, the first.
    for of_graph, effects_in_graph in OF_GRAPHS.items():
        if isinstance(predictor, of_graph):
            yield case, {"deleted": effects_in_graph(predictor, value, case)}
            return
    examples: dict[str, dict[Part, Any]]
    if isinstance(predictor, MoleculeProperties):
        rest = molecules_without(str(predictor.show(value)))
        examples = {"deleted": {part: predictor.prepare(text) for part, text in rest.items()}}
    elif isinstance(predictor, GraphClasses):
        examples = {"deleted": dict(graphs_without(predictor.prepare(value)))}
    elif isinstance(predictor, SoundClasses):
        deleted = recordings_without(read_recording(Path(value)), len(case.labels))
        values = predictor.preprocessing.values
        examples = {
            name: {part: predictor.recipe.data.to_tokens(x, values) for part, x in rest.items()}
            for name, rest in deleted.items()
        }
    elif isinstance(predictor, ImageClasses):
        examples = dict(_of_patches(predictor, value, len(case.labels)))
    else:
        rest = texts_without(list(case.labels)) if " ".join(case.labels) == value else {}
        examples = {"deleted": {part: predictor.prepare(text) for part, text in rest.items()}}
    answer = model_call(predictor, predictor.prepare(value))[1].argmax(1)
    by_deletion: Effects = {}
    for name, without in examples.items():
        if len(without) >= FEWEST:
            out = model_call(predictor, *without.values())[1]
            rows = log_odds(out, answer.expand(len(out))) if case.is_odds else out[:, 0]
            decreases = (case.score() - rows).tolist()
            by_deletion[name] = dict(zip(without, decreases, strict=True))
    yield case, by_deletion


def _of_tag(predictor: WordTags, _: Any, explained: list[Case]) -> tuple[Case, Effects]:
    """Return the tag in the middle of a sentence, with its decrease without each other word."""
    target = len(explained) // 2
    case, words = explained[target], list(explained[target].labels)
    label = model_call(predictor, words)[1][target].argmax().reshape(1)
    deleted: dict[Part, float] = {}
    for word in range(len(words)):
        if word != target:
            out = model_call(predictor, words[:word] + words[word + 1 :])[1]
            row = out[target - (word < target)][None]
            deleted[word] = float(case.score() - log_odds(row, label))
    return case, {"deleted": deleted} if len(deleted) >= FEWEST else {}


def _of_translation(
    predictor: Translations, text: str, explained: list[Case]
) -> tuple[Case, Effects]:
    """Return the token in the middle of a translation, with its decrease without each word."""
    number = len(explained) // 2
    case, words = explained[number], list(explained[number].labels)
    translation = predictor.answer([predictor.prepare(text)])[0]["translation"]
    special = special_ids(predictor.tokenizer)

    def score(text: str) -> Tensor:
        batch = predictor.pair_batch([predictor.prepare(text)], [translation])
        row = (~torch.isin(batch.target, special)).nonzero()[number]
        scores = predictor.model(*batch.inputs)
        return log_odds(scores.reshape(-1, scores.shape[-1])[row], batch.target[row])

    rest = texts_without(words) if " ".join(words) == text else {}
    deleted = {part: float(case.score() - score(shorter)) for part, shorter in rest.items()}
    return case, {"deleted": deleted} if len(deleted) >= FEWEST else {}


def _of_node(predictor: OnNodes, value: Any, case: Case) -> dict[Part, float]:
    """Return the decrease of a node's score if an edge, or all edges of another node, are deleted
    from the training graph.
    """
    training = saved_graph(predictor.preprocessing.values)
    node = predictor.nodes.number(value)
    best = predictor.logits(predictor.all_outputs[[node]]).argmax(-1)
    numbers = [predictor.nodes.number(label) for label in case.labels]

    def score(graph: Graph) -> Tensor:
        out = predictor.model(training.x, graph)[[node]]
        return log_odds(predictor.logits(out), best) if case.is_odds else out[:, 0]

    return _of_edges(case, training.graph, numbers, score)


def _of_link(predictor: LinkSuggestions, value: Any, case: Case) -> dict[Part, float]:
    """Return the decrease of a link's score if an edge is deleted from the training graph."""
    model: Any = predictor.model
    ends = torch.tensor([[predictor.nodes.number(value)], [predictor.nodes.number(case.answer)]])

    def score(graph: Graph) -> Tensor:
        scores: Tensor = model.score(model.embed(graph), ends, graph)
        return scores

    return _of_edges(case, predictor.graph, range(len(case.labels)), score)


def _of_item(predictor: Recommendations, _: Any, case: Case) -> dict[Part, float]:
    """Return the decrease of a recommended item's score if an interaction is deleted from the
    training graph.
    """
    model: Any = predictor.model
    assert case.own is not None
    user, item = case.own[:1], predictor.items.number(case.answer)

    def score(graph: Graph) -> Tensor:
        scores: Tensor = model.scores(model.embed(graph), user, torch.tensor([item]), graph)
        return scores[0]

    return _of_edges(case, predictor.graph, range(len(case.labels)), score)


def _of_edges(
    case: Case, graph: Graph, numbers: Sequence[int], score: Callable[[Graph], Tensor]
) -> dict[Part, float]:
    """Return the decrease of a score without each edge and node of a case; members have these
    numbers in the graph. If edges of a large graph are explained, nodes are not deleted. A case
    with too many parts has none.
    """
    pairs = contributions(case, "attention").pairs
    parts = [*parts_of(case, pairs)]
    index, whole = graph.edge_index, float(score(graph))
    deleted: dict[Part, float] = {}
    for part in parts if FEWEST <= len(parts) <= MOST else ():
        if isinstance(part, tuple):
            gone = _joins(index, *(numbers[member] for member in part))
        else:
            gone = (index == numbers[part]).any(0)
        if isinstance(graph, TypedGraph):
            rest: Graph = graph.select(~gone)
        else:
            rest = edges(index[:, ~gone], graph.num_targets)
        deleted[part] = whole - float(score(rest))
    return deleted


OF_TOKENS: dict[type, Callable[..., tuple[Case, Effects]]] = {
    WordTags: _of_tag,
    Translations: _of_translation,
}
OF_GRAPHS: dict[type, Callable[..., dict[Part, float]]] = {
    OnNodes: _of_node,
    LinkSuggestions: _of_link,
    Recommendations: _of_item,
}


def _of_patches(predictor: Any, image: Any, count: int) -> dict[str, dict[Part, Tensor]]:
    """Return the image with each patch replaced by its mean over digits, and by black."""
    digits = islice(inputs_of_digits(predictor), 40)
    mean = torch.stack([predictor.prepare(digit) for digit in digits]).mean(0)
    black, x = predictor.prepare(image.point(lambda _: 0)), predictor.prepare(image)
    side = x.shape[-1] // round(count**0.5)
    replaced: dict[str, dict[Part, Tensor]] = {"mean": {}, "black": {}}
    for name, fill in (("mean", mean), ("black", black)):
        for patch in range(count):
            top, left = (side * n for n in divmod(patch, x.shape[-1] // side))
            where = slice(top, top + side), slice(left, left + side)
            replaced[name][patch] = x.clone()
            replaced[name][patch][..., *where] = fill[..., *where]
    return replaced


def inputs_of_digits(predictor: Any) -> Iterator[Any]:
    """Yield the digits of :func:`benchmarks.fidelity.inputs_of`."""
    yield from inputs_of(argparse.Namespace(predictor=predictor), None)  # type: ignore[arg-type]


def _of_steps(
    predictor: Forecasts, values: Any, explained: list[Case]
) -> Iterator[tuple[Case, Effects]]:
    """Yield the first and the last forecast of a history, with its decrease without each step."""
    (history,), out = model_call(predictor, predictor.prepare(values))
    steps = torch.arange(history.shape[-1])
    replaced = history.repeat(len(steps), 1)
    replaced[steps, steps] = history.mean()
    decrease = out - predictor.model(replaced)
    for ahead in (0, -1):
        yield explained[ahead], {"mean": dict(enumerate(decrease[:, ahead].tolist()))}


def parts_of(case: Case, pairs: Tensor) -> Iterator[Part]:
    """Yield the parts that an explanation of a case lists: members, then edges."""
    if not (case.by_edge and case.whole_graph):
        yield from listed(case).nonzero()[:, 0].tolist()
    if case.by_edge:
        yield from map(tuple, pairs[:, named_pairs(case, pairs)].T.tolist())


def values_of(case: Case, scores: Contributions) -> dict[Part, float]:
    """Return the contribution of each part."""
    of_pair = dict(zip(map(tuple, scores.pairs.T.tolist()), scores.edges.tolist(), strict=True))
    return {
        part: of_pair[part] if isinstance(part, tuple) else float(scores.members[part])
        for part in parts_of(case, scores.pairs)
    }


def rank_of(deleted: Tensor, index: int) -> int:
    """Return the rank of the absolute effect of a part; equal effects have the same rank."""
    tolerance = 1e-4 * deleted.abs().max()
    return 1 + int((deleted.abs() > deleted[index].abs() + tolerance).sum())


def comparison(values: Tensor, deleted: Tensor) -> tuple[float, float, float, float]:
    """Return rank correlation, fraction of equal signs, and whether the part with the strongest
    value is the first, and one of the first three, by deletion. Equal effects of all parts have no
    ranks, NaN.
    """
    rank = rank_of(deleted, int(values.abs().argmax()))
    is_same = (values.sign() == deleted.sign()).float().mean()
    if deleted.eq(deleted[0]).all():
        correlation = torch.nan
    elif values.eq(values[0]).all():
        correlation = 0.0
    else:
        correlation = float(spearmanr(values, deleted).statistic)
    return correlation, float(is_same), float(rank == 1), float(rank <= 3)


def compared(case: Case, by_deletion: Effects) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield kind of deletion, method and :func:`comparison`, for members, or edges without them."""
    for method in METHODS:
        values = values_of(case, contributions(case, method))
        for name, deleted in by_deletion.items():
            members: list[Part] = [part for part in deleted if not isinstance(part, tuple)]
            parts = members or [*deleted]
            vectors = (torch.tensor([by[part] for part in parts]) for by in (values, deleted))
            yield name, method, comparison(*vectors)


def judged(
    case: Case, deleted: dict[Part, float], method: Method = "auto"
) -> tuple[str, int] | None:
    """Return the first reason of the page of a case and the rank of its effect by deletion; None if
    it was not deleted.
    """
    scores = contributions(case, method)
    reasons = reasons_of(case, scores)
    values = values_of(case, scores).items()
    first = next((p for p, v in values if reasons and v == reasons[0].contribution), None)
    if first is None or first not in deleted:
        return None
    return reasons[0].part, rank_of(torch.tensor([*deleted.values()]), [*deleted].index(first))


def explained_inputs(
    run: Run, path: Path | None
) -> Iterator[tuple[Any, list[tuple[Case, Effects]]]]:
    """Yield inputs, with their cases and effects by deletion."""
    for value in inputs_of(run, path):
        explained: list[tuple[Case, Effects]] = []
        with suppress(ArgumentError):
            explained = [pair for pair in effects(run.predictor, value) if any(pair[1].values())]
        if explained:
            yield value, explained


def judge(run: Run, path: Path | None, count: int, method: Method) -> None:
    """Print the first reason of the pages of inputs, and the rank of its effect by deletion."""
    ranks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    skipped = 0
    for value, explained in explained_inputs(run, path):
        case, by_deletion = explained[0]
        rows = {name: judged(case, deleted, method) for name, deleted in by_deletion.items()}
        if None in rows.values():
            skipped += 1
            continue
        text = value.name if isinstance(value, Path) else run.predictor.show(value)
        for name, row in rows.items():
            assert row is not None
            reason, rank = row
            ranks[name].append((rank, len(by_deletion[name])))
            print(f"{text[:60]}: {case.answer}: {reason}: {name}, {rank} of {ranks[name][-1][1]}")
        if len(ranks[name]) == count:
            break
    for name, pairs in ranks.items():
        firsts = sum(rank == 1 for rank, _ in pairs)
        chance = sum(1 / parts for _, parts in pairs)
        print(
            f"{run.path.name}, {name}: the first reason has the largest effect on {firsts} of "
            f"{len(pairs)} pages (a random part: {chance:.1f}); {skipped} inputs skipped",
            flush=True,
        )


def main() -> None:
    """Print the agreement of each method, or of pages, with deletion."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--input", type=Path, metavar="FILE", help="inputs")
    parser.add_argument("--cases", type=int, default=100, help="number of inputs")
    parser.add_argument("--judge", action="store_true", help="judge the first reason of each page")
    help_ = "method of the judged reasons (default: that of the page)"
    parser.add_argument("--method", choices=get_args(Method), default="auto", help=help_)
    arguments = parser.parse_args()
    run = edgewise.load(arguments.run)
    if arguments.judge:
        judge(run, arguments.input, arguments.cases, arguments.method)
        return
    rows = defaultdict(list)
    count = 0
    for _, explained in islice(explained_inputs(run, arguments.input), arguments.cases):
        count += 1
        for case, by_deletion in explained:
            for name, method, row in compared(case, by_deletion):
                rows[name, method].append(row)
    print(f"{arguments.run.name}: {count} inputs")
    print(f"{'deletion':8} {'method':20} {'Spearman':>15} {'equal signs':>15} first  of three")
    for (name, method), values in rows.items():
        table = torch.tensor(values)
        table = table[~table.isnan().any(1)]
        (rank, signs, first, three), spreads = table.mean(0).tolist(), table.std(0).tolist()
        print(
            f"{name:8} {method:20} {rank:6.3f} ± {spreads[0]:.3f} {signs:8.3f} ± {spreads[1]:.3f}"
            f" {first:6.2f} {three:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
