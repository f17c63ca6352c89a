"""The rows engine against the reference: every argument, every gradient, every kind of graph."""

import dataclasses

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.attention import attend_with_lse
from edgewise.engines import ENGINES
from edgewise.engines.native import library
from edgewise.layouts import layout_of

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)

SIZES = {  # targets, sources, edges
    "square": (13, 13, 60),
    "bipartite": (7, 19, 50),
    "empty": (5, 4, 0),
    "one node": (1, 1, 3),
    "sparse": (40, 40, 6),
}


@dataclasses.dataclass
class Case:
    """What to pass to ``attend``: leaves that want gradients, and how to build the options."""

    score: str = "dot"
    heads: int = 2
    width: int = 5
    value_width: int = 3
    bias: str = ""
    gain: str = ""
    edge_key: str = ""
    edge_value: str = ""
    batch: tuple[int, ...] = ()
    dropout: float = 0.0


CASES = {
    "plain": Case(),
    "one head": Case(heads=1, width=16, value_width=8),
    "eight heads": Case(heads=8, width=16, value_width=16),
    "five heads": Case(heads=5, width=8, value_width=32),
    "wide": Case(heads=3, width=64, value_width=128),
    "twenty heads": Case(heads=20, width=32, value_width=9),
    "width 1": Case(width=1, value_width=1),
    "no score": Case(score="none", bias="full"),
    "no score, no bias": Case(score="none"),
    "gat": Case(score="gat", width=1, heads=8, value_width=8),
    "gat with slopes": Case(score="gat weighted", width=1, heads=3),
    "gatv2": Case(score="leaky_relu", heads=8, width=16, value_width=16),
    "gatv2 odd": Case(score="leaky_relu", heads=3, width=7),
    "tanh": Case(score="tanh"),
    "gelu": Case(score="gelu", width=8),
    "silu": Case(score="silu", heads=3, width=9),
    "relu": Case(score="relu", width=32),
    "identity": Case(score="identity"),
    "bias": Case(bias="full", heads=8),
    "bias for all heads": Case(bias="one", heads=3),
    "gain": Case(gain="full", bias="full"),
    "gain for all heads": Case(gain="one"),
    "table": Case(bias="table", heads=4),
    "table for all heads": Case(bias="table one", heads=3),
    "table gain": Case(gain="table", bias="table"),
    "edge key": Case(edge_key="full"),
    "edge vectors": Case(edge_key="full", edge_value="full", gain="full", heads=4, width=8),
    "projected": Case(edge_key="projected", edge_value="projected"),
    "projected value": Case(edge_value="projected", heads=8, value_width=16),
    "additive, edge key": Case(score="leaky_relu", edge_key="full", width=8),
    "additive, projected": Case(score="leaky_relu", edge_key="projected", edge_value="full"),
    "tanh, projected": Case(score="tanh", edge_key="projected", gain="full"),
    "batch": Case(batch=(3,), bias="full", heads=8, width=8),
    "batches, everything shared": Case(
        batch=(2, 3), bias="table", gain="one", edge_key="projected"
    ),
    "batch of biases": Case(batch=(2,), bias="batched", gain="batched", edge_value="full"),
    "batch of edge vectors": Case(batch=(2,), edge_key="batched", edge_value="batched"),
    "dropout": Case(dropout=0.4, heads=8),
    "dropout, batch": Case(dropout=0.4, batch=(3,), edge_value="full", bias="full"),
    "dropout of everything": Case(dropout=1.0),
}
ACTIVATIONS = ("leaky_relu", "relu", "tanh", "gelu", "silu", "identity")


