"""Recovery of syntax trees, and of graphs that the model did not see, from attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.writing import write_figure
from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.runs.run import Run
from edgewise.explain.record import LayerRecord, record
from edgewise.graphs import Graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITERATIONS = 60


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence and its syntax tree.

    Attributes:
        words: the words.
        heads: index of the head of each word, -1 for the root.

    Example:
        >>> from edgewise import explain
        >>> from edgewise.app.explain import Sentence
        >>> sentence = Sentence(["the", "cat", "sleeps"], heads=[1, 2, -1])
        >>> sorted(sentence.edges())
        [(0, 1), (1, 2)]
    """

    words: list[str]
    heads: list[int]

    def edges(self) -> set[tuple[int, int]]:
        """Return the undirected edges between words, the smaller index first."""
        pairs = [(word, head) for word, head in enumerate(self.heads) if head >= 0]
        return {(min(pair), max(pair)) for pair in pairs}


@dataclass(frozen=True)
class Dependencies:
    """Fractions of undirected dependency edges that several methods recover.

    Attributes:
        chain: baseline without a model that connects neighbouring words.
        offset: baseline that connects words at a distance d: the best d from 2 to 5, and its
            fraction.
        heads: for each head, as ``"layer/head"``: maximum spanning tree over the head's weights.
        mean: tree over the mean weights of all heads.
        combined: tree over a linear combination of all heads, fitted on other sentences.
        fitted: number of sentences used to fit the combination.
        tested: number of test sentences, on which all fractions are measured.
        trees: undirected edges of each test sentence, from the linear combination.
    """

    chain: float
    offset: tuple[int, float]
    heads: dict[str, float] = field(repr=False)
    mean: float
    combined: float
    fitted: int
    tested: int
    trees: list[set[tuple[int, int]]] = field(default_factory=list, repr=False)

    @property
    def best(self) -> tuple[str, float]:
        """The head with the highest fraction, chosen on the same sentences."""
        name = max(self.heads, key=lambda name: self.heads[name])
        return name, self.heads[name]


def dependencies(run: Run, sentences: Sequence[Sentence], *, fitted: int) -> Dependencies:
    """Predict dependency edges from the attention weights of a run that tags words.

    The weight of a pair of words is the sum of the attention weights in both directions, summed
    over the tokens of the source and averaged over the tokens of the target. The maximum spanning
    tree over all words is compared with the syntax tree (Raganato and Tiedemann, 2018).

    Args:
        run: run of a tagger with attention, such as tag-ewt.
        sentences: sentences with their trees.
        fitted: number of sentences, from the first one, for the linear combination of heads. The
            others are the test set.

    Raises:
        ArgumentError: the run does not tag words, or no sentences are left to test.

    """
    if not isinstance(run.predictor, WordTags):
        raise ArgumentError(
            "run",
            expected="a run that tags words, such as tag-ewt",
            got=f"a run of {run.recipe.name}",
            remedy="train a tagger, for example with `edgewise train tag-ewt`",
        )
    if not 0 < fitted < len(sentences):
        raise ArgumentError(
            "fitted",
            expected=f"a number of sentences from 1 to {len(sentences) - 1}",
            got=str(fitted),
            remedy="choose about half of the sentences",
        )
    names: list[str] = []
    weights: list[Tensor] = []
    for sentence in sentences:
        names, found = _word_weights(run, sentence.words)
        weights.append(found)
    scale = torch.cat([found.flatten(1) for found in weights[:fitted]], 1).std(1).clamp(min=1e-12)
    weights = [found / scale[:, None, None] for found in weights]
    combination = _fit(weights[:fitted], sentences[:fitted])
    tested = sentences[fitted:]
    rest = weights[fitted:]

    def fraction(trees: Sequence[set[tuple[int, int]]]) -> float:
        right = sum(
            len(tree & sentence.edges()) for tree, sentence in zip(trees, tested, strict=True)
        )
        return right / max(sum(len(sentence.edges()) for sentence in tested), 1)

    def at_distance(distance: int) -> float:
        return fraction(
            [
                {(word, word + distance) for word in range(len(sentence.words) - distance)}
                for sentence in tested
            ]
        )

    offsets = {distance: at_distance(distance) for distance in range(2, 6)}
    best = max(offsets, key=lambda distance: offsets[distance])
    trees = [_tree(_scores(found, combination)) for found in rest]
    return Dependencies(
        chain=at_distance(1),
        offset=(best, offsets[best]),
        heads={
            name: fraction([_tree(found[place]) for found in rest])
            for place, name in enumerate(names)
        },
        mean=fraction([_tree(found.mean(0)) for found in rest]),
        combined=fraction(trees),
        fitted=fitted,
        tested=len(tested),
        trees=trees,
    )


