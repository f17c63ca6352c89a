"""Compiled code gives what the same code gives: at once, at another length, and in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import encodings, graphs, models
from edgewise.encodings.members import member_graphs
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bound_graphs
from edgewise.layers import packed_graph

# The compiler looks at the gradients of what it goes on from, after a break.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch._dynamo.reset()
    bound_graphs.cache_clear()
    yield
    torch._dynamo.reset()


def agrees(model: nn.Module, calls: list[tuple[Any, ...]], *, fullgraph: bool = True) -> None:
    """Output and gradients, compiled first: nothing is bound, listed or sorted before."""
    compiled = torch.compile(model, backend="aot_eager", fullgraph=fullgraph)
    for given in calls:
        leaves = [*model.parameters()]
        leaves += [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        both = []
        for run in (compiled, model):
            torch.manual_seed(0)  # of dropout and of the signs of eigenvectors
            out = run(*given)
            total = out.square().sum()
            both.append((out, *torch.autograd.grad(total, leaves, materialize_grads=True)))
        for mine, other in zip(*both, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


class Step(nn.Module):
    """One step of the primitive on features of two heads."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.map, self.step = nn.Linear(8, 8), step

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self.map(x).view(-1, 2, 4))


def attends(graph: Pattern) -> Callable[[Tensor], Tensor]:
    return lambda x: ew.attend(x, x, x, graph)


def aggregates(graph: Pattern) -> Callable[[Tensor], Tensor]:
    return lambda x: ew.aggregate(x, graph, reduce="mean")


def weighs(graph: Pattern) -> Callable[[Tensor], Tensor]:
    return lambda x: ew.attention_weights(x, x, graph)


GRAPHS: dict[str, tuple[Callable[[], Pattern], tuple[int, ...]]] = {
    "causal": (graphs.causal, (24, 30, 24)),
    "union": (lambda: graphs.window(2) | graphs.hubs([0]), (24,)),
    "edges": (lambda: graphs.edges(torch.arange(80).view(2, 40) * 7 % 24, 24), (24,)),
    "batch": (lambda: graphs.batch(graphs.causal(), [10, 14]), (24,)),
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", GRAPHS)
def test_attention_compiles_in_one_piece(name: str) -> None:
    make, lengths = GRAPHS[name]
    agrees(Step(attends(make())), [(torch.randn(n, 8),) for n in lengths])


@pytest.mark.parametrize("step", [aggregates, weighs])
def test_the_steps_compile_in_one_piece(step: Any) -> None:
    agrees(Step(step(GRAPHS["union"][0]())), [(torch.randn(24, 8),)])


@pytest.mark.slow
def test_a_pattern_that_the_code_makes_itself_breaks_it_and_works() -> None:
    step = Step(lambda x: ew.attend(x, x, x, graphs.window(2) | graphs.hubs([0])))
    agrees(step, [(torch.randn(n, 8),) for n in (24, 30)], fullgraph=False)


def test_edges_that_are_made_in_the_code_are_checked_when_it_runs() -> None:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(x: Tensor, edge_index: Tensor) -> Tensor:
        return ew.attend(x, x, x, graphs.edges(edge_index, 5), engine="rows")

    x, edge_index = torch.randn(5, 1, 4), torch.tensor([[0, 1, 2], [1, 1, 4]])
    expected = ew.attend(x, x, x, graphs.edges(edge_index, 5), engine="rows")
    torch.testing.assert_close(run(x, edge_index), expected)
    with pytest.raises(ew.ArgumentError, match="an edge outside of 5 × 5 nodes"):
        run(x, edge_index + 1)


@pytest.mark.slow
def test_another_graph_is_not_taken_for_the_first() -> None:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(x: Tensor, graph: Pattern) -> Tensor:
        return ew.attend(x, x, x, graph)

    x = torch.randn(6, 1, 4)
    for graph in (graphs.causal(), graphs.window(1), graphs.window(2)):
        torch.testing.assert_close(run(x, graph), ew.attend(x, x, x, graph))
        bound = graph.bind(6)
        torch.testing.assert_close(run(x, bound), ew.attend(x, x, x, graph))


def test_code_compiled_in_inference_mode_leaves_nothing_behind() -> None:
    step = Step(attends(graphs.causal()))
    x = torch.randn(24, 8)
    with torch.inference_mode():
        torch.compile(step, backend="aot_eager", fullgraph=True)(x)
    step(x).sum().backward()


@pytest.mark.slow
def test_gpt_compiles() -> None:
    model = models.gpt(50, width=16, depth=1, heads=2, ffn_dim=32, dropout=0.0)
    agrees(model, [(torch.randint(50, (2, n)),) for n in (64, 48)])


@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_a_compiled_step_of_training_draws_other_dropout_in_each_call(engine: str) -> None:
    pattern = graphs.window(2)
    step = Step(lambda x: ew.attend(x, x, x, pattern, dropout=0.5, engine=engine))
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    outputs = []
    for seed in range(3):
        x = torch.randn(24, 8)
        both = []
        for run in (compiled, step):
            torch.manual_seed(seed)
            out = run(x)
            both += [out, torch.autograd.grad(out.square().sum(), step.map.weight)[0]]
        torch.testing.assert_close(both[:2], both[2:], rtol=1e-4, atol=1e-5)
        outputs.append(both[0])
    assert not torch.equal(outputs[0] == 0, outputs[1] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["sizes", "membership"])
def test_a_graph_network_compiles_for_a_batch(form: str) -> None:
    model = models.graph_network(8, 3, width=8, depth=1)
    packed = graphs.batch(graphs.window(1), [4, 6])
    batch = [4, 6] if form == "sizes" else graphs.membership([4, 6])
    x = torch.randn(10, 8)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, packed, batch=batch), model(x, packed, batch=batch))