def make_graph(targets, sources, edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    index = torch.stack(
        [torch.randint(n, (edges,), generator=generator) for n in (sources, targets)]
    )
    return graphs.edges(index, (sources, targets))


def make_call(case, graph, dtype=torch.float64, seed=1):
    """Leaves by name, and a function from leaves and an engine to (output, lse)."""
    generator = torch.Generator().manual_seed(seed)
    leaves: dict[str, torch.Tensor] = {}

    def leaf(name, *shape):
        x = torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
        leaves[name] = x.requires_grad_()

    edges, heads = graph.num_edges, case.heads
    leaf("query", *case.batch, graph.num_targets, heads, case.width)
    leaf("key", *case.batch, graph.num_sources, heads, case.width)
    leaf("value", *case.batch, graph.num_sources, heads, case.value_width)
    classes = torch.randint(6, (edges,), generator=generator)
    for name in ("bias", "gain"):
        kind = getattr(case, name)
        if kind.startswith("table"):
            leaf(name, 6, 1 if kind == "table one" else heads)
        elif kind:
            lead = case.batch if kind == "batched" else ()
            leaf(name, *lead, edges, 1 if kind == "one" else heads)
    for name, width in (("edge_key", case.width), ("edge_value", case.value_width)):
        kind = getattr(case, name)
        if kind == "projected":
            leaf(f"{name}_features", edges, 4)
            leaf(f"{name}_weight", heads, width, 4)
        elif kind:
            leaf(name, *(case.batch if kind == "batched" else ()), edges, heads, width)
    if case.score in (*ACTIVATIONS, "gat weighted"):
        leaf("score_weight", heads, case.width)

    def run(leaves, engine):
        options = {}
        for name in ("bias", "gain"):
            if name in leaves:
                table = getattr(case, name).startswith("table")
                options[name] = ew.TableBias(classes, leaves[name]) if table else leaves[name]
        for name in ("edge_key", "edge_value"):
            if name in leaves:
                options[name] = leaves[name]
            elif f"{name}_features" in leaves:
                parts = leaves[f"{name}_features"], leaves[f"{name}_weight"]
                options[name] = ew.Projected(*parts)
        weight = leaves.get("score_weight")
        activation = case.score if case.score in ACTIVATIONS else "leaky_relu"
        score = {"dot": ew.Dot(), "none": None}.get(case.score, ew.Additive(activation, weight))
        torch.manual_seed(5)  # the same mask for every engine
        nodes = (leaves["query"], leaves["key"], leaves["value"])
        return attend_with_lse(
            *nodes, graph, score=score, dropout=case.dropout, engine=engine, **options
        )

    return leaves, run


def loss_of(out, lse):
    """A number that depends on every output, without the infinite rows of the log-sum-exp."""
    generator = torch.Generator().manual_seed(9)
    kind = {"generator": generator, "dtype": torch.float64}
    finite = torch.where(lse.isinf(), 0.0, lse)
    return (out * torch.randn(out.shape, **kind)).sum() + (
        finite * torch.randn(lse.shape, **kind)
    ).sum()


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Memory that a kernel forgets to write holds NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(name, size):
    graph = make_graph(*SIZES[size])
    leaves, run = make_call(CASES[name], graph)
    results = {}
    for engine in ("reference", "rows"):
        out, lse = run(leaves, engine)
        grads = torch.autograd.grad(loss_of(out, lse), list(leaves.values()), allow_unused=True)
        results[engine] = (out, lse, *grads)
    for what, expected, got in zip(
        ("out", "lse", *leaves), results["reference"], results["rows"], strict=True
    ):
        if expected is None:
            assert got is None or not got.any(), what
            continue
        torch.testing.assert_close(
            got, expected, rtol=1e-6, atol=1e-6, msg=lambda m, w=what: f"{w}: {m}"
        )


@pytest.mark.parametrize("name", CASES)
def test_scores_agree_with_the_reference(name):
    graph = make_graph(9, 13, 40)
    leaves, run = make_call(dataclasses.replace(CASES[name], dropout=0.0), graph)
    results = {}
    for engine in ("reference", "rows"):
        scores = scores_of(run, leaves, graph, engine)
        slopes = torch.linspace(-1, 1, scores.numel(), dtype=torch.float64).view_as(scores)
        loss = (scores * slopes).sum() + 0 * sum(leaf.sum() for leaf in leaves.values())
        grads = torch.autograd.grad(loss, list(leaves.values()))
        results[engine] = (scores, *grads)
    for expected, got in zip(results["reference"], results["rows"], strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def scores_of(run, leaves, graph, engine):
    """The scores of a case, through the call that its run would make."""
    calls = []
    chosen = ENGINES[engine]

    class Recorder(type(chosen)):
        def attend_with_lse(self, call, layout):
            calls.append(call)
            return super().attend_with_lse(call, layout)

    ENGINES[engine] = Recorder()
    try:
        run(leaves, engine)
    finally:
        ENGINES[engine] = chosen
    return chosen.edge_scores(calls[0], layout_of(graph, chosen.layout))
