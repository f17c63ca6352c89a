"""Explanations of models whose decisive edges or words are planted, beside other explainers.

    python -m benchmarks.planted [--data NAME …] [--cases 12] [--seeds 3] [--weight-decay 0.005]

* ``ba-houses``: a Barabási-Albert graph of 300 nodes and 80 houses of 5 nodes; the class of a node
  is its position in a house (Ying et al., GNNExplainer, 2019). The house is planted.
* ``tree-cycles``: a binary tree of depth 8 and 60 cycles of 6 nodes; the class of a node says
  whether it is in a cycle. The cycle is planted.
* ``decoys``: trees with two branches, red and blue; the class of the root is the more frequent
  class of the three leaves of the red branch. The red branch is planted. The blue branch has the
  same shape and the same distance to the root.
* ``words``: texts of 16 random words, one of which is positive or negative; a negation, in 3 of
  10 texts, reverses it. These one or two words are planted.

The model of the graphs has three layers that sum over neighbours, of width 20, as in the code of
Ying et al. It has the layers of ``edgewise.interop.pyg``, which PyTorch Geometric's explainers
accept. The model of the words is a
small BERT. For right predictions, the table shows the mean area under the ROC curve (AUC) with
which the absolute contributions separate planted from other edges on which the output of the node
depends, or planted from other words, and the seconds of processor time for each prediction. For
graphs, ``deleted`` is the decrease of the probability of the class without as many edges of the
largest contributions as are planted; the row ``planted`` deletes these. Rows of Captum need Captum.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from random import Random
from typing import Any, get_args

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.datasets.graph_generator import BAGraph, TreeGraph
from torch_geometric.datasets.motif_generator import CycleMotif, HouseMotif
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer
from torch_geometric.utils import coalesce, k_hop_subgraph, to_undirected

from edgewise import models
from edgewise.app.predict.cases import log_odds
from edgewise.explain.attribution import Case, Method, contributions
from edgewise.explain.removal import pair_keys
from edgewise.interop.pyg import SAGEConv
from edgewise.layers import ClassificationHead, TextClassifier, Tokens

METHODS: tuple[Method, ...] = get_args(Method)
HOPS = 3
WORDS, LENGTH = 200, 16
POSITIVE, NEGATIVE, NEGATION = range(5), range(5, 10), range(10, 13)


class GNN(nn.Module):
    """Three layers of sums of width 20; the output is linear in the features of all layers."""

    def __init__(self, features: int, classes: int, width: int = 20) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            SAGEConv(size, width, aggr="sum", normalize=True) for size in (features, width, width)
        )
        self.head = nn.Linear(3 * width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        states = []
        for layer in self.layers:
            x = layer(x, edge_index).relu()
            states.append(x)
        out: Tensor = self.head(torch.cat(states, -1))
        return out


@dataclass
class PlantedGraph:
    """Graph with planted edges: ``group [E]`` is the planted set of an edge, or -1.

    The planted edges of a node are those of its set ``group_of_node [N]``; -1 for none.
    """

    x: Tensor
    edge_index: Tensor
    y: Tensor
    group: Tensor
    group_of_node: Tensor


def motif_graph(generator: Any, motif: Any, count: int, size: int, seed: int) -> PlantedGraph:
    """Return a random graph with motifs, and a tenth as many random edges as nodes."""
    seed_everything(seed)
    data = ExplainerDataset(generator, motif, num_motifs=count)[0]
    nodes, first = int(data.num_nodes), int(data.num_nodes) - count * size
    random = to_undirected(torch.randint(nodes, (2, nodes // 10)))
    edge_index = coalesce(torch.cat([data.edge_index, random], 1))
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    node = torch.arange(nodes)
    group = torch.where(node < first, -1, (node - first) // size)
    planted = data.edge_index[:, data.edge_mask.bool()]
    is_planted = torch.isin(edge_index[0] * nodes + edge_index[1], planted[0] * nodes + planted[1])
    edge_group = torch.where(is_planted, group[edge_index[0]], -1)
    return PlantedGraph(torch.ones(nodes, 10), edge_index, data.y.long(), edge_group, group)


def decoys(seed: int, count: int = 300) -> PlantedGraph:
    """Return trees of a root, a red and a blue node, and three leaves of each."""
    random = torch.Generator().manual_seed(seed)
    tree = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]])
    leaves = torch.randint(2, (count, 6), generator=random)
    kind = torch.cat([torch.tensor([0, 1, 2]).expand(count, 3), 3 + leaves], 1)
    red = torch.tensor([True, False, True, True, True, False, False, False])
    first = 9 * torch.arange(count)[:, None, None]
    edge_index = (tree + first).transpose(0, 1).flatten(1)
    group = torch.where(red, torch.arange(count)[:, None], -1).flatten()
    y = torch.full((count, 9), -1)
    y[:, 0] = (leaves[:, :3].sum(1) > 1).long()
    group_of_node = torch.full((count, 9), -1)
    group_of_node[:, 0] = torch.arange(count)
    return PlantedGraph(
        F.one_hot(kind.flatten(), 5).float(),
        torch.cat([edge_index, edge_index.flip(0)], 1),
        y.flatten(),
        torch.cat([group, group]),
        group_of_node.flatten(),
    )


GRAPHS: dict[str, Callable[[int], PlantedGraph]] = {
    "ba-houses": lambda seed: motif_graph(BAGraph(300, 5), HouseMotif(), 80, 5, seed),
    "tree-cycles": lambda seed: motif_graph(TreeGraph(8), CycleMotif(6), 60, 6, seed),
    "decoys": decoys,
}


def trained(graph: PlantedGraph, seed: int, epochs: int, weight_decay: float) -> GNN:
    """Train the GNN on 80 % of the nodes with a class, and print the accuracy on the others."""
    torch.manual_seed(seed)
    model = GNN(graph.x.shape[1], int(graph.y.max()) + 1)
    nodes = (graph.y >= 0).nonzero()[:, 0]
    nodes = nodes[torch.randperm(len(nodes))]
    training, test = nodes[: len(nodes) * 4 // 5], nodes[len(nodes) * 4 // 5 :]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=weight_decay)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(graph.x, graph.edge_index)[training], graph.y[training])
        loss.backward()
        optimizer.step()
    model.eval().requires_grad_(False)
    with torch.no_grad():
        right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    print(
        f"accuracy {float(right[training].float().mean()):.3f} on training nodes, "
        f"{float(right[test].float().mean()):.3f} on test nodes"
    )
    return model


@dataclass
class Task:
    """A prediction to explain, and a mask of the planted edges or words.

    For a node, ``inputs`` are x, edge_index and node of its neighbourhood, and the mask is in the
    order of the distinct undirected edges ``keys``.
    """

    inputs: tuple[Any, ...]
    planted: Tensor
    keys: Tensor | None = None

    def strengths(self, values: Tensor) -> Tensor:
        """Return the absolute value of each part; of an edge, summed over both directions."""
        return values.abs() if self.keys is None else undirected(values.abs(), self.keys)


Explain = Callable[[Task], Tensor]
"""Function that returns a contribution of each word, or of each directed edge."""


def undirected(values: Tensor, keys: Tensor) -> Tensor:
    """Return the sum of the values of both directions of each edge, in the order of its key."""
    unique, position = keys.unique(return_inverse=True)
    return torch.zeros(len(unique)).index_add(0, position, values.float())


def node_task(graph: PlantedGraph, node: int) -> Task:
    """Return the edges on which the output of a node depends, and which of them are planted."""
    nodes, edge_index, index, chosen = k_hop_subgraph(
        node, HOPS, graph.edge_index, relabel_nodes=True
    )
    # An edge between nodes at a distance of HOPS is not read.
    inner = k_hop_subgraph(int(index), HOPS - 1, edge_index)[0]
    is_read = torch.isin(edge_index, inner).any(0)
    edge_index = edge_index[:, is_read]
    keys = pair_keys(*edge_index, len(nodes))
    planted = undirected(graph.group[chosen][is_read] == graph.group_of_node[node], keys) > 0
    return Task((graph.x[nodes], edge_index, int(index)), planted, keys)


def graph_explainers(model: GNN, tasks: list[Task], seed: int) -> Iterator[tuple[str, Explain]]:
    """Yield the name of each explainer of nodes, and its function."""

    def by_method(task: Task, method: Method) -> Tensor:
        x, edge_index, node = task.inputs
        label = model(x, edge_index)[node].argmax()[None]

        def scores(count: int) -> Tensor:
            copy = len(x) * torch.arange(count)
            index = (edge_index[:, None] + copy[:, None]).flatten(1)
            return log_odds(model(x.repeat(count, 1), index)[node + copy], label.expand(count))

        case = Case(
            partial(scores, 1),
            torch.arange(len(x)),
            [""] * len(x),
            own=torch.tensor([node]),
            by_edge=True,
            score_copies=scores,
        )
        values = contributions(case, method)
        position = torch.searchsorted(pair_keys(*values.pairs, len(x)), task.keys)
        return values.strengths[position] / 2

    def pyg(algorithm: Any, kind: str = "model") -> Explainer:
        config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
        # A copy, because PyG keeps the mask of GNNExplainer as a parameter of the layers.
        return Explainer(
            deepcopy(model),
            algorithm,
            explanation_type=kind,
            edge_mask_type="object",
            model_config=config,
        )

    def by_pyg(task: Task, explainer: Explainer) -> Tensor:
        x, edge_index, node = task.inputs
        target = {}
        if explainer.explanation_type.value == "phenomenon":
            target["target"] = model(x, edge_index).argmax(1)
        mask: Tensor = explainer(x, edge_index, index=node, **target).edge_mask
        return mask

    def distance(task: Task) -> Tensor:
        _, edge_index, node = task.inputs
        far = torch.full((int(edge_index.max()) + 1,), HOPS + 1)
        for hops in range(HOPS, -1, -1):
            far[k_hop_subgraph(node, hops, edge_index)[0]] = hops
        return 1 / (1 + far[edge_index[0]] + far[edge_index[1]])

    for method in METHODS:
        yield method, partial(by_method, method=method)
    yield "GNNExplainer", partial(by_pyg, explainer=pyg(GNNExplainer(epochs=100)))
    algorithm = PGExplainer(epochs=30)
    explainer = pyg(algorithm, "phenomenon")
    start = time.process_time()
    for epoch in range(30):
        for task in tasks:
            x, edge_index, node = task.inputs
            target = model(x, edge_index).argmax(1)
            algorithm.train(epoch, explainer.model, x, edge_index, target=target, index=node)
    print(f"PGExplainer was trained in {time.process_time() - start:.1f} s")
    yield "PGExplainer", partial(by_pyg, explainer=explainer)
    if find_spec("captum"):
        for name in ("IntegratedGradients", "Saliency"):
            yield f"Captum {name}", partial(by_pyg, explainer=pyg(CaptumExplainer(name)))
    yield "distance alone", distance
    random = torch.Generator().manual_seed(seed)
    yield "random", lambda task: torch.rand(len(task.keys), generator=random)
    yield "planted", lambda task: task.planted[task.keys.unique(return_inverse=True)[1]].float()


Rows = dict[str, tuple[Tensor, Tensor, float]]
"""AUC and decrease of the probability of each prediction, and seconds for one, by explainer."""


def deleted(model: nn.Module, task: Task, strengths: Tensor) -> float:
    """Return the decrease of the probability of a class without the edges of largest strength."""
    if task.keys is None:
        return float("nan")
    x, edge_index, node = task.inputs
    largest = task.keys.unique()[strengths.topk(int(task.planted.sum())).indices]
    rest = edge_index[:, ~torch.isin(task.keys, largest)]
    before, after = (model(x, index)[node].softmax(-1) for index in (edge_index, rest))
    return float((before - after)[before.argmax()])


def measured(
    model: nn.Module, explainers: Iterator[tuple[str, Explain]], tasks: list[Task]
) -> Rows:
    """Measure each explainer."""
    rows = {}
    for name, explain in explainers:
        start = time.process_time()
        values = [explain(task).detach() for task in tasks]
        seconds = (time.process_time() - start) / len(tasks)
        strengths = [task.strengths(v) for task, v in zip(tasks, values, strict=True)]
        pairs = list(zip(tasks, strengths, strict=True))
        aucs = torch.tensor([float(roc_auc_score(task.planted, s)) for task, s in pairs])
        decreases = torch.tensor([deleted(model, *pair) for pair in pairs])
        rows[name] = aucs, decreases, seconds
        means = f"{float(aucs.mean()):.3f}, deleted {float(decreases.mean()):.3f}"
        print(f"  {name:20} AUC {means}, {seconds:.4f} s", flush=True)
    return rows


def measure_graph(name: str, seed: int, cases: int, epochs: int, weight_decay: float) -> Rows:
    """Measure AUC and time of the explainers of nodes."""
    graph = GRAPHS[name](seed)
    model = trained(graph, seed, epochs, weight_decay)
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    nodes = (right & (graph.group_of_node >= 0)).nonzero()[:, 0]
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    tasks = [node_task(graph, node) for node in nodes[: 2 * cases].tolist()]
    # A neighbourhood without other edges has nothing to separate.
    tasks = [task for task in tasks if not bool(task.planted.all())][:cases]
    return measured(model, graph_explainers(model, tasks, seed), tasks)


def random_text(random: Random) -> tuple[list[int], list[int], int]:
    """Return the words of a text, the positions of the planted ones, and the class."""
    words = [random.randrange(13, WORDS) for _ in range(LENGTH)]
    places = random.sample(range(LENGTH), 2)
    label = random.randrange(2)
    is_negated = random.random() < 0.3
    words[places[0]] = random.choice(POSITIVE if label != is_negated else NEGATIVE)
    if is_negated:
        words[places[1]] = random.choice(NEGATION)
    return words, places[: 1 + is_negated], label


def trained_on_words(seed: int, steps: int) -> nn.Module:
    """Train a BERT of two layers on random texts."""
    torch.manual_seed(seed)
    random = Random(seed)
    trunk = models.bert(WORDS, width=32, depth=2, heads=4, ffn_dim=64, dropout=0.0)
    model = TextClassifier(trunk, ClassificationHead(32, 2, pool="mean", dropout=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    right = []
    for _ in range(steps):
        texts = [random_text(random) for _ in range(64)]
        ids, label = torch.tensor([t[0] for t in texts]), torch.tensor([t[2] for t in texts])
        logits = model(Tokens(ids))
        optimizer.zero_grad()
        F.cross_entropy(logits, label).backward()
        optimizer.step()
        schedule.step()
        right.append(float((logits.argmax(1) == label).float().mean()))
    print(f"accuracy {sum(right[-20:]) / 20:.3f} on the last 1,280 new texts")
    return model.eval()


def word_explainers(model: nn.Module, seed: int) -> Iterator[tuple[str, Explain]]:
    """Yield the name of each explainer of words, and its function."""

    def score(ids: Tensor, label: Tensor) -> Tensor:
        return log_odds(model(Tokens(ids)), label.expand(len(ids)))

    def by_method(task: Task, method: Method) -> Tensor:
        case = Case(lambda: score(*task.inputs), torch.arange(LENGTH), [""] * LENGTH)
        return contributions(case, method).members

    def by_captum(task: Task, name: str) -> Tensor:
        from captum import attr

        ids, label = task.inputs
        embedding = model.trunk.embedding.tokens  # type: ignore[union-attr]
        if name == "IntegratedGradients":
            layer = attr.LayerIntegratedGradients(score, embedding)
            baseline = torch.full_like(ids, NEGATION.stop)  # a word without effect
            values = layer.attribute(ids, baseline, additional_forward_args=(label,))
            return values[0].sum(-1)
        layer = attr.LayerGradientXActivation(score, embedding, multiply_by_inputs=False)
        return layer.attribute(ids, additional_forward_args=(label,))[0].abs().sum(-1)

    for method in METHODS:
        yield method, partial(by_method, method=method)
    for name in ("IntegratedGradients", "Saliency") if find_spec("captum") else ():
        yield f"Captum {name}", partial(by_captum, name=name)
    generator = torch.Generator().manual_seed(seed)
    yield "random", lambda _: torch.rand(LENGTH, generator=generator)


def measure_words(seed: int, cases: int, steps: int) -> Rows:
    """Measure AUC and time of the explainers of words."""
    model, random = trained_on_words(seed, steps), Random(seed + 1)
    tasks: list[Task] = []
    while len(tasks) < cases:
        words, positions, label = random_text(random)
        ids = torch.tensor([words])
        prediction = model(Tokens(ids)).argmax(1)
        if int(prediction) == label:
            planted = torch.zeros(LENGTH, dtype=torch.bool)
            planted[positions] = True
            tasks.append(Task((ids, prediction), planted))
    return measured(model, word_explainers(model, seed), tasks)


def summary(models_rows: list[Rows]) -> dict[str, list[str]]:
    """Return, by explainer, the mean AUC over all predictions, its difference to that of distance
    alone with a standard error, the mean decrease of the probability, and the mean of the seconds.
    """
    cells = {}
    for name in models_rows[0]:
        aucs, decreases = (torch.cat([rows[name][i] for rows in models_rows]) for i in (0, 1))
        text = f"{float(aucs.mean()):.3f}"
        if "distance alone" in models_rows[0] and name != "distance alone":
            ahead = aucs - torch.cat([rows["distance alone"][0] for rows in models_rows])
            text += f" ({float(ahead.mean()):+.3f} ± {float(ahead.std()) / len(ahead) ** 0.5:.3f})"
        seconds = sum(rows[name][2] for rows in models_rows) / len(models_rows)
        cells[name] = [text, f"{float(decreases.mean()):.3f}", f"{seconds:.4f}"]
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*GRAPHS, "words"]
    parser.add_argument("--data", nargs="+", choices=names, default=names, help="planted data")
    parser.add_argument("--cases", type=int, default=12, help="explained predictions per model")
    parser.add_argument("--seeds", type=int, default=3, help="number of data sets and models")
    parser.add_argument("--epochs", type=int, default=500, help="a third of the steps for words")
    parser.add_argument("--weight-decay", type=float, default=5e-3, help="of models of graphs")
    arguments = parser.parse_args()
    table: dict[str, list[str]] = defaultdict(list)
    for name in arguments.data:
        models_rows = []
        for seed in range(arguments.seeds):
            print(f"{name}, seed {seed}")
            options = seed, arguments.cases
            models_rows.append(
                measure_words(*options, 3 * arguments.epochs)
                if name == "words"
                else measure_graph(name, *options, arguments.epochs, arguments.weight_decay)
            )
        for explainer, cells in summary(models_rows).items():
            table[explainer] += [""] * (3 * arguments.data.index(name) - len(table[explainer]))
            table[explainer] += cells
    print("| method |" + "".join(f" {name}: AUC | deleted | seconds |" for name in arguments.data))
    for explainer, cells in table.items():
        print(f"| {explainer} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
