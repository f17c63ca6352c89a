"""Fidelity and time of each attribution method of ``edgewise explain``, for a trained model.

    python -m benchmarks.fidelity RUN [--input FILE] [--cases 200] [--per-input N] [--gnn-explainer]

An attribution method names the parts of an input (such as words or edges) that a prediction depends
on most: a fifth of the parts, at most 10. Fid+ is the decrease of the probability of the predicted
answer if the named parts are deleted. Fid- is its decrease if all other parts are deleted. If the
model predicts a number, both are the absolute change of this number. The method ``random`` names as
many parts at random.

The table of docs/howto/explain.md has runs of these recipes, with ``--cases`` as stated there:

* gat-cora, gcn-cora, digits, gin-esol; attentive-esol and gat-enzymes ``--trainer.epochs 40``
* sst2 ``--trainer.epochs 2``
* sage-facebook ``--trainer.epochs 3``; spoken-digits ``--trainer.epochs 6``
* tag-ewt ``--trainer.epochs 1``, measured with ``--per-input 1``
* series ``--data.name co2 --trainer.epochs 15``, measured with ``--per-input 2``
* pairs ``--data.path dates.tsv --data.kind words --model.width 64 --model.depth 1 --model.ffn_dim
  128 --trainer.epochs 15 --optimizer.lr 0.003``, measured with ``--per-input 1``; the file has
  lines such as "3 May 2020<tab>2020 - 05 - 03" for each day from 2019 to 2023

Their FILE is the test file of SST-2 without labels, the table of ESOL, the folder of ENZYMES, the
dates, the words of the test sentences of EWT, or a list of the test recordings.

Inputs come from FILE, in random order. Without it, they are nodes, users or histories of the
training data in random order, or scikit-learn's digits. If the run predicts masked words and
an input has no mask, a random word is masked. For runs of gat-cora,
``--gnn-explainer`` adds PyTorch Geometric's GNNExplainer with 200 epochs on the neighbourhood of
each node, and times it on the whole graph for 3 nodes.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, get_args

import torch
from torch import Tensor, nn

import edgewise
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.explain import cases
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.kinds.items.predict import Recommendations
from edgewise.app.kinds.language.predict import HiddenWords
from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.kinds.nodes import NodeCases
from edgewise.app.kinds.nodes.predict import OnNodes
from edgewise.app.kinds.nodes.reasons import rows_of
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.runs import Run
from edgewise.explain.attribution import Case, Contributions, Method, contributions
from edgewise.explain.fidelity import fidelity

METHODS: tuple[Method, ...] = tuple(name for name in get_args(Method) if name != "auto")
MOST_REMOVED = 500
"""The method ``removed`` is left out for cases with more edges, because it would take too long."""


def inputs_of(run: Run, path: Path | None) -> Iterator[Any]:
    """Yield the inputs of a file, or inputs that fit the run, in random order.

    Without a file, these are users, histories of a series, nodes, or scikit-learn's digits.
    """
    predictor, random = run.predictor, Random(0)
    if path is not None:
        values = [value for _, _, value in predictor.from_file(path)]
        random.shuffle(values)
        for value in values:
            row = predictor._of_row(value) if isinstance(value, dict) else value
            yield hidden(predictor, row, random)
    elif isinstance(predictor, Recommendations):
        users = list(predictor.users.ids)
        random.shuffle(users)
        yield from users
    elif isinstance(predictor, Forecasts):
        steps = predictor.training_series.values.tolist()
        starts = list(range(len(steps) - predictor.length + 1))
        random.shuffle(starts)
        yield from (steps[start : start + predictor.length] for start in starts)
    elif isinstance(predictor, (OnNodes, LinkSuggestions)):
        ids = predictor.nodes.ids
        order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
        yield from (ids[node] for node in order.tolist())
    elif isinstance(predictor, ImageClasses):
        from PIL import Image
        from sklearn.datasets import load_digits

        for image in load_digits().images[-400:]:
            yield Image.fromarray((image * 255 / 16).astype("uint8"))


def hidden(predictor: Any, value: Any, random: Random) -> Any:
    """Return an input; if the run predicts masked words, mask a random one."""
    if isinstance(predictor, HiddenWords) and "[MASK]" not in value:
        words = value.split()
        if words:
            words[random.randrange(len(words))] = "[MASK]"
        return " ".join(words)
    return value


def cases_of(run: Run, path: Path | None, per_input: int | None = None) -> Iterator[Case]:
    """Yield the predictions to explain, for all inputs that the run can answer.

    ``per_input`` limits their number for each input, such as the tokens of a translation.
    """
    nodes = NodeCases(run.predictor) if isinstance(run.predictor, OnNodes) else None
    for value in inputs_of(run, path):
        try:
            if nodes is not None:
                yield nodes.case([nodes.predictor.nodes.number(value)])
            else:
                all_cases = cases(run.predictor, value)
                most = min(per_input or len(all_cases), len(all_cases))
                yield from (all_cases[i * len(all_cases) // most] for i in range(most))
        except ArgumentError:
            continue


class PyGModel(nn.Module):
    """Model of gat-cora with PyTorch Geometric's layers and the weights of an Edgewise model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        from torch_geometric.nn import GATConv

        self.layers = nn.ModuleList()
        for layer in (model.layers[1], model.layers[4]):
            heads, width = layer.att_dst.shape
            conv = GATConv(
                layer.linear.in_features, width, heads, concat=not layer.average, bias=True
            )
            conv.load_state_dict(
                {
                    "lin.weight": layer.linear.weight,
                    "att_src": layer.att_src[None],
                    "att_dst": layer.att_dst[None],
                    "bias": layer.bias,
                }
            )
            self.layers.append(conv)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = nn.functional.elu(self.layers[0](x, edge_index))
        out: Tensor = self.layers[1](hidden, edge_index)
        return out


