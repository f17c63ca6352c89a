"""Tree-LSTM node by node, and how nodes of a tree are related, against loops over parents."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import graphs, models
from edgewise.models.tree_lstm import downwards, upwards
from edgewise.models.tree_transformer import NONE, tree_relations
from tests.errors import refused

WIDTH = 5
PARENTS = [3, 3, -1, 2, 2, 4, 4, 6, -1, 8, -1]  # a tree of eight, one of two, and a node alone
SIZES = [8, 2, 1]
TREES = [range(8), range(8, 10), range(10, 11)]


def forest(parents: list[int] = PARENTS) -> graphs.Graph:
    return graphs.tree(parents, reads="children").bind(len(parents))


def children(node: int) -> list[int]:
    return [child for child, parent in enumerate(PARENTS) if parent == node]


def by_child_sum(model: models.tree_lstm, x: Tensor, node: int) -> tuple[Tensor, Tensor]:
    """Equations 2 to 8 of the paper, one node after its children."""
    cell = model.cell
    w_i, w_o, w_u, w_f = cell.x.weight.chunk(4)
    b_i, b_o, b_u, b_f = cell.x.bias.chunk(4)
    u_i, u_o, u_u = cell.h.weight.chunk(3)
    below = [by_child_sum(model, x, child) for child in children(node)]
    h_sum = sum((h for h, _ in below), torch.zeros(WIDTH, dtype=torch.double))
    i = (w_i @ x[node] + u_i @ h_sum + b_i).sigmoid()
    o = (w_o @ x[node] + u_o @ h_sum + b_o).sigmoid()
    u = (w_u @ x[node] + u_u @ h_sum + b_u).tanh()
    c = i * u
    for h_k, c_k in below:
        c = c + (w_f @ x[node] + cell.forget.weight @ h_k + b_f).sigmoid() * c_k
    return o * c.tanh(), c


def by_binary(model: models.tree_lstm, x: Tensor, node: int) -> tuple[Tensor, Tensor]:
    """Equations 9 to 14, with two places for children."""
    cell = model.cell
    w_i, w_o, w_u, w_f = cell.x.weight.chunk(4)
    b_i, b_o, b_u, b_f = cell.x.bias.chunk(4)
    rows = cell.h.weight.split(WIDTH)  # i, o, u, then a forget gate for each child
    below = [by_binary(model, x, child) for child in children(node)]
    nothing = torch.zeros(WIDTH, dtype=torch.double)
    below += [(nothing, nothing)] * (2 - len(below))

    def read(row: Tensor) -> Tensor:
        return sum(u_l @ h_l for u_l, (h_l, _) in zip(row.split(WIDTH, dim=1), below, strict=True))

    i = (w_i @ x[node] + read(rows[0]) + b_i).sigmoid()
    o = (w_o @ x[node] + read(rows[1]) + b_o).sigmoid()
    u = (w_u @ x[node] + read(rows[2]) + b_u).tanh()
    c = i * u
    for k, (_, c_k) in enumerate(below):
        c = c + (w_f @ x[node] + read(rows[3 + k]) + b_f).sigmoid() * c_k
    return o * c.tanh(), c


def from_above(model: models.tree_lstm, x: Tensor, node: int) -> tuple[Tensor, Tensor]:
    """The LSTM's equations along the path from the root, one node after its parent."""
    cell = model.from_above
    w_i, w_o, w_u, w_f = cell.x.weight.chunk(4)
    b_i, b_o, b_u, b_f = cell.x.bias.chunk(4)
    u_i, u_o, u_u = cell.h.weight.chunk(3)
    h = c = torch.zeros(WIDTH, dtype=torch.double)
    if PARENTS[node] >= 0:
        h, c = from_above(model, x, PARENTS[node])
    i = (w_i @ x[node] + u_i @ h + b_i).sigmoid()
    o = (w_o @ x[node] + u_o @ h + b_o).sigmoid()
    u = (w_u @ x[node] + u_u @ h + b_u).tanh()
    f = (w_f @ x[node] + cell.forget.weight @ h + b_f).sigmoid()
    c = i * u + f * c
    return o * c.tanh(), c


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("places", "formula"), [(0, by_child_sum), (2, by_binary)])
def test_tree_lstm_is_its_formula_node_by_node(
    places: int, formula: object, bidirectional: bool
) -> None:
    width = WIDTH * (1 + bidirectional)
    model = models.tree_lstm(3, 2, width=width, children=places, bidirectional=bidirectional)
    model = model.double()
    x = torch.randn(len(PARENTS), 3, dtype=torch.double)
    states = model.states(x, forest())
    embedded = model.embed(x)
    below = torch.stack([formula(model, embedded, node)[0] for node in range(len(PARENTS))])
    torch.testing.assert_close(states[:, :WIDTH], below)
    if bidirectional:
        both = torch.cat([embedded, below], dim=1)
        above = torch.stack([from_above(model, both, node)[0] for node in range(len(PARENTS))])
        torch.testing.assert_close(states[:, WIDTH:], above)
    torch.testing.assert_close(model(x, forest()), model.head(states))