def draw_tree(
    sentence: Sentence, tree: set[tuple[int, int]], *, path: str | Path | None = None
) -> Figure:
    """Draw the edges of a syntax tree above a sentence, and recovered edges below it.

    Edges in both trees are blue. Edges of the syntax tree that were not recovered are grey, and
    recovered edges that are not in the syntax tree are red and dashed.

    Args:
        sentence: the sentence and its syntax tree.
        tree: recovered edges, the smaller index first, such as an entry of
            ``Dependencies.trees``.
        path: file to which the figure is saved.

    Example:
        >>> from edgewise import explain
        >>> from edgewise.app.explain import Sentence, draw_tree
        >>> sentence = Sentence(["the", "cat", "sleeps"], heads=[1, 2, -1])
        >>> figure = draw_tree(sentence, {(0, 1), (0, 2)})  # a matplotlib figure
    """
    require("matplotlib", extra="plot", purpose="drawing trees")
    from matplotlib.figure import Figure
    from matplotlib.patches import Arc

    count, right = len(sentence.words), sentence.edges()
    figure = Figure(figsize=(min(24, 1.0 + 0.85 * count), 4.2), layout="constrained")
    axes = figure.subplots()
    for place, word in enumerate(sentence.words):
        axes.text(place, 0, word.replace("$", r"\$"), ha="center", va="center", fontsize=10)
    for edges, side in ((right, 1), (tree, -1)):
        for first, last in edges:
            kind = "found" if (first, last) in right & tree else "wrong" if side < 0 else "missed"
            colour, style = {
                "found": ("#1f6feb", "-"),
                "missed": ("#8795a8", "-"),
                "wrong": ("#d1495b", "--"),
            }[kind]
            start, stop = (0, 180) if side > 0 else (180, 360)
            middle, length = ((first + last) / 2, 0.3 * side), last - first
            axes.add_patch(
                Arc(
                    middle,
                    length,
                    length,
                    theta1=start,
                    theta2=stop,
                    color=colour,
                    ls=style,
                    lw=1.6,
                )
            )
    above, below = (max((j - i for i, j in edges), default=1) / 2 for edges in (right, tree))
    axes.set(xlim=(-0.7, count - 0.3), ylim=(-0.6 - below, 0.6 + above))
    axes.set_axis_off()
    axes.set_title(
        f"above: syntax tree, below: read off the attention ({len(right & tree)} of {len(right)} "
        "edges, blue)",
        fontsize=10,
    )
    if path is not None:
        write_figure(path, figure)
    return figure


def edge_recovery(layers: Sequence[LayerRecord], graph: Graph) -> dict[str, float]:
    """Compute how well the weights of each head separate edges of a graph from other pairs.

    Args:
        layers: recorded weights of a model on the complete graph, without batch dimensions.
        graph: graph of the same nodes, which the model did not see.

    Returns:
        Area under the ROC curve by ``"layer/head"``: the probability that an edge has a larger
        weight than a pair that is no edge. Weights of both directions are added. ``"mean"`` is the
        mean of all heads.

    Raises:
        ArgumentError: no layer has all pairs of the nodes of the graph.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> from edgewise.app.explain import edge_recovery
        >>> layer, ring = layers.MultiHeadAttention(8, heads=2), graphs.grid(2, 2).bind(4)
        >>> with explain.record(layer) as recorded:
        ...     _ = layer(torch.randn(4, 8), graphs.complete())
        >>> sorted(edge_recovery(recorded.layers, ring))
        ['MultiHeadAttention/0', 'MultiHeadAttention/1', 'mean']
    """
    count = graph.num_targets
    low, high = torch.triu_indices(count, count, 1)
    is_edge = torch.zeros(count, count, dtype=torch.bool)
    is_edge[graph.target, graph.source] = True
    is_edge = (is_edge | is_edge.T)[low, high]
    found: dict[str, float] = {}
    total = torch.zeros(len(low))
    for layer in layers:
        full = layer.graph.num_edges == count * count and layer.edges is None
        if not full or layer.graph.num_targets != count:
            continue
        for place, head in enumerate(layer.heads):
            matrix = torch.zeros(count, count)
            matrix[layer.graph.target, layer.graph.source] = layer.weights[..., place].float()
            values = (matrix + matrix.T)[low, high]
            total += values / values.mean()
            found[f"{layer.name}/{head}"] = roc_auc(values, is_edge)
    if not found:
        raise ArgumentError(
            "layers",
            expected=f"a layer with all pairs of {count} nodes",
            got=", ".join(layer.name for layer in layers) or "none",
            remedy="record a model on the complete graph, and raise max_edges=",
        )
    return found | {"mean": roc_auc(total, is_edge)}


