"""Softmax, sparsemax and entmax over the edges of each target, beside the package ``entmax``."""

from __future__ import annotations

from collections.abc import Callable

import entmax
import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.graphs import Graph
from tests.errors import refused

N, H, D = 7, 3, 4
SERVING = ["reference", "dense", "auto"]
EDGES = graphs.edges(
    torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 3, 6, 1], [1, 1, 1, 1, 1, 1, 3, 3, 3, 4, 6]]), N
)
"""Degrees 6, 3, 1 and 1; three targets read nothing."""
GRAPHS = [graphs.complete().bind(N), graphs.causal().bind(N), EDGES]
THEIRS: dict[float, Callable[[Tensor], Tensor]] = {
    1.0: lambda scores: scores.softmax(-1),
    1.25: lambda scores: entmax.entmax_bisect(scores, 1.25, n_iter=100),
    1.5: entmax.entmax15,
    2.0: entmax.sparsemax,
}


def nodes(*lead: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [2 * torch.randn(*lead, N, H, D, dtype=dtype) for _ in range(3)]


def by_row(graph: Graph, scores: Tensor, normalise: Callable[[Tensor], Tensor]) -> Tensor:
    """Weights ``[E, H]`` from scores like that: each target by itself, with their package."""
    weights = torch.zeros_like(scores)
    for target in graph.target.unique().tolist():
        edges = (graph.target == target).nonzero().flatten()
        weights = weights.index_copy(0, edges, normalise(scores[edges].T).T)
    return weights


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("engine", SERVING)
@pytest.mark.parametrize("graph", GRAPHS, ids=["complete", "causal", "edges"])
@pytest.mark.parametrize("alpha", THEIRS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_output_and_gradients_are_those_of_the_package(
    engine: str, graph: Graph, alpha: float, dtype: torch.dtype
) -> None:
    leaves = [x.requires_grad_() for x in nodes(dtype=dtype)]
    query, key, value = leaves
    weights = by_row(graph, ew.edge_scores(query, key, graph), THEIRS[alpha])
    theirs = ew.aggregate(value, graph, weight=weights, engine="reference")
    wanted = torch.autograd.grad(theirs.square().sum(), leaves)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for given in (alpha, torch.full((H,), alpha, dtype=dtype)):
        out = ew.attend(*leaves, graph, normaliser=ew.Entmax(given), engine=engine)
        torch.testing.assert_close(out, theirs, rtol=0, atol=tolerance)
        found = torch.autograd.grad(out.square().sum(), leaves)
        for mine, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=50 * tolerance)


@pytest.mark.parametrize("engine", ["reference", "dense"])
def test_the_gradient_of_alpha_is_that_of_the_package(engine: str) -> None:
    query, key, value = nodes()
    alpha = torch.tensor([1.05, 1.5, 1.95], dtype=torch.float64, requires_grad=True)
    for graph in GRAPHS:
        out = ew.attend(query, key, value, graph, normaliser=ew.Entmax(alpha), engine=engine)
        (mine,) = torch.autograd.grad(out.square().sum(), alpha)

        def theirs(scores: Tensor) -> Tensor:
            return entmax.entmax_bisect(scores, alpha[:, None], n_iter=100)

        weights = by_row(graph, ew.edge_scores(query, key, graph), theirs)
        other = ew.aggregate(value, graph, weight=weights, engine="reference")
        (wanted,) = torch.autograd.grad(other.square().sum(), alpha)
        torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-10)


def test_alpha_of_1_is_softmax_and_has_the_gradient_of_the_limit() -> None:
    r""":math:`\partial w_i / \partial α = w_i (\sum_j w_j \log^2 w_j - \log^2 w_i) / 2`."""
    query, key, value = nodes()
    alpha = torch.ones(H, dtype=torch.float64, requires_grad=True)
    for graph in GRAPHS:
        weights = ew.attention_weights(query, key, graph, normaliser=ew.Entmax(alpha))
        soft = ew.attention_weights(query, key, graph)
        torch.testing.assert_close(weights, soft, rtol=0, atol=1e-14)
        (mine,) = torch.autograd.grad((weights * value.new_ones(1)).square().sum(), alpha)
        logs = soft.log().square()
        mean = ew.aggregate(logs[..., None].new_ones(N, H, 1), graph, weight=soft * logs)[..., 0]
        slope = soft * (mean[graph.target] - logs) / 2
        torch.testing.assert_close(mine, (2 * soft * slope).sum(0), rtol=0, atol=1e-12)
    named = ew.attend(query, key, value, EDGES, normaliser=ew.Entmax(1.0), engine="rows")
    assert named.equal(ew.attend(query, key, value, EDGES, normaliser="softmax", engine="rows"))