def test_a_node_depends_on_what_is_below_it_alone() -> None:
    model = models.tree_lstm(3, 2, width=WIDTH).double()
    x = torch.randn(len(PARENTS), 3, dtype=torch.double, requires_grad=True)
    model.states(x, forest())[4].sum().backward()
    reached = x.grad.abs().sum(1) > 0
    assert reached.nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_both_ways_a_node_depends_on_the_whole_of_its_tree_and_on_no_other() -> None:
    model = models.tree_lstm(3, 2, width=2 * WIDTH, bidirectional=True).double()
    for node in range(len(PARENTS)):
        x = torch.randn(len(PARENTS), 3, dtype=torch.double, requires_grad=True)
        model(x, forest())[node].sum().backward()
        reached = (x.grad != 0).any(1).nonzero().flatten().tolist()
        assert reached == next(list(part) for part in TREES if node in part)


@pytest.mark.parametrize("places", [0, 2])
def test_both_ways_no_node_and_one_node_are_good_input(places: int) -> None:
    """One alone is as in any forest in which it is alone."""
    model = models.tree_lstm(3, 2, width=4, children=places, bidirectional=True).double()
    x = torch.randn(3, 3, dtype=torch.double)
    none = model(x[:0], forest([]))
    assert none.shape == (0, 2)
    alone = torch.cat([model(x[i : i + 1], forest([-1]), batch=[1]) for i in range(3)])
    torch.testing.assert_close(model(x, forest([-1, -1, -1])), alone)


def test_an_odd_width_has_no_halves() -> None:
    with refused("width", expected="an even number", got="5", remedy="add 1"):
        models.tree_lstm(3, 2, width=5, bidirectional=True)


def test_levels_are_heights_and_depths() -> None:
    assert [level.nodes.tolist() for level in upwards(forest())] == [
        [0, 1, 5, 7, 9, 10],
        [3, 6, 8],
        [4],
        [2],
    ]
    assert [level.nodes.tolist() for level in downwards(forest())] == [
        [2, 8, 10],
        [3, 4, 9],
        [0, 1, 5, 6],
        [7],
    ]


def test_cycles_and_too_many_children_are_refused() -> None:
    both = graphs.tree([-1, 0], reads="both").bind(2)
    with refused("graph", expected="a forest", got="a cycle", remedy="children"):
        models.tree_lstm(3, 2)(torch.zeros(2, 3), both)
    three = graphs.tree([-1, 0, 0, 0], reads="children").bind(4)
    with refused("graph", expected="at most 2", got="a node with 3 children", remedy="children=0"):
        models.tree_lstm(3, 2, children=2)(torch.zeros(4, 3), three)


@pytest.mark.parametrize("name", ["tree_lstm", "tree_transformer"])
def test_what_is_no_forest_is_refused(name: str) -> None:
    model = getattr(models, name)(3, 2)
    up = graphs.tree([-1, 0, 0], reads="parent").bind(3)
    with refused("graph", expected="a forest", got="node 0 with 2 parents", remedy="children"):
        model(torch.zeros(3, 3), up)
    ring = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    with refused("graph", expected="a forest", got="a cycle", remedy="children"):
        model(torch.zeros(3, 3), ring)
    chain = graphs.tree([-1, 0, 1], reads="children").bind(3)
    with refused("batch", expected="no edge between", got="an edge", remedy="sizes"):
        model(torch.zeros(3, 3), chain, batch=[2, 1])


def path_up(node: int) -> list[int]:
    found = []
    while node != -1:
        found.append(node)
        node = PARENTS[node]
    return found


def test_relations_are_steps_by_the_lowest_common_ancestor() -> None:
    graph = graphs.batch([forest([3, 3, -1, 2, 2, 4, 4, 6]), forest([-1, 0]), forest([-1])])
    found, at = tree_relations(graph).tolist(), 0
    first = 0
    for n in SIZES:
        for i in range(first, first + n):
            for j in range(first, first + n):
                one, other = path_up(i), path_up(j)
                lowest = next(node for node in one if node in other)
                assert found[at] == [one.index(lowest), other.index(lowest)]
                at += 1
        first += n
    assert at == len(found)
    two = tree_relations(forest([-1, -1])).tolist()
    assert two == [[0, 0], [NONE, NONE], [NONE, NONE], [0, 0]]


