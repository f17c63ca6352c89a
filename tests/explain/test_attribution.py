"""Contributions of edges and members are those of the model without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.explain import attribution
from edgewise.explain.attribution import (
    Case,
    Contributions,
    Method,
    contributions,
    listed,
    named_pairs,
    without,
)
from edgewise.explain.fidelity import fidelity
from edgewise.layers import MultiHeadAttention, Pool
from edgewise.models import gat, gcn, gin, graphsage
from edgewise.models.gin import GINLayer

INDEX = torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 0, 1, 2, 3, 4]])


def node_case(model: nn.Module, x: Tensor, index: Tensor = INDEX) -> Case:
    graph = graphs.edges(index, 5)
    labels = [str(node) for node in range(5)]
    own = torch.tensor([0])
    return Case(lambda: model(x, graph)[own, 0], torch.arange(5), labels, own=own, by_edge=True)


@pytest.mark.parametrize("make", [gat, graphsage], ids=["gat", "graphsage"])
def test_a_removed_edge_is_not_in_the_graph(make: object) -> None:
    model, x = make(4, 3).eval(), torch.randn(5, 4)  # type: ignore[operator]
    case = node_case(model, x)
    found = contributions(case, "removed")
    assert found.pairs.T.tolist() == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    for pair, contribution in zip(found.pairs.T, found.edges, strict=True):
        kept = ~torch.isin(INDEX, pair).all(0)
        fewer = node_case(model, x, INDEX[:, kept])
        torch.testing.assert_close(contribution, (case.score() - fewer.score())[0])


def test_left_out_is_exact_for_one_linear_layer() -> None:
    layer, x = MultiHeadAttention(8, 2), torch.randn(5, 8)
    case = node_case(layer, x)
    first, exact = contributions(case, "left_out"), contributions(case, "removed")
    # A layer without self-loops reads its input only along the edges.
    torch.testing.assert_close(first.edges, exact.edges, atol=1e-5, rtol=1e-4)


def test_sums_are_left_out_exactly() -> None:
    model, x = gcn(4, 3, depth=1).eval(), torch.randn(5, 4)
    case = node_case(model, x)
    first = contributions(case, "left_out")
    weights = model.layers[1].linear.weight[0]
    expected = torch.zeros(5)
    for pair, place in zip(first.pairs.T.tolist(), range(5), strict=True):
        other = [node for node in pair if node != 0]
        if len(other) == 1:  # each node has three neighbours with its loop: weight 1 / 3
            expected[place] = weights @ x[other[0]] / 3
    torch.testing.assert_close(first.edges, expected)


def test_a_removed_member_is_read_by_nobody() -> None:
    layer, pool, x = MultiHeadAttention(8, 2), Pool("mean"), torch.randn(5, 8)
    member = torch.tensor([-1, 0, 0, 1, 2])

    def score(nodes: Tensor = x) -> Tensor:
        return pool(layer(nodes, graphs.complete()))[:1]

    case = Case(score, member, ["a", "b", "c"])
    gone = torch.tensor([True, False, False])
    torch.testing.assert_close(without(case, gone), score(x[[0, 3, 4]]))
    found = contributions(case, "removed")
    torch.testing.assert_close(found.members[:1], score() - score(x[[0, 3, 4]]))
    assert found.method == "removed"
    last = torch.tensor([False, False, True])
    torch.testing.assert_close(without(case, last), score(x[:4]))


def test_a_score_may_be_in_double_precision() -> None:
    case = node_case(gat(4, 3).eval(), torch.randn(5, 4))
    single = contributions(case, "removed")
    double = contributions(replace(case, score=lambda: case.score().double()), "removed")
    torch.testing.assert_close(double.edges, single.edges)
    torch.testing.assert_close(double.members, single.members)


@pytest.mark.parametrize("method", [name for name in get_args(Method) if name != "auto"])
def test_nodes_that_the_answer_does_not_depend_on_contribute_nothing(method: str) -> None:
    index = torch.tensor([[1, 2, 3, 4], [0, 1, 4, 3]])
    case = node_case(gat(4, 3).eval(), torch.randn(5, 4), index)
    found = contributions(case, method)  # type: ignore[arg-type]
    assert bool((found.members[1:3] != 0).all())
    if method != "attention":
        assert not bool(found.members[3:].any())


def test_the_answer_itself_is_not_listed() -> None:
    case = node_case(gat(4, 3).eval(), torch.randn(5, 4))
    assert listed(case).tolist() == [False, True, True, True, True]


def test_fidelity_deletes_the_named_edges_and_the_others() -> None:
    torch.manual_seed(1)
    case = node_case(gat(4, 3).eval(), torch.randn(5, 4))
    found = contributions(case, "removed")
    result = fidelity(case, found, fraction=0.4)
    assert result is not None
    assert (result.parts, result.of) == (2, 5)
    order = found.edges.argsort(descending=True)
    for value, gone in ((result.plus, order[:2]), (result.minus, order[2:])):
        rest = without(case, pairs=found.pairs[:, gone]).sigmoid()
        torch.testing.assert_close(torch.tensor([value]), (case.score().sigmoid() - rest).detach())


def test_directions_of_opposite_effect_do_not_cancel() -> None:
    values = torch.tensor([[1.0, 0.3], [-1.0, 0.3]])
    scores = Contributions(torch.zeros(3), torch.zeros(2, 2), values.sum(0), "left_out", values)
    assert scores.strengths.tolist() == pytest.approx([2.0, 0.6])
    scores = contributions(node_case(gat(4, 3).eval(), torch.randn(5, 4)), "left_out")
    assert scores.directions is not None
    torch.testing.assert_close(scores.directions.sum(0), scores.edges)
    removed = contributions(node_case(gat(4, 3).eval(), torch.randn(5, 4)), "removed")
    torch.testing.assert_close(removed.strengths, removed.edges.abs())


@pytest.mark.parametrize("method", ["gradient", "left_out", "relevance", "integrated_gradients"])
def test_gradients_of_means_are_divided_by_the_number_of_sources(method: Any) -> None:
    linear, pool, x = nn.Linear(4, 1, bias=False), Pool("mean"), torch.randn(5, 4)
    case = Case(lambda: pool(linear(x)), torch.arange(5), list("abcde"))
    outputs = linear(x)[:, 0].detach()
    expected = outputs / 5
    if method == "left_out":  # the mean of the others
        expected = outputs.mean() - (outputs.sum() - outputs) / 4
    torch.testing.assert_close(contributions(case, method).members, expected)


def gradient_of_maximum() -> Tensor:
    pool = Pool("max")
    x = torch.tensor([[1.0], [3.0], [2.0]], requires_grad=True)
    case = Case(lambda: pool(x), torch.arange(3), list("abc"))
    return contributions(case, "gradient").members


def test_only_the_maximum_has_a_gradient() -> None:
    assert gradient_of_maximum().tolist() == [0.0, 3.0, 0.0]


class Sum(nn.Module):
    """Layer of PyTorch Geometric without projection before the sum."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, graph: graphs.Graph) -> Tensor:
        out: Tensor = self.layer(x, graph.edge_index)
        return out