def ring(*sizes: int) -> ew.Graph:
    """Cycles of these sizes, packed, with each edge in both directions."""
    cycles = [torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in sizes]
    members = [graphs.edges(torch.cat([c, c.flip(0)], 1), c.shape[1]) for c in cycles]
    return graphs.edges(graphs.batch(members).edge_index, sum(sizes))


def test_facts_of_a_graph_are_constants_and_another_graph_has_others() -> None:
    @torch.compile(backend="eager", fullgraph=True)
    def run(x: Tensor, graph: ew.Graph, sizes: list[int]) -> Tensor:
        packed = packed_graph(x, graph, sizes)
        pairs = member_graphs(packed)
        spectrum = encodings.laplacian_spectrum(packed, 2)[pairs.num_targets - 7 :]
        return x.sum() * spectrum + encodings.shortest_paths(packed).max() + pairs.num_edges

    x, first, second = torch.randn(8, 2), ring(3, 5), ring(4, 4)
    outputs = [run(x, first, [3, 5]), run(x, second, [4, 4]), run(x, first, [3, 5])]
    assert torch.equal(outputs[0], outputs[2])
    for out, sizes in zip(outputs, ((3, 5), (4, 4)), strict=False):
        spectrum = encodings.laplacian_spectrum(graphs.batch([ring(n) for n in sizes]), 2)[1:]
        expected = x.sum() * spectrum + max(sizes) // 2 + sum(n * n for n in sizes)
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("fullgraph", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_error_of_a_fact_is_that_of_eager_code(fullgraph: bool) -> None:
    @torch.compile(backend="eager", fullgraph=fullgraph)
    def run(x: Tensor, graph: ew.Graph) -> Tensor:
        return x + graph.derived(encodings.laplacian_eigenvectors, 1)

    kind = RuntimeError if fullgraph else ew.ArgumentError
    with pytest.raises(kind, match="every edge in both directions"):
        run(torch.ones(2, 1), graphs.edges(torch.tensor([[0], [1]]), 2))


def test_a_fact_of_a_tensor_is_no_constant() -> None:
    colors = encodings.wl_colors
    compiled = torch.compile(lambda graph, x: colors(graph, 1, x), backend="eager")
    graph = ring(6)
    for initial in (torch.zeros(6, dtype=torch.long), torch.arange(6)):
        assert torch.equal(compiled(graph, initial), colors(graph, 1, initial))


@pytest.mark.parametrize("how", ["compile", "export"])
def test_a_batch_with_an_edge_between_two_graphs_is_refused(how: str) -> None:
    class Packed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * member_graphs(packed_graph(x, graph, [3, 3])).num_edges

    graph, x = ring(6), torch.ones(6, 1)
    compiled = torch.compile(Packed(), backend="eager")
    run = compiled if how == "compile" else lambda x: torch.export.export(Packed(), (x,))
    with pytest.raises(ew.ArgumentError, match="no edge between two graphs"):
        run(x)


SMALL: dict[str, dict[str, Any]] = {
    "esa": {"blocks": "MSPS", "seeds": 3, "heads": 2, "dropout": 0.3, "edge_width": 2},
    "exphormer": {"depth": 1, "heads": 2, "edge_width": 2},
    "fully_adjacent": {"depth": 2, "heads": 2},
    "gated_gcn": {"depth": 2, "edge_width": 2},
    "gps": {"depth": 1, "heads": 2, "edge_width": 2},
    "graph_bert": {"depth": 1},
    "graph_network": {"depth": 1, "edge_width": 2},
    "graphormer": {"depth": 1, "heads": 2, "edge_width": 2},
    "grit": {"depth": 2, "heads": 2, "edge_width": 2},
    "laplacian_transformer": {"depth": 1, "heads": 2, "edge_width": 2},
    "polynormer": {"depth": 1, "global_depth": 1, "heads": 2},
    "san": {"depth": 1, "heads": 2, "edge_width": 2},
    "token_gt": {"depth": 1, "heads": 2, "edge_width": 2},
}
"""Arguments of models that compute facts of the graph; their defaults have dropout, or some do."""


class OfBatch(nn.Module):
    """A model in training, with all arguments by position."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.reads_edges = "edge_width" in SMALL[name]
        self.model = models.MODELS[name](6, 2, width=8, **SMALL[name]).train()

    def forward(self, x: Tensor, graph: ew.Graph, edge_attr: Tensor, sizes: list[int]) -> Tensor:
        given = {"edge_attr": edge_attr} if self.reads_edges else {}
        out: Tensor = self.model(x, graph, batch=sizes, **given)
        return out


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_model_of_graphs_trains_on_another_graph_in_compiled_code(name: str) -> None:
    torch.manual_seed(0)
    calls = [
        (torch.randn(8, 6), ring(*sizes), torch.randn(16, 2), list(sizes))
        for sizes in ((3, 5), (4, 4))
    ]
    agrees(OfBatch(name), calls)


@pytest.mark.slow
def test_a_compiled_model_of_graphs_draws_other_dropout_in_each_call() -> None:
    compiled = torch.compile(OfBatch("gps"), backend="aot_eager", fullgraph=True)
    given = torch.randn(8, 6), ring(3, 5), torch.randn(16, 2), [3, 5]
    assert not torch.equal(compiled(*given), compiled(*given))


def test_compiled_code_refuses_a_batch_with_a_node_in_two_graphs() -> None:
    compiled = torch.compile(models.graph_network(8, 3, width=8, depth=1), backend="eager")
    twice = graphs.edges(torch.tensor([[0, 1, 1], [0, 0, 1]]), (2, 2))
    with pytest.raises(ew.ArgumentError, match="each node in exactly one graph"):
        compiled(torch.randn(2, 8), graphs.window(1).bind(2), batch=twice)


def test_a_graph_of_compiled_code_may_be_transposed_after_a_break() -> None:
    @torch.compile(backend="eager")
    def first_targets(x: Tensor, sizes: list[int]) -> Tensor:
        return x * graphs.membership(sizes).transpose().source

    expected = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0])
    torch.testing.assert_close(first_targets(torch.ones(5), [2, 3]), expected)