def roc_auc(values: Tensor, positive: Tensor) -> float:
    """Return the area under the ROC curve; equal values count one half.

    Args:
        values: predicted value of each of P examples, ``[P]``.
        positive: boolean mask ``[P]``, true for positive examples.
    """
    _, place, counts = values.unique(return_inverse=True, return_counts=True)
    rank = counts.cumsum(0).double() - (counts.double() - 1) / 2
    many = int(positive.sum())
    total = float(rank[place[positive]].sum()) - many * (many + 1) / 2
    return total / max(many * (len(values) - many), 1)


def _word_weights(run: Run, words: list[str]) -> tuple[list[str], Tensor]:
    """Return the attention weights between the words of a sentence, for each head.

    Args:
        run: run of a tagger.
        words: the W words.

    Returns:
        Names of the heads, as ``"layer/head"``; and the weights of both directions added,
        ``[heads, W, W]``.
    """
    predictor = run.predictor
    assert isinstance(predictor, WordTags)
    sizes: list[Tensor] = []
    hook = run.model.register_forward_pre_hook(lambda _, given: sizes.append(given[1]))
    try:
        with torch.no_grad(), record(run.model) as recorded:
            predictor.answer([predictor.prepare(words)])
    finally:
        hook.remove()
    size = sizes[-1].to(torch.long)
    word = torch.arange(len(size)).repeat_interleave(size)
    names, found = [], []
    for layer in recorded.layers:
        graph = layer.graph
        if graph.num_targets != len(word) or graph.num_sources != len(word):
            continue
        place = word[graph.target] * len(size) + word[graph.source]
        summed = torch.zeros(len(size) ** 2, len(layer.heads))
        summed.index_add_(0, place, layer.weights.reshape(-1, graph.num_edges, len(layer.heads))[0])
        matrix = summed.view(len(size), len(size), -1) / size[:, None, None]
        found += list((matrix + matrix.transpose(0, 1)).unbind(-1))
        names += [f"{layer.name}/{head}" for head in layer.heads]
    return names, torch.stack(found)


def _tree(weights: Tensor) -> set[tuple[int, int]]:
    """Return the edges of the maximum spanning tree over a symmetric matrix (Prim, 1957)."""
    count = len(weights)
    best, parent = weights[0].clone(), torch.zeros(count, dtype=torch.long)
    inside = torch.zeros(count, dtype=torch.bool)
    inside[0] = True
    edges = set()
    for _ in range(count - 1):
        new = int(best.masked_fill(inside, -torch.inf).argmax())
        other = int(parent[new])
        edges.add((min(new, other), max(new, other)))
        inside[new] = True
        closer = weights[new] > best
        best, parent = torch.where(closer, weights[new], best), parent.masked_fill(closer, new)
    return edges


def _scores(weights: Tensor, combination: Tensor) -> Tensor:
    """Return the log-odds of an edge for each pair of words, up to a constant, ``[W, W]``.

    Args:
        weights: weights between words for each head, ``[heads, W, W]``.
        combination: coefficient of each head, ``[heads]``.
    """
    return torch.einsum("hij,h->ij", weights, combination)


def _fit(weights: Sequence[Tensor], sentences: Sequence[Sentence]) -> Tensor:
    """Fit a logistic regression that predicts syntax edges from the weights of all heads.

    Args:
        weights: weights between words of each sentence, ``[heads, W, W]``.
        sentences: sentences with their trees.

    Returns:
        Coefficient of each head, ``[heads]``.
    """
    features, labels = [], []
    for found, sentence in zip(weights, sentences, strict=True):
        low, high = torch.triu_indices(found.shape[1], found.shape[1], 1)
        edges = sentence.edges()
        pairs = zip(low.tolist(), high.tolist(), strict=True)
        features.append(found[:, low, high].T)
        labels += [float(pair in edges) for pair in pairs]
    x, y = torch.cat(features), torch.tensor(labels)
    weight = torch.zeros(x.shape[1] + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = x @ weight[1:] + weight[0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
        loss = loss + 1e-4 * weight[1:].square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return weight.detach()[1:]