@pytest.mark.parametrize("layer", ["SAGEConv", "GINConv", "gin"])
def test_edges_that_sum_raw_features_count(layer: str) -> None:
    if layer == "gin":
        model: nn.Module = GINLayer(nn.Linear(4, 1))
    else:
        pyg = pytest.importorskip("edgewise.interop.pyg")
        sum_of_neighbours = pyg.SAGEConv(4, 1, aggr="sum")
        model = Sum(sum_of_neighbours if layer == "SAGEConv" else pyg.GINConv(nn.Linear(4, 1)))
    case = node_case(model, torch.randn(5, 4))
    exact = contributions(case, "removed").edges
    assert bool(exact.any())
    for method in ("left_out", "gradient", "relevance", "integrated_gradients"):
        scores = contributions(case, method)  # type: ignore[arg-type]
        torch.testing.assert_close(scores.edges, exact, atol=1e-5, rtol=1e-4)


def test_weights_of_edges_are_no_messages() -> None:
    """The degrees of GCN, sums of edge weights, have no path from weight 0."""
    pyg = pytest.importorskip("edgewise.interop.pyg")
    layer = pyg.GCNConv(4, 1)
    x, weight = torch.randn(5, 4), torch.rand(INDEX.shape[1])
    own = torch.tensor([0])
    labels = [str(node) for node in range(5)]
    case = Case(
        lambda: layer(x, INDEX, weight)[own, 0], torch.arange(5), labels, own=own, by_edge=True
    )
    for method in ("left_out", "integrated_gradients"):
        scores = contributions(case, method)  # type: ignore[arg-type]
        assert bool(scores.edges.isfinite().all())
        assert scores.edges.nonzero()[:, 0].tolist() == [0, 1]