def test_relations_of_other_pairs_are_refused() -> None:
    model = models.tree_transformer(3, 2, width=8, heads=2)
    graph, x = forest([-1, 0, 0]), torch.randn(3, 3)
    code = model.relation.code(graph)
    for wrong, came in ((code[:1], "[1]"), (code[:, None], "[9, 1]"), (code.tolist(), "list")):
        with refused("relations", expected="[9]", got=came, remedy="code(graph)"):
            model(x, graph, relations=wrong)


def test_labels_bias_the_pair_that_they_join_in_each_direction() -> None:
    model = models.tree_transformer(3, 2, edge_width=2, width=8, heads=2).double()
    graph = graphs.batch([forest([-1, 0, 0]), forest([1, -1])])
    edge_attr = torch.randn(3, 2, dtype=torch.double)
    bias = model.of_labels(graph, edge_attr, 13)
    expected = torch.zeros(13, 2, dtype=torch.double)
    down, up = model.labels(edge_attr).chunk(2, dim=1)
    for edge, (child, parent) in enumerate(graph.edge_index.T.tolist()):
        first, side, base = (0, 3, 0) if parent < 3 else (9, 2, 3)
        expected[first + (parent - base) * side + child - base] = down[edge]
        expected[first + (child - base) * side + parent - base] = up[edge]
    torch.testing.assert_close(bias, expected)
    x = torch.randn(5, 3, dtype=torch.double)
    given = {"batch": [3, 2]}
    assert not torch.allclose(
        model(x, graph, edge_attr=edge_attr, **given), model(x, graph, **given)
    )


def test_tree_transformer_is_its_formula_pair_by_pair() -> None:
    """Pre-norm layers in plain PyTorch; the bias of a pair by walking up from both of its nodes."""
    torch.manual_seed(0)
    farthest, heads, size = 2, 2, 4
    model = models.tree_transformer(
        3, 2, edge_width=2, width=8, depth=2, heads=heads, max_distance=farthest
    ).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    weights, graph = dict(model.named_parameters()), forest()
    edge_attr = torch.randn(graph.num_edges, 2, dtype=torch.double)
    x = torch.randn(len(PARENTS), 3, dtype=torch.double)
    found = model(x, graph, edge_attr=edge_attr, batch=SIZES)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (8,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def bias(i: int, j: int) -> Tensor:
        one, other = path_up(i), path_up(j)
        lowest = next(node for node in one if node in other)
        up, down = (min(path.index(lowest), farthest) for path in (one, other))
        total = weights["relation.table"][up * (farthest + 1) + down]
        for edge, (child, parent) in enumerate(graph.edge_index.T.tolist()):
            of_parent, of_child = (weights["labels.weight"] @ edge_attr[edge]).chunk(2)
            if (i, j) == (parent, child):
                total = total + of_parent
            if (i, j) == (child, parent):
                total = total + of_child
        return total

    h = linear(x, "embed")
    for layer in ("layers.0", "layers.1"):
        inner = norm(h, f"{layer}.attention.norm")
        q, k, v = (
            linear(inner, f"{layer}.attention.sublayer.qkv").view(-1, 3, heads, size).unbind(1)
        )
        mixed = torch.zeros_like(q)
        for tree in TREES:
            for i in tree:
                scores = torch.stack([(q[i] * k[j]).sum(-1) / 2 + bias(i, j) for j in tree])
                mixed[i] = (scores.softmax(0)[..., None] * v[list(tree)]).sum(0)
        h = h + linear(mixed.flatten(1), f"{layer}.attention.sublayer.output")
        inner = F.gelu(
            linear(norm(h, f"{layer}.feed_forward.norm"), f"{layer}.feed_forward.sublayer.0")
        )
        h = h + linear(inner, f"{layer}.feed_forward.sublayer.3")
    expected = linear(norm(h, "norm"), "head")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    probe = torch.randn_like(found)
    grads = [
        torch.autograd.grad((out * probe).sum(), model.parameters()) for out in (found, expected)
    ]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "options"),
    [*[(name, {}) for name in models.TREE_MODELS], ("tree_lstm", {"bidirectional": True})],
)
def test_trees_of_a_batch_are_read_alone(name: str, options: dict[str, bool]) -> None:
    model = models.TREE_MODELS[name](3, 2, **options).double().eval()
    x = torch.randn(5, 3, dtype=torch.double)
    one, other = forest([-1, 0, 0]), forest([1, -1])
    together = model(x, graphs.batch([one, other]), batch=[3, 2])
    apart = torch.cat([model(x[:3], one, batch=[3]), model(x[3:], other, batch=[2])])
    torch.testing.assert_close(together, apart)
