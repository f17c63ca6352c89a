"""A graph may be met first in any mode of PyTorch; what it keeps then serves everybody later.

Inference mode is in ``tests/contracts/test_modes.py``, for every pattern on every engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bound_graphs
from tests.errors import refused

N = 12
MAKERS: dict[str, Callable[[], Pattern]] = {
    "causal": graphs.causal,
    "expander": lambda: graphs.expander(4),
    "random": lambda: graphs.random(3),
    "union": lambda: graphs.window(2) | graphs.hubs([0]),
    "edges": lambda: graphs.edges(torch.arange(30).view(2, 15) * 7 % N, N),
    "batch": lambda: graphs.batch(graphs.causal(), [4, 8]),
    "ragged edges": lambda: graphs.batch(graphs.grid(2, 2), [4, 4, 4]),
    "dense": lambda: graphs.from_dense(torch.ones(N, N, dtype=torch.bool).tril()),
    "composed": lambda: graphs.edges(torch.tensor([[0, 1], [2, 3]]), N) | graphs.window(1),
    "power": lambda: graphs.edges(torch.tensor([[0, 1], [2, 3]]), N).power(2),
    "transpose": (graphs.causal() - graphs.window(1)).transpose,
}
EVERY = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    bound_graphs.cache_clear()
    yield
    bound_graphs.cache_clear()


def features(**options: object) -> Tensor:
    return torch.randn(N, 2, 4, **options)  # type: ignore[call-overload, no-any-return]


def use(x: Tensor, graph: Pattern) -> Tensor:
    """Everything that the primitive offers, on every engine that can serve."""
    total = ew.attend(x, x, x, graph).sum() + ew.aggregate(x, graph, reduce="mean").sum()
    for choice in ew.explain_plan(x, x, x, graph).choices:
        if not choice.reasons:
            total = total + ew.attend(x, x, x, graph, engine=choice.engine).sum()
    total = total + ew.aggregate(x, graph, reduce="max").sum()
    return total + ew.attention_weights(x, x, graph).square().sum()


def trains(graph: Pattern) -> Tensor:
    """The gradient of all of that."""
    x = torch.linspace(-1, 1, N * 8).view(N, 2, 4).requires_grad_()
    use(x, graph).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    return x.grad


def on_another_default_device(graph: Pattern) -> None:
    x = features(requires_grad=True)
    with torch.device("meta"):
        assert use(x, graph).device.type == "cpu"


def with_fake_tensors(graph: Pattern) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        use(features(), graph)


class Attends(torch.nn.Module):
    def __init__(self, graph: Pattern) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, x: Tensor) -> Tensor:
        return ew.attend(x, x, x, self.graph)


class Fails(Attends):
    def forward(self, x: Tensor) -> Tensor:
        if super().forward(x).sum() > 0:  # which no export can know
            return x
        return -x


def exported(graph: Pattern) -> None:
    x = features()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Attends(graph), (x,))
    torch.testing.assert_close(program.module()(x), ew.attend(x, x, x, graph))


def not_exported(graph: Pattern) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match=r"data-dependent"):
            torch.export.export(Fails(graph), (features(),))


def transformed(graph: Pattern) -> None:
    torch.func.grad(lambda x: use(x, graph))(features())


def autocast(graph: Pattern) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        use(features(), graph)


MODES = {
    mode.__name__: mode
    for mode in (
        *(on_another_default_device, with_fake_tensors, exported),
        *(not_exported, transformed, autocast),
    )
}


@pytest.mark.slow(every=7)
@EVERY
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_met_in_a_mode_trains_afterwards(name: str, mode: str) -> None:
    expected = trains(MAKERS[name]())
    bound_graphs.cache_clear()
    graph = MAKERS[name]()
    MODES[mode](graph)
    torch.testing.assert_close(trains(graph), expected, rtol=1e-5, atol=1e-6)


def test_no_cached_value_is_rounded_by_autocast() -> None:
    def weights() -> Tensor:
        return torch.ones(2, 2) @ torch.full((2, 2), 1 / 3)

    graph = graphs.causal().bind(N)
    with torch.autocast("cpu", torch.bfloat16):
        kept = graph.cached("weights", weights)
    torch.testing.assert_close(kept, weights())


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("grad", [True, False])
@EVERY
def test_meta_tensors_give_shapes(name: str, grad: bool) -> None:
    graph = MAKERS[name]()
    x = features(device="meta", requires_grad=grad)
    bound = graph.bind(N)
    out, lse = ew.attend_with_lse(x, x, x, graph)
    scores = ew.edge_scores(x, x, graph)
    weights = ew.edge_softmax(scores, bound)
    given = [out, ew.attend(x, x, x, graph, dropout=0.1), lse, scores, weights]
    given += [ew.aggregate(x, graph, reduce=reduce) for reduce in ("sum", "mean", "max", "min")]
    given += [ew.aggregate(x, graph, weight=weights), bound.to("meta").in_degree()[:, None, None]]
    for tensor, shape in zip(
        given,
        [(N, 2, 4)] * 2 + [(N, 2)] + [(bound.num_edges, 2)] * 2 + [(N, 2, 4)] * 5 + [(N, 1, 1)],
        strict=True,
    ):
        assert tensor.is_meta
        assert tensor.shape == shape
    if grad:
        total = sum(tensor.float().sum() for tensor in given)
        assert isinstance(total, Tensor)
        total.backward()
        assert x.grad is not None
        assert x.grad.is_meta
    trains(graph)


def test_edges_on_meta_have_a_number_and_no_more() -> None:
    graph = graphs.edges(torch.empty(2, 5, dtype=torch.long, device="meta"), N)
    x = features(device="meta", requires_grad=True)
    use(x, graph).backward()
    assert x.grad is not None
    with refused("graph", expected="edges can be copied to cpu", got="meta", remedy="outside of"):
        ew.attend(features(), features(), features(), graph)