def gnn_explainer(run: Run) -> Callable[..., Tensor]:
    """Return a function of features, edge_index and node that returns GNNExplainer's edge mask."""
    require("torch_geometric", extra="graphs", purpose="comparing with GNNExplainer")
    from torch_geometric.explain import Explainer, GNNExplainer

    model = PyGModel(run.model).eval()
    explainer = Explainer(
        model,
        GNNExplainer(epochs=200),
        explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )

    def mask(x: Tensor, edge_index: Tensor, node: int) -> Tensor:
        edge_mask: Tensor = explainer(x, edge_index, index=node).edge_mask
        return edge_mask

    return mask


def by_pair(case: Case, pairs: Tensor, edge_index: Tensor, mask: Tensor) -> Contributions:
    """Return the contributions of undirected edges: a mask summed over both directions."""
    count = len(case.labels)
    low, high = edge_index.min(0).values, edge_index.max(0).values
    keys, edge_keys = pairs[0] * count + pairs[1], low * count + high
    position = torch.searchsorted(keys, edge_keys).clamp(max=len(keys) - 1)
    same = keys[position] == edge_keys
    edges = torch.zeros(len(keys)).index_add(0, position[same], mask[same])
    return Contributions(torch.zeros(count), pairs, edges, "GNNExplainer")


Rows = dict[str, list[tuple[float, float, float]]]


def measure(case: Case, method: Method, rows: Rows) -> tuple[int, Contributions] | None:
    """Add fidelity and time of a method to ``rows``; return the number of parts and their values.

    Returns ``None`` if the case has only one part, because then there is nothing to compare.
    """
    start = time.process_time()
    values = contributions(case, method)
    seconds = time.process_time() - start
    result = fidelity(case, values)
    if result is None:
        return None
    rows[method].append((result.plus, result.minus, seconds))
    return result.of, values


def add_gnn_explainer(
    case: Case, nodes: NodeCases, explain: Callable[..., Tensor], pairs: Tensor, rows: Rows
) -> None:
    """Add fidelity and time of GNNExplainer on the neighbourhood of a node to ``rows``."""
    assert case.own is not None
    node = nodes.ids.index(case.labels[int(case.own[0])])
    block, inner = nodes.neighbourhood(node, nodes.hops or 2)
    edge_index = nodes.induced([(block, inner)], torch.zeros(1, dtype=torch.long))
    x = rows_of(nodes.x, block).to_dense()
    start = time.process_time()
    mask = explain(x, edge_index, 0)
    seconds = time.process_time() - start
    result = fidelity(case, by_pair(case, pairs, edge_index, mask))
    assert result is not None
    rows["GNNExplainer"].append((result.plus, result.minus, seconds))


def show(name: str, sizes: list[int], rows_of_methods: Rows) -> None:
    """Print a table of the mean fidelity, with its standard error, and time of each method."""
    count = len(sizes)
    print(f"{name}: {count} cases, {sum(sizes) / max(count, 1):.0f} parts on average")
    print(f"{'method':20} {'Fid+':>8} {'Fid-':>8} {'difference':>18} {'ms a case':>10}")
    for method, rows in rows_of_methods.items():
        plus, minus, seconds = torch.tensor(rows).unbind(1)
        difference, spread = float((plus - minus).mean()), float((plus - minus).std())
        print(
            f"{method:20} {float(plus.mean()):8.3f} {float(minus.mean()):8.3f} {difference:10.3f} "
            f"± {spread / len(rows) ** 0.5:.3f} {1000 * float(seconds.mean()):10.1f}"
            + (f"   ({len(rows)} cases)" if len(rows) < count else ""),
            flush=True,
        )


def main() -> None:
    """Print the fidelity of each method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--input", type=Path, metavar="FILE", help="file with inputs")
    parser.add_argument("--cases", type=int, default=200, help="number of predictions to explain")
    help_ = "predictions to explain per input, such as tokens of a translation (default: all)"
    parser.add_argument("--per-input", type=int, metavar="N", help=help_)
    parser.add_argument("--gnn-explainer", action="store_true", help="add GNNExplainer (gat-cora)")
    arguments = parser.parse_args()
    run = edgewise.load(arguments.run)
    rows: Rows = defaultdict(list)
    random = torch.Generator().manual_seed(0)
    explain = gnn_explainer(run) if arguments.gnn_explainer else None
    nodes = NodeCases(run.predictor) if isinstance(run.predictor, OnNodes) else None
    sizes: list[int] = []
    with suppress(KeyboardInterrupt):  # Ctrl+C prints the cases until then.
        for case in cases_of(run, arguments.input, arguments.per_input):
            if len(sizes) == arguments.cases:
                break
            first = measure(case, METHODS[0], rows)
            if first is None:
                continue
            count, values = first
            sizes.append(count)
            for method in METHODS[1:]:
                if method != "removed" or count <= MOST_REMOVED:
                    measure(case, method, rows)
            if explain is not None and nodes is not None:
                add_gnn_explainer(case, nodes, explain, values.pairs, rows)
            for _ in range(5):
                result = fidelity(case, values, random=random)
                assert result is not None
                rows["random"].append((result.plus, result.minus, 0.0))
    show(arguments.run.name, sizes, rows)
    if explain is not None and nodes is not None:
        x = nodes.x.to_dense()
        start = time.process_time()
        for node in range(3):
            explain(x, nodes.edge_index, node)
        print(f"GNNExplainer on the whole graph: {(time.process_time() - start) / 3:.1f} s a node")


if __name__ == "__main__":
    main()