def large_case(model: nn.Module) -> Case:
    """Return the answer about two nodes of a graph of 60 nodes."""
    random = torch.Generator().manual_seed(0)
    pairs = torch.randint(60, (2, 120), generator=random)
    graph = graphs.edges(torch.cat([pairs, pairs.flip(0)], 1), 60)
    x, own = torch.randn(60, 4, generator=random), torch.tensor([3, 11])
    labels = [str(node) for node in range(60)]

    def score() -> Tensor:
        first, second = model(x, graph)[own]
        return (first * second).sum().reshape(1)

    member = torch.arange(60)
    return Case(score, member, labels, own=own, by_edge=True, whole_graph=True)


def by_pair(found: Contributions, chosen: Tensor) -> dict[tuple[int, ...], float]:
    """Return the contribution of each chosen pair."""
    pairs = [tuple(pair) for pair in found.pairs[:, chosen].T.tolist()]
    return dict(zip(pairs, found.edges[chosen].tolist(), strict=True))


class TwoGraphs(nn.Module):
    """Attention on a graph, then on a ring, in which other nodes change."""

    def __init__(self, width: int, _: int) -> None:
        super().__init__()
        self.first, self.second = (MultiHeadAttention(width, 2) for _ in range(2))
        node = torch.arange(60)
        self.ring = graphs.edges(torch.stack([node.roll(1), node]), 60)

    def forward(self, x: Tensor, graph: graphs.Graph) -> Tensor:
        out: Tensor = self.second(x + self.first(x, graph), self.ring)
        return out


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        *((make, {}) for make in (gat, gcn, TwoGraphs)),
        *((graphsage, {"depth": depth}) for depth in (1, 2, 3)),
    ],
    ids=["gat", "gcn", "two graphs", "graphsage 1", "graphsage 2", "graphsage 3"],
)
def test_only_what_changes_is_computed_again(make: Any, sizes: dict[str, int]) -> None:
    torch.manual_seed(0)
    model = make(4, 3, **sizes).eval()
    case, whole = large_case(model), large_case(model)
    whole.__dict__["field"] = None  # computes all nodes
    assert case.field is not None
    assert len(case.field.edges[-1]) < 20
    for method in [name for name in get_args(Method) if name != "auto"]:
        first, second = contributions(case, method), contributions(whole, method)
        pairs = first.pairs[:, named_pairs(case, first.pairs)]
        found = by_pair(first, named_pairs(case, first.pairs))
        expected = by_pair(second, named_pairs(whole, second.pairs))
        if make is not TwoGraphs:
            assert list(found) == list(expected)
        elif method == "attention":  # also of nodes that the answer does not depend on
            continue
        # Pairs that are not listed have no effect.
        found = dict.fromkeys(expected, 0.0) | found
        assert found == pytest.approx(expected, abs=1e-5, rel=1e-4)
    for gone in (pairs[:, ::2], pairs):
        torch.testing.assert_close(without(case, pairs=gone), without(whole, pairs=gone))
    changed = without(case, pairs=pairs) - case.score().detach()
    assert float(changed.abs()) > 1e-3


