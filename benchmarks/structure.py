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
from pathlib import Path

import torch
from torch import Tensor, nn

import edgewise
from edgewise import graphs, layers
from edgewise.app.explain import Sentence, dependencies, draw_tree, edge_recovery
from edgewise.app.explain.structure import roc_auc
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.kinds.tags.conllu import read_conllu
from edgewise.encodings import Learned
from edgewise.explain.record import record

LONGEST = 40
"""Sentences with more words are left out, because the tagger would split them."""


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
        Sentence([word for word, _ in each], [int(head) - 1 for _, head in each])
        for each in read_conllu(text, path.name, "head")
        if 2 <= len(each) <= LONGEST
    ][:count]
    found = dependencies(run, sentences, fitted=len(sentences) // 2)
    print(f"undirected dependency edges found, in {found.tested} sentences:")
    print(f"  chain of neighbours        {found.chain:6.1%}")
    print(f"  all edges of length {found.offset[0]}      {found.offset[1]:6.1%}")
    print(f"  best head                  {found.best[1]:6.1%}  {found.best[0]}")
    print(f"  mean of {len(found.heads):2} heads           {found.mean:6.1%}")
    print(f"  heads combined             {found.combined:6.1%}  fitted on {found.fitted} sentences")
    if picture is not None:
        pairs = zip(sentences[found.fitted :], found.trees, strict=True)
        sentence, tree = next(pair for pair in pairs if 8 <= len(pair[0].words) <= 14)
        draw_tree(sentence, tree, path=picture)
        print(picture)


def show_hidden(run: edgewise.Run, path: Path | None) -> None:
    """Print for each head how well its weights identify the edges: the area under the ROC curve.

    ``path`` is the file of a chart, or ``None``.
    """
    kept = saved_graph(run.predictor.preprocessing.values)
    count = len(kept.ids)
    with torch.no_grad(), record(run.model, max_edges=count * count) as recorded:
        run.model(kept.x, kept.graph)
    found = edge_recovery(recorded.layers, kept.graph)
    x = torch.nn.functional.normalize(kept.x.to_dense(), dim=-1)
    low, high = torch.triu_indices(count, count, 1)
    is_edge = torch.zeros(count, count, dtype=torch.bool)
    is_edge[kept.edge_index[0], kept.edge_index[1]] = True
    found["cosine of the features"] = roc_auc(
        (x @ x.T)[low, high], (is_edge | is_edge.T)[low, high]
    )
    print(f"area under the ROC curve of {int(is_edge.sum()) // 2:,} hidden edges:")
    for name, value in found.items():
        print(f"  {name:50} {value:.3f}")
    if path is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 0.3 * len(found) + 1), layout="constrained")
        axes = figure.subplots()
        axes.barh(list(found), list(found.values()), color="#1f6feb")
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
    for name, value in edge_recovery(recorded.layers, hidden).items():
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