def test_numbers_near_softmax_lose_no_digits() -> None:
    """Powers of 1 / (α - 1) would: at 1 + 1e-6 float32 has one digit of α - 1."""
    query, key, value = nodes(dtype=torch.float32)
    soft = ew.attend(query, key, value, EDGES)
    for small in (1e-6, 1e-4):
        alpha = torch.full((H,), 1 + small, requires_grad=True)
        out = ew.attend(query, key, value, EDGES, normaliser=ew.Entmax(alpha))
        torch.testing.assert_close(out, soft, rtol=0, atol=60 * small + 2e-6)
        wide = alpha.detach().double().requires_grad_()
        doubles = (x.double() for x in (query, key, value))
        true = ew.attend(*doubles, EDGES, normaliser=ew.Entmax(wide))
        (mine,) = torch.autograd.grad(out.square().sum(), alpha)
        (exact,) = torch.autograd.grad(true.square().sum(), wide)
        torch.testing.assert_close(mine.double(), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("graph", GRAPHS, ids=["complete", "causal", "edges"])
def test_sparsemax_is_its_closed_form(graph: Graph) -> None:
    """Sort; k is the largest with 1 + k s_(k) > the sum of the k largest; τ = (the sum - 1) / k."""

    def closed(scores: Tensor) -> Tensor:
        ordered = scores.sort(-1, descending=True).values
        sums, count = ordered.cumsum(-1), torch.arange(1, scores.shape[-1] + 1)
        size = (1 + count * ordered > sums).sum(-1, keepdim=True)
        threshold = (sums.gather(-1, size - 1) - 1) / size
        return (scores - threshold).clamp(min=0)

    query, key, _ = nodes()
    mine = ew.attention_weights(query, key, graph, normaliser="sparsemax")
    wanted = by_row(graph, ew.edge_scores(query, key, graph), closed)
    torch.testing.assert_close(mine, wanted, rtol=0, atol=1e-14)
    assert (mine == 0).equal(wanted == 0)
    if graph.num_edges > N:
        assert (mine == 0).any(), "weights that are 0 are exactly that"


def test_sparsemax_by_hand() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2], [0, 0, 0]]), 3)
    bias = torch.tensor([[1.0], [0.5], [-1.0]])
    zeros = torch.zeros(3, 1, 1)
    weights = ew.attention_weights(zeros, zeros, graph, bias=bias, normaliser="sparsemax")
    assert weights.flatten().tolist() == [0.75, 0.25, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", "dense"])
@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_first_and_second_derivatives(engine: str, alpha: float) -> None:
    torch.manual_seed(1)
    graph = graphs.from_dense(torch.rand(4, 4) < 0.5)
    leaves = [torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    shape = (graph.num_edges, 2)
    leaves += [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    learned = torch.tensor([min(alpha, 1.9), 1.4], dtype=torch.float64, requires_grad=True)

    def run(*x: Tensor, alpha: float | Tensor = alpha) -> Tensor:
        query, key, value, bias, gain, *rest = x
        by = ew.Entmax(rest[0] if rest else alpha)
        terms = {"bias": bias, "gain": gain}
        return ew.attend(query, key, value, graph, normaliser=by, engine=engine, **terms)

    for given in (leaves, [*leaves, learned]):
        assert torch.autograd.gradcheck(run, given)
        if given is not leaves or alpha != 1.2:
            assert torch.autograd.gradgradcheck(run, given)


@pytest.mark.slow
def test_torch_func_and_forward_mode_see_through() -> None:
    query, key, value = nodes()

    def run(query: Tensor) -> Tensor:
        return ew.attend(query, key, value, EDGES, normaliser="entmax").square().sum()

    query.requires_grad_()
    (wanted,) = torch.autograd.grad(run(query), query)
    found = torch.func.grad(run)(query.detach())
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    direction = torch.randn_like(query)
    _, along = torch.func.jvp(run, (query.detach(),), (direction,))
    torch.testing.assert_close(along, (wanted * direction).sum(), rtol=0, atol=1e-10)
    batch = torch.stack([query.detach(), -query.detach()])
    each = torch.func.vmap(run)(batch)
    torch.testing.assert_close(each, torch.stack([run(x) for x in batch]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["reference", "dense"])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_dropped_edges_and_targets_that_read_nothing(engine: str, alpha: float) -> None:
    leaves = [x.requires_grad_() for x in nodes()]
    bias = torch.zeros(EDGES.num_edges, H, dtype=torch.float64)
    bias[EDGES.target == 3] = -torch.inf  # all that it reads
    bias[0] = -torch.inf
    bias.requires_grad_()
    by = ew.Entmax(torch.full((H,), alpha, dtype=torch.float64))
    out = ew.attend(*leaves, EDGES, bias=bias, normaliser=by, engine=engine)
    assert not out[[0, 2, 3, 5]].any()
    without = graphs.edges(EDGES.edge_index[:, 1:], N)
    alone = ew.attend(*leaves, without, normaliser=by, engine="reference")
    torch.testing.assert_close(out[[1, 4, 6]], alone[[1, 4, 6]], rtol=0, atol=1e-13)
    found = torch.autograd.grad(out.square().sum(), [*leaves, bias])
    assert all(x.isfinite().all() for x in found)
    assert not found[-1][0].any()
    none = graphs.edges(torch.zeros(2, 0).long(), N)
    assert not ew.attend(*leaves, none, normaliser=by, engine=engine).any()


@pytest.mark.parametrize("engine", ["reference", "dense"])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.parametrize("graph", [GRAPHS[1], EDGES], ids=["causal", "edges"])
def test_nan_is_neither_hidden_nor_spread(engine: str, wrong: float, graph: Graph) -> None:
    query, key, value = nodes()
    query[1] = wrong
    out = ew.attend(query, key, value, graph, normaliser="entmax", engine=engine)
    assert out[1].isnan().all()
    others = [n for n in range(N) if n != 1]
    assert out[others].isfinite().all()
    query, key, value = nodes()
    value[6] = torch.nan  # a weight of 0 does not hide it, as 0 · NaN is NaN
    out = ew.attend(query, key, value, graph, normaliser="sparsemax", engine=engine)
    reads = torch.zeros(N).bool()
    reads[graph.target[graph.source == 6]] = True
    assert out[reads].isnan().all()
    assert out[~reads].isfinite().all()


@pytest.mark.parametrize("engine", ["reference", "dense"])
def test_scores_of_any_size_sum_to_1(engine: str) -> None:
    """Also those that take sparsemax many steps: distances that grow, equal and far apart ones."""
    count = 200
    scores = torch.stack(
        [
            -(1.1 ** torch.arange(count)) * 1e-6,
            torch.zeros(count),
            -torch.arange(count) * 1e-4,
            1e4 * torch.randn(count, generator=torch.Generator().manual_seed(0)),
        ],
        -1,
    )
    graph = graphs.edges(torch.stack([torch.arange(count), torch.zeros(count).long()]), count)
    value = torch.ones(count, 4, 1)
    for alpha in (1.01, 1.5, 1.9, 2.0):
        options = {"bias": scores, "score": None, "normaliser": ew.Entmax(alpha)}
        out = ew.attend(value, value, value, graph, engine=engine, **options)
        torch.testing.assert_close(out[0, :, 0], torch.ones(4), rtol=0, atol=1e-5)
    twice = scores.double()
    mine = ew.attention_weights(
        value.double(), value.double(), graph, bias=twice, score=None, normaliser="sparsemax"
    )
    torch.testing.assert_close(mine, entmax.sparsemax(twice, 0), rtol=0, atol=1e-12)


def test_steps_that_ask_nothing_are_as_good() -> None:
    """Compiled and transformed code takes the number of steps that is enough for any scores."""
    from edgewise.engines import entmax as own

    query, key, value = nodes()
    expected = ew.attend(query, key, value, EDGES, normaliser="sparsemax")
    looked = own.is_tracing
    own.is_tracing = lambda *_: True
    try:
        out = ew.attend(query, key, value, EDGES, normaliser="sparsemax", engine="reference")
    finally:
        own.is_tracing = looked
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("engine", ["reference", "dense"])
def test_batches_unions_sixteen_bits_and_dropout(engine: str) -> None:
    union = graphs.window(1) | graphs.hubs([0])
    leaves = nodes(2)
    whole = ew.attend(*leaves, union, normaliser="entmax", engine=engine)
    each = [ew.attend(*x, union, normaliser="entmax") for x in zip(*leaves, strict=True)]
    torch.testing.assert_close(whole, torch.stack(each), rtol=0, atol=1e-13)
    half = [x.bfloat16() for x in leaves]
    out = ew.attend(*half, union, normaliser="entmax", engine=engine)
    assert out.dtype == torch.bfloat16
    exact = ew.attend(*(x.double() for x in half), union, normaliser="entmax")
    torch.testing.assert_close(out.double(), exact, rtol=2e-2, atol=2e-2)
    torch.manual_seed(0)
    ones = torch.ones(400, 1, 1)
    kept = ew.attend(
        ones, ones, ones, graphs.complete(), normaliser="entmax", dropout=0.5, engine=engine
    )
    assert 0.97 < float(kept.mean()) < 1.03
    assert not torch.equal(kept, ones)


def test_weights_are_what_attend_gives_the_values() -> None:
    query, key, value = nodes(2)
    for name in ("softmax", "sparsemax", "entmax"):
        weights = ew.attention_weights(query, key, EDGES, normaliser=name)
        out = ew.aggregate(value, EDGES, weight=weights)
        expected = ew.attend(query, key, value, EDGES, normaliser=name)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
        some = torch.tensor([3, 0, 3])
        chosen = ew.attention_weights(query, key, EDGES, normaliser=name, edges=some)
        torch.testing.assert_close(chosen, weights[..., some, :], rtol=0, atol=1e-14)


def test_the_plan_says_who_cannot() -> None:
    query, key, value = nodes()
    plan = ew.explain_plan(query, key, value, graphs.causal(), normaliser="entmax")
    reasons = {choice.engine: ", ".join(choice.reasons) for choice in plan.choices}
    assert "only the normaliser softmax" in reasons["rows"]
    assert "only the normaliser softmax" in reasons["tiles"]
    assert not reasons["dense"]
    assert not reasons["reference"]
    for engine in set(ENGINES) - {"reference", "dense"}:
        with refused(
            "engine", expected="supports", got="only the normaliser softmax", remedy="auto"
        ):
            ew.attend(query, key, value, graphs.causal(), normaliser="entmax", engine=engine)
    # A graph remembers the choice for calls that are alike; these two are not.
    graph = graphs.causal().bind(N)
    soft = ew.attend(query, key, value, graph)
    sparse = ew.attend(query, key, value, graph, normaliser="sparsemax")
    assert not torch.allclose(soft, sparse)
    assert soft.equal(ew.attend(query, key, value, graph))


def test_what_cannot_be_is_refused() -> None:
    query, key, value = nodes()
    with refused("normaliser", expected="softmax", got="Entmax", remedy="union"):
        ew.attend_with_lse(query, key, value, EDGES, normaliser=ew.Entmax(1.5))
    with refused("normaliser", expected="sparsemax", got="spasemax", remedy="sparsemax"):
        ew.attend(query, key, value, EDGES, normaliser="spasemax")
    with refused("normaliser", expected="Entmax(alpha)", got="float", remedy="normalisers"):
        ew.attend(query, key, value, EDGES, normaliser=1.5)
    for alpha in (0.9, 2.1, float("nan")):
        with refused("normaliser.alpha", expected="from 1", got=str(alpha), remedy="sigmoid"):
            ew.Entmax(alpha)
    with refused("normaliser.alpha", expected="to 2", got="from 1.5 to 2.5", remedy="clip"):
        by = ew.Entmax(torch.tensor([1.5, 2.5, 2.0]))
        ew.attend(query, key, value, EDGES, normaliser=by)
    with refused("normaliser.alpha", expected="shape [3]", got="[2]", remedy="each head"):
        ew.attend(query, key, value, EDGES, normaliser=ew.Entmax(torch.ones(2)))
    with refused("normaliser.alpha", expected="floats", got="int64", remedy="float32"):
        ew.attend(query, key, value, EDGES, normaliser=ew.Entmax(torch.ones(3).long()))
    with refused("normaliser.alpha", expected="on cpu", got="meta", remedy=".to('cpu')"):
        by = ew.Entmax(torch.ones(3, device="meta"))
        ew.attend(query, key, value, EDGES, normaliser=by)


@pytest.mark.parametrize("alpha", [None, "1.5", float("nan"), 0.5, 2.5])
def test_an_alpha_that_is_no_number_in_range_is_refused(alpha: object) -> None:
    with refused("normaliser.alpha", expected="from 1", got=repr(alpha), remedy="sigmoid"):
        ew.Entmax(alpha)  # type: ignore[arg-type]


def test_an_alpha_that_is_nan_in_one_head_is_refused() -> None:
    alpha = torch.tensor([1.5, float("nan"), 1.2])
    with refused("normaliser.alpha", expected="from 1", got="nan", remedy="clip"):
        ew.attend(*nodes(), graphs.complete(), normaliser=ew.Entmax(alpha))


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("engine", SERVING)
def test_entmax_on_meta_gives_shapes(engine: str) -> None:
    given = [x.to("meta").requires_grad_() for x in nodes(2)]
    alpha = torch.full((H,), 1.5, device="meta", requires_grad=True)
    for by in ("entmax", ew.Entmax(alpha)):
        out = ew.attend(*given, graphs.causal(), normaliser=by, engine=engine)  # type: ignore[arg-type]
        assert out.is_meta
        assert out.shape == (2, N, H, D)
        out.sum().backward()