class Centred(nn.Module):
    """Graph network whose nodes depend on the mean of all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(gcn(4, 4, depth=1) for _ in range(3))

    def forward(self, x: Tensor, graph: graphs.Graph) -> Tensor:
        for layer in self.layers:
            x = layer(x - 5 * x.mean(0), graph)
        return x


def test_nodes_that_depend_on_each_other_otherwise_are_computed_together() -> None:
    assert large_case(Centred().eval()).field is None


def test_a_model_without_attention_is_refused() -> None:
    x = torch.randn(5, 4, requires_grad=True)
    case = Case(lambda: x.sum().reshape(1), torch.arange(5), list("abcde"))
    with pytest.raises(ArgumentError, match="without attention or aggregation"):
        contributions(case)
    with pytest.raises(ArgumentError, match="method"):
        contributions(case, "best")  # type: ignore[arg-type]


def test_the_default_is_exact_while_it_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gcn(4, 3).eval()
    case, whole = large_case(model), large_case(model)
    whole.__dict__["field"] = None  # computes all nodes
    assert contributions(whole).method == "removed"
    monkeypatch.setattr(attribution, "MOST_REMOVED", 3)
    assert contributions(whole).method == "left_out"
    assert contributions(case).method == "removed"
    monkeypatch.setattr(attribution, "MOST_NODES", 5 * len(case.labels))
    assert contributions(case).method == "left_out"
    copied = replace(whole, score_copies=lambda count: whole.score().repeat(count))
    copied.__dict__["field"] = None
    assert attribution._default(copied, *attribution._recorded(copied)) == "removed"
    monkeypatch.setattr(attribution, "MOST_COPIED", 5 * len(case.labels))
    assert contributions(copied).method == "left_out"
    deleted = replace(whole, score_without=lambda *_: whole.score())
    deleted.__dict__["field"] = None
    assert contributions(deleted).method == "removed"
    monkeypatch.setattr(attribution, "MOST_DELETED", 3)
    assert contributions(deleted).method == "left_out"
    x = torch.randn(5, 4)
    sums = node_case(gin(4, 3).eval(), x)
    assert contributions(sums).method == "relevance", "for a node of a model that only sums"
    weighted = node_case(gcn(4, 3).eval(), x)
    assert contributions(weighted).method == "relevance", "for too many parts of weighted sums"
    monkeypatch.setattr(attribution, "MOST_REMOVED", 64)
    assert contributions(weighted).method == "removed"
    monkeypatch.setattr(attribution, "MOST_REMOVED", 3)
    layer, pool, x = MultiHeadAttention(8, 2), Pool("mean"), torch.randn(5, 8)
    words = Case(lambda: pool(layer(x, graphs.complete()))[:1], torch.arange(5), list("abcde"))
    assert contributions(words).method == "relevance", "for parts that are not edges"


def test_the_page_says_which_method_is_the_default() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/explain.md").read_text()
    section = page.split("## Which method is right")[1].split("\n## ")[0]
    text = " ".join(section.split())
    assert f"up to {attribution.MOST_REMOVED} parts" in text
    for most in (attribution.MOST_COPIED, attribution.MOST_NODES):
        assert f"parts times the number of nodes is at most {most:,}" in text
    assert f"a molecule or recording with up to {attribution.MOST_DELETED}" in text
    assert "Links always use `left_out`" in text
    assert "only sums over neighbours, such as GIN, uses `relevance`" in text
    assert "Forecasts use `integrated_gradients`" in text
    table = section.split("Arguments for the rows")[0]
    header, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    titles = [cell.strip().removeprefix("fidelity of ") for cell in header.split("|")[2:-1]]
    methods = [title.strip("`") for title in titles]
    assert len(rows) > 10
    defaults = {
        "series": "integrated_gradients",
        "sage-facebook": "left_out",
    }
    for row in rows:
        run, *cells = [cell.strip() for cell in row.split("|")[1:-1]]
        values = [float(c.replace("−", "-").replace("not measured", "-inf")) for c in cells]
        best = methods[values.index(max(values))]
        default = defaults.get(run.split("`")[1], "removed")
        is_best = values[methods.index(default)] == max(values)
        assert is_best or f"except {run.split()[0]}, where `{best}` is better" in text, run
