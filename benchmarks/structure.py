"""How well the attention weights of a trained model identify edges that it was not given.

    python -m benchmarks.structure --tags RUN --conllu FILE [--sentences 1000] [--draw FILE]
    python -m benchmarks.structure --hidden RUN [--draw FILE]
    python -m benchmarks.structure --process 40

``--tags RUN`` predicts the dependency edges of sentences from the attention of a run of tag-ewt. A
combination of heads is fitted on half of the sentences. ``--draw`` draws the first tested sentence
of 8 to 14 words.

``--hidden RUN`` needs a run of node classification in which all nodes attend to all nodes and edges
are not used, such as gps-cora with ``--model.local none``. The attention weights, and the cosine
similarity of the features, are compared with the edges of the graph.

``--process N`` trains one layer of attention over all nodes of a random graph with N nodes. Each
node has a random number, and the layer must predict the mean of its neighbours' numbers, although
it does not know the edges.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

import edgewise
from edgewise import explain, graphs, layers
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.kinds.tags.conllu import read_conllu
from edgewise.encodings import Learned
from edgewise.explain.record import record

LONGEST = 40
"""Sentences with more words are left out, because the tagger would split them."""
PENALTY = 1e-4
"""Weight of the squared coefficients in the mean loss of the combination of heads."""
Tree = set[tuple[int, int]]
"""Undirected edges between words, the smaller index first."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence and its syntax tree.

    Attributes:
        words: the words.
        heads: index of the head of each word, -1 for the root.
    """

    words: list[str]
    heads: list[int]

    def edges(self) -> Tree:
        """Return the undirected edges between words."""
        pairs = [(word, head) for word, head in enumerate(self.heads) if head >= 0]
        return {(min(pair), max(pair)) for pair in pairs}


@dataclass(frozen=True)
class Dependencies:
    """Fractions of undirected dependency edges that several methods recover.

    Attributes:
        distances: baselines without a model that connect words at a distance from 1 to 5.
        heads: for each head, as ``"layer/head"``: maximum spanning tree over the head's weights.
        mean: tree over the mean weights of all heads.
        combined: tree over a linear combination of all heads, fitted on other sentences.
        trees: tree of each test sentence, from the linear combination.
    """

    distances: dict[int, float]
    heads: dict[str, float]
    mean: float
    combined: float
    trees: list[Tree]


def dependencies(
    run: edgewise.Run, train: Sequence[Sentence], test: Sequence[Sentence]
) -> Dependencies:
    """Predict dependency edges from the attention weights of a run that tags words.

    The weight of a pair of words is the sum of the attention weights in both directions, summed
    over the tokens of the source and averaged over the tokens of the target. The maximum spanning
    tree over all words is compared with the syntax tree (Raganato and Tiedemann, 2018).

    Args:
        run: run of a tagger with attention, such as tag-ewt.
        train: sentences on which the linear combination of heads is fitted.
        test: sentences on which all fractions are measured.
    """
    weights, names = [], list[str]()
    for sentence in (*train, *test):
        names, word_pairs = word_weights(run, sentence.words)
        weights.append(word_pairs)
    flat = torch.cat([matrices.flatten(1) for matrices in weights[: len(train)]], 1)
    scale = flat.std(1).clamp(min=1e-12)[:, None, None]
    weights = [matrices / scale for matrices in weights]
    coefficients = fit(weights[: len(train)], train)
    test_weights = weights[len(train) :]

    def fraction(trees: Sequence[Tree]) -> float:
        right = sum(
            len(tree & sentence.edges()) for tree, sentence in zip(trees, test, strict=True)
        )
        return right / max(sum(len(sentence.edges()) for sentence in test), 1)

    def chains(distance: int) -> list[Tree]:
        counts = [len(sentence.words) for sentence in test]
        return [{(word, word + distance) for word in range(n - distance)} for n in counts]

    trees = [
        spanning_tree(torch.einsum("hij,h->ij", matrices, coefficients))
        for matrices in test_weights
    ]
    return Dependencies(
        distances={distance: fraction(chains(distance)) for distance in range(1, 6)},
        heads={
            name: fraction([spanning_tree(matrices[head]) for matrices in test_weights])
            for head, name in enumerate(names)
        },
        mean=fraction([spanning_tree(matrices.mean(0)) for matrices in test_weights]),
        combined=fraction(trees),
        trees=trees,
    )


def word_weights(run: edgewise.Run, words: list[str]) -> tuple[list[str], Tensor]:
    """Return the names of the heads, and the weights between words, ``[heads, W, W]``.

    The weights of both directions are added.
    """
    sizes: list[Tensor] = []
    hook = run.model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[1]))
    try:
        with torch.no_grad(), record(run.model) as recorded:
            run.predictor.answer([run.predictor.prepare(words)])
    finally:
        hook.remove()
    size = sizes[-1].to(torch.long)
    word = torch.arange(len(size)).repeat_interleave(size)
    names, matrices = [], []
    for layer in recorded.layers:
        graph = layer.graph
        if graph.num_targets != len(word) or graph.num_sources != len(word):
            continue
        pair = word[graph.target] * len(size) + word[graph.source]
        summed = torch.zeros(len(size) ** 2, len(layer.heads))
        summed.index_add_(0, pair, layer.weights.reshape(-1, graph.num_edges, len(layer.heads))[0])
        matrix = summed.view(len(size), len(size), -1) / size[:, None, None]
        matrices += list((matrix + matrix.transpose(0, 1)).unbind(-1))
        names += [f"{layer.name}/{head}" for head in layer.heads]
    return names, torch.stack(matrices)


def spanning_tree(weights: Tensor) -> Tree:
    """Return the edges of the maximum spanning tree over a symmetric matrix."""
    costs = weights.max().double() + 1 - weights.double()  # above 0, as 0 is no edge
    rows, columns = minimum_spanning_tree(costs.fill_diagonal_(0).numpy()).nonzero()
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return {(min(pair), max(pair)) for pair in pairs}


def fit(weights: Sequence[Tensor], sentences: Sequence[Sentence]) -> Tensor:
    """Return the coefficient of each head in a logistic regression that predicts syntax edges.

    Args:
        weights: weights between words of each sentence, ``[heads, W, W]``.
        sentences: sentences with their trees.
    """
    features, labels = [], []
    for matrices, sentence in zip(weights, sentences, strict=True):
        low, high = torch.triu_indices(len(sentence.words), len(sentence.words), 1)
        features.append(matrices[:, low, high].T)
        pairs = zip(low.tolist(), high.tolist(), strict=True)
        labels += [pair in sentence.edges() for pair in pairs]
    regression = LogisticRegression(C=1 / (2 * PENALTY * len(labels)), max_iter=1000)
    regression.fit(torch.cat(features).numpy(), np.array(labels))
    return torch.from_numpy(regression.coef_[0]).float()


def draw_tree(sentence: Sentence, tree: Tree) -> Figure:
    """Draw the edges of a syntax tree above a sentence, and recovered edges below it.

    Edges in both trees are blue. Edges of the syntax tree that were not recovered are grey, and
    recovered edges that are not in the syntax tree are red and dashed.
    """
    count, right = len(sentence.words), sentence.edges()
    figure = Figure(figsize=(min(24, 1.0 + 0.85 * count), 4.2), layout="constrained")
    axes = figure.subplots()
    for position, word in enumerate(sentence.words):
        axes.text(position, 0, word.replace("$", r"\$"), ha="center", va="center", fontsize=10)
    for edges, side, single in ((right, 1, ("#8795a8", "-")), (tree, -1, ("#d1495b", "--"))):
        for first, last in edges:
            colour, style = ("#1f6feb", "-") if (first, last) in right & tree else single
            start, stop = (0, 180) if side > 0 else (180, 360)
            length = last - first
            arc = Arc(((first + last) / 2, 0.3 * side), length, length, theta1=start, theta2=stop)
            arc.set(color=colour, linestyle=style, linewidth=1.6)
            axes.add_patch(arc)
    above, below = (max((j - i for i, j in edges), default=1) / 2 for edges in (right, tree))
    axes.set(xlim=(-0.7, count - 0.3), ylim=(-0.6 - below, 0.6 + above))
    axes.set_axis_off()
    axes.set_title(
        f"above: syntax tree, below: read off the attention ({len(right & tree)} of {len(right)} "
        "edges, blue)",
        fontsize=10,
    )
    return figure


def show_dependencies(run: edgewise.Run, path: Path, count: int, picture: Path | None) -> None:
    """Print the fraction of dependency edges that the attention of a run identifies.

    Args:
        run: run of tag-ewt.
        path: CoNLL-U file with the sentences.
        count: number of sentences.
        picture: file for the drawing of one sentence, or ``None``.
    """
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    sentences = [
        Sentence([word for word, _ in rows], [int(head) - 1 for _, head in rows])
        for rows in read_conllu(text, path.name, "head")
        if 2 <= len(rows) <= LONGEST
    ][:count]
    half = len(sentences) // 2
    test = sentences[half:]
    fractions = dependencies(run, sentences[:half], test)
    chain = fractions.distances.pop(1)
    distance = max(fractions.distances, key=fractions.distances.__getitem__)
    best = max(fractions.heads, key=fractions.heads.__getitem__)
    print(f"undirected dependency edges found, in {len(test)} sentences:")
    print(f"  chain of neighbours        {chain:6.1%}")
    print(f"  all edges of length {distance}      {fractions.distances[distance]:6.1%}")
    print(f"  best head                  {fractions.heads[best]:6.1%}  {best}")
    print(f"  mean of {len(fractions.heads):2} heads           {fractions.mean:6.1%}")
    print(f"  heads combined             {fractions.combined:6.1%}  fitted on {half} sentences")
    if picture is not None:
        pairs = zip(test, fractions.trees, strict=True)
        sentence, tree = next(pair for pair in pairs if 8 <= len(pair[0].words) <= 14)
        draw_tree(sentence, tree).savefig(picture)
        print(picture)


def show_hidden(run: edgewise.Run, path: Path | None) -> None:
    """Print for each head how well its weights identify the edges: the area under the ROC curve.

    ``path`` is the file of a chart, or ``None``.
    """
    saved = saved_graph(run.predictor.preprocessing.values)
    count = len(saved.ids)
    with torch.no_grad(), record(run.model, max_edges=count * count) as recorded:
        run.model(saved.x, saved.graph)
    areas = explain.edge_recovery(recorded.layers, saved.graph)
    x = torch.nn.functional.normalize(saved.x.to_dense(), dim=-1)
    low, high = torch.triu_indices(count, count, 1)
    is_edge = torch.zeros(count, count, dtype=torch.bool)
    is_edge[saved.edge_index[0], saved.edge_index[1]] = True
    cosine, is_edge = (x @ x.T)[low, high], (is_edge | is_edge.T)
    areas["cosine of the features"] = roc_auc_score(is_edge[low, high], cosine)
    print(f"area under the ROC curve of {int(is_edge.sum()) // 2:,} hidden edges:")
    for name, value in areas.items():
        print(f"  {name:50} {value:.3f}")
    if path is not None:
        figure = Figure(figsize=(6, 0.3 * len(areas) + 1), layout="constrained")
        axes = figure.subplots()
        axes.barh(list(areas), list(areas.values()), color="#1f6feb")
        axes.axvline(0.5, color="#444f5d", lw=1)
        axes.set(xlim=(0, 1), xlabel="area under the ROC curve", title="Hidden edges recovered")
        figure.savefig(path)
        print(path)


class Predictor(nn.Module):
    """One layer of attention over all nodes; the input is one number per node.

    A learned vector for each node is added to its number.

    Args:
        count: number of nodes.
        width: hidden size.
    """

    def __init__(self, count: int, width: int = 64) -> None:
        super().__init__()
        self.value, self.positions = nn.Linear(1, width), Learned(count, width, std=0.3)
        self.attention = layers.MultiHeadAttention(width, 4)
        self.output = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        states = self.positions(self.value(x[..., None]))
        out: Tensor = self.output(self.attention(states, graphs.complete()))[..., 0]
        return out


def show_process(count: int, steps: int = 2000) -> None:
    """Train a layer to predict the mean of each node's neighbours, for ``steps`` steps.

    Then print how well its attention weights identify the edges.
    """
    random = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    adjacency = torch.rand(count, count, generator=random) < 3 / count
    adjacency = (adjacency | adjacency.T).fill_diagonal_(False)
    mean = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
    model = Predictor(count)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        x = torch.randn(32, count, generator=random)
        loss = (model(x) - x @ mean.T).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    hidden = graphs.edges(adjacency.nonzero().T, count)
    with torch.no_grad(), record(model) as recorded:
        model(torch.zeros(count))
    print(f"{hidden.num_edges // 2} hidden edges of {count} nodes, loss {loss:.4f}:")
    for name, value in explain.edge_recovery(recorded.layers, hidden).items():
        print(f"  {name:50} {value:.3f}")


def main() -> None:
    """Run the parts that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tags", type=Path, metavar="RUN", help="run folder of tag-ewt")
    parser.add_argument("--conllu", type=Path, metavar="FILE", help="sentences for --tags")
    parser.add_argument("--sentences", type=int, default=1000, help="number of sentences")
    parser.add_argument("--hidden", type=Path, metavar="RUN", help="run folder of gps-cora")
    parser.add_argument("--process", type=int, metavar="N", help="number of nodes")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="save a figure to FILE")
    given = parser.parse_args()
    if given.tags is not None and given.conllu is not None:
        show_dependencies(edgewise.load(given.tags), given.conllu, given.sentences, given.draw)
    if given.hidden is not None:
        show_hidden(edgewise.load(given.hidden), given.draw)
    if given.process is not None:
        show_process(given.process)


if __name__ == "__main__":
    main()
