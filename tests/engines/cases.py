"""Declared calls: kinds of scores, terms, batches and types, and graphs to make them over."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from edgewise import graphs
from edgewise.engines.native import library
from edgewise.engines.rows.layout import PIECE
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.graphs import Graph, Intervals, Permuted, Runs
from tests.engines import oracle
from tests.engines.arithmetic import Array
from tests.engines.case import Case, GivenGraph, Leaf, laid_out

TILE = TilesLayout.TILE

Leads = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
CLASSES, FEATURES = 5, 4


@dataclass(frozen=True)
class Call:
    """A call of ``attend`` but for its graph.

    Attributes:
        score: ``dot``, ``none``, ``own`` (a callable), or the activation of an additive score.
        weight: whether an additive score has its vector; without, the width is 1.
        batch: the leading dimensions of query, key and value; others have those of all together.
        bias, gain: ``head`` for ``[E, H]``, ``one`` for ``[E, 1]``, ``batch`` for ``[..., E, H]``,
            ``table`` and ``table one``, a bias ``offsets``, ``offsets one`` and ``places``, whose
            places of nodes are in no order; none if empty.
        masked: every so many edges have a bias of -inf.
        edge_key, edge_value: ``full``, ``batch`` or ``projected``.
        memory: how tensors lie in it, see ``laid_out``.
        wanted: the leaves whose gradients are asked for, all if none are named.
        features: of each edge, where its vectors are projected.

    """

    score: str = "dot"
    scale: float | None = None
    slope: float = 0.2
    weight: bool = True
    heads: int = 2
    key_heads: int = 0
    width: int = 5
    value_width: int = 3
    batch: Leads = ((), (), ())
    bias: str = ""
    gain: str = ""
    masked: int = 0
    edge_key: str = ""
    edge_value: str = ""
    dropout: float = 0.0
    dtype: torch.dtype = torch.float64
    memory: str = "plain"
    wanted: tuple[str, ...] = ()
    features: int = field(default=FEATURES, repr=False)

    def over(self, graph: Graph, operation: str = "attend", *, lse: bool = False) -> Case:
        """The case of this call over a graph; ``scores`` and ``weights`` have no values."""
        number = zlib.crc32(repr((self, operation, graph.num_edges)).encode())
        additive = self.score not in ("dot", "none", "own")
        scale = self.width**-0.5 if self.scale is None else self.scale
        score = oracle.Score(self.score, scale if self.score == "dot" else 1.0, self.slope)
        batch = np.broadcast_shapes(*self.batch)
        given = GivenGraph(repr(graph), graph, graph)
        case = Case(0, number, operation, given, self.dtype, batch, self.heads, score, lse=lse)
        case.dropout = self.dropout if operation == "attend" else 0.0
        rng = np.random.default_rng(number)
        for name, shape in self._shapes(graph, batch, additive).items():
            if operation != "attend" and name.split(".")[0] in ("value", "edge_value"):
                continue
            numbers = rng.standard_normal(shape)
            if name == "bias" and self.masked:
                numbers[..., :: self.masked, :] = -np.inf
            case.leaves[name] = leaf(numbers, self.dtype, self.memory)
        for name in ("bias", "gain"):
            if name == "bias" and self.bias.startswith(("offsets", "places")):
                case.places = places(graph, rng if self.bias == "places" else None)
                case.indices[name] = torch.from_numpy(rng.integers(0, CLASSES, spread(case.places)))
            elif f"{name}.table" in case.leaves:
                case.indices[name] = torch.arange(graph.num_edges) * 7 % CLASSES
        case.wanted = self.wanted or tuple(case.leaves)
        return case

    def _shapes(
        self, graph: Graph, batch: tuple[int, ...], additive: bool
    ) -> dict[str, tuple[int, ...]]:
        """The leaves, in the order of the arguments."""
        edges, heads = graph.num_edges, self.heads
        key_heads = self.key_heads or heads
        shapes: dict[str, tuple[int, ...]] = {
            "query": (*self.batch[0], graph.num_targets, heads, self.width),
            "key": (*self.batch[1], graph.num_sources, key_heads, self.width),
            "value": (*self.batch[2], graph.num_sources, key_heads, self.value_width),
        }
        if additive and self.weight:
            shapes["score.weight"] = (heads, self.width)
        for name, kind in (("bias", self.bias), ("gain", self.gain)):
            columns = 1 if kind.endswith("one") else heads
            if kind.startswith(("table", "offsets", "places")):
                shapes[f"{name}.table"] = (CLASSES, columns)
            elif kind:
                shapes[name] = (*(batch if kind == "batch" else ()), edges, columns)
        vectors = (self.edge_key, self.width), (self.edge_value, self.value_width)
        for name, (kind, width) in zip(("edge_key", "edge_value"), vectors, strict=True):
            if kind == "projected":
                shapes[f"{name}.features"] = (edges, self.features)
                shapes[f"{name}.weight"] = (heads, width, self.features)
            elif kind:
                shapes[name] = (*(batch if kind == "batch" else ()), edges, heads, width)
        return shapes


def places(graph: Graph, rng: np.random.Generator | None) -> tuple[Tensor, Tensor]:
    """Places of targets and sources, no difference of which is below 0: positions, or any."""
    target, source = torch.arange(graph.num_targets), torch.arange(graph.num_sources)
    if rng is not None:
        target, source = (torch.from_numpy(rng.integers(-9, 9, len(x))) for x in (target, source))
    most = target.max() if len(target) else 0
    least = source.min() if len(source) else 0
    return target - most, source - least


def spread(places: tuple[Tensor, Tensor]) -> int:
    """How many differences of places there may be."""
    target, source = places
    return int(source.max() - target.min()) + 1 if len(target) and len(source) else 1


@dataclass(frozen=True)
class Aggregation:
    """A call of ``aggregate`` but for its graph and its reduction; ``weight`` as a bias."""

    weight: str = ""
    heads: int = 2
    width: int = 3
    batch: tuple[int, ...] = ()
    ties: bool = False
    dtype: torch.dtype = torch.float64

    def over(self, graph: Graph, reduce: str) -> Case:
        """The case of this call over a graph."""
        number = zlib.crc32(repr((self, reduce, graph.num_edges)).encode())
        given = GivenGraph(repr(graph), graph, graph)
        score = oracle.Score("none")
        case = Case(0, number, "aggregate", given, self.dtype, self.batch, self.heads, score)
        case.reduce = reduce
        shapes = {"value": (*self.batch, graph.num_sources, self.heads, self.width)}
        if self.weight:
            columns = 1 if self.weight == "one" else self.heads
            lead = self.batch if self.weight == "batch" else ()
            shapes["weight"] = (*lead, graph.num_edges, columns)
        rng = np.random.default_rng(number)
        for name, shape in shapes.items():
            few = rng.integers(-2, 3, shape) / 2
            case.leaves[name] = leaf(few if self.ties else rng.standard_normal(shape), self.dtype)
        case.wanted = tuple(case.leaves)
        return case


def leaf(numbers: Array, dtype: torch.dtype, memory: str = "plain") -> Leaf:
    """Numbers as this type has them."""
    tensor = torch.from_numpy(np.asarray(numbers)).to(dtype)
    return Leaf(laid_out(tensor, memory), tensor.double().numpy())


def softmax(graph: Graph, heads: int, batch: tuple[int, ...] = ()) -> Case:
    """Scores of which some are -inf, and all of the first target's."""
    given = GivenGraph(repr(graph), graph, graph)
    case = Case(0, heads, "softmax", given, torch.float64, batch, heads, oracle.Score("none"))
    numbers = 4 * np.random.default_rng(heads).standard_normal((*batch, graph.num_edges, heads))
    numbers[..., ::3, :] = -np.inf
    numbers[..., graph.target.numpy() == 0, :] = -np.inf
    case.leaves["bias"] = leaf(numbers, torch.float64)
    case.wanted = ("bias",)
    return case


def serving(call: Call | Aggregation, graph: Graph, reduce: str = "sum") -> set[str]:
    """The engines that must not refuse; the others must."""
    engines = {"reference", "auto"}
    gain = isinstance(call, Call) and call.gain
    vectors = isinstance(call, Call) and (call.edge_key or call.edge_value)
    score = call.score if isinstance(call, Call) else "none"
    if not graph.has_duplicates and not vectors and reduce in ("sum", "mean"):
        engines.add("dense")
        if isinstance(call, Call) and call.dropout:  # whose mask is its own: auto may run either
            engines.remove("auto")
    if isinstance(call, Call) and not call.dropout and len(graph.parts) > 1:
        engines.add("merge")
    if library.MISSING or (isinstance(call, Call) and not call.value_width):
        return engines
    if score != "own":
        engines.add("rows")
    runs = all(isinstance(part, Intervals | Runs | Permuted) for part in graph.parts)
    if score == "dot" and not gain and not vectors and runs:
        engines.add("tiles")
    return engines


def edges(
    targets: int, sources: int, count: int, *, distinct: bool = False, hubs: bool = False
) -> Graph:
    """Random edges, with copies unless they are to be distinct, or most of them at a few nodes."""
    generator = torch.Generator().manual_seed(count)
    if distinct:
        pair = torch.randperm(targets * sources, generator=generator)[:count]
        return graphs.edges(torch.stack([pair % sources, pair // sources]), (sources, targets))
    where = torch.rand(2, count, generator=generator) ** (6 if hubs else 1)
    pairs = (where * torch.tensor([[sources], [targets]])).long()
    return graphs.edges(pairs, (sources, targets))


def runs(spans: list[tuple[int, int]], sources: int) -> Graph:
    """Target i reads the sources from the first number to before the second."""
    start, stop = torch.tensor(spans).T
    return Intervals(start.contiguous(), stop.contiguous(), sources)


def any_runs(targets: int, sources: int) -> Graph:
    """Runs in no order, of any length, many of them empty."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(sources + 1, (targets, 2), generator=generator).sort(1).values
    ends[::5, 1] = ends[::5, 0]
    return runs(ends.tolist(), sources)


def shuffled(graph: Graph) -> Graph:
    """The same under other numbers of its targets and of its sources."""
    generator = torch.Generator().manual_seed(0)
    sizes = graph.num_targets, graph.num_sources
    return Permuted(graph, *(torch.randperm(size, generator=generator) for size in sizes))


def long_rows(count: int) -> Iterator[tuple[str, Graph]]:
    """Rows of so many edges and about, in one direction, in the other and in both."""
    i = torch.arange(count)
    few, one = i % 40, torch.zeros_like(i)
    yield f"one target reads {count} times", graphs.edges(torch.stack([few, one]), (40, 2))
    yield f"one source is read {count} times", graphs.edges(torch.stack([one, few]), (2, 40))
    both = torch.stack([i % 7 * (i % 2), i % 3])
    yield f"{count} edges, hubs on both sides", graphs.edges(both, (7, 3))


BLOCK = TilesLayout.BLOCK
RUNS: dict[str, Graph] = {  # each target reads neighbouring sources, as the tiles ask for
    "one node": graphs.complete().bind(1),
    "two nodes": graphs.causal().bind(2),
    "no nodes": graphs.complete().bind(0),
    "no sources": graphs.complete().bind(5, 0),
    "no targets": graphs.complete().bind(0, 5),
    "nobody reads": graphs.empty().bind(3),
    "empty runs": runs([(0, 0)] * 10, 12),
    "complete": graphs.complete().bind(5),
    "complete, less than a vector": graphs.complete().bind(13, 5),
    "complete, a tile and one": graphs.complete().bind(40, TILE + 1),
    "causal, a group and one": graphs.causal().bind(9),
    "causal, a block less one": graphs.causal().bind(BLOCK - 1),
    "causal, a block": graphs.causal().bind(BLOCK),
    "causal, a block and one": graphs.causal().bind(BLOCK + 1),
    "causal, tiles": graphs.causal().bind(2 * TILE + 7),
    "decoding one": graphs.causal().bind(1, TILE + 3),
    "decoding two": graphs.causal().bind(2, 5),
    "decoding three": graphs.causal().bind(3, 30),
    "window": graphs.window(3).bind(2 * BLOCK + 5),
    "wide window": graphs.window(TILE // 2 + 6).bind(TILE + 60),
    "blocks": graphs.blocks(10).bind(47),
    "packed": graphs.batch(graphs.complete(), [3, 70, 1, TILE + 2, 8]),
    "packed causal": graphs.batch(graphs.causal(), [65, 2, 64]),
    "packed, some empty": graphs.batch(graphs.complete(), [0, 4, 0, 0, 9, 0]),
    "packed pairs": graphs.batch(graphs.complete(), [5, 66, 0, 2], [70, 3, 4, 0]),
    "packed pairs, small": graphs.batch(graphs.complete(), [2, 0, 1, 1], [1, 2, 0, 3]),
    "packed, equal": graphs.batch(graphs.complete(), [4, 4]),
    "packed causal, equal": graphs.batch(graphs.causal(), [4, 4]),
    "packed causal, one": graphs.batch(graphs.causal(), [0, 3]),
    "packed, no targets": graphs.batch(graphs.complete(), [0, 0], [3, 1]),
    "packed, no sources": graphs.batch(graphs.complete(), [3, 1], [0, 0]),
    "membership": graphs.membership([3, 0, 2]),
    "far apart in a group": runs([(0, 2), (290, 300), (5, 5), (130, 131)] * 3, 300),
    "backwards": runs([(150 - i, 200 - i) for i in range(150)], 200),
    "any runs": any_runs(150, 290),
}
BLOCKS = graphs.expand(graphs.random(2), 16)
LISTS: dict[str, Graph] = {  # each target reads several runs, or one with a step
    "dilated": graphs.window(4, 3).bind(2 * BLOCK + 9),
    "dilated far": graphs.window(2, 50).bind(201),
    "two steps": (graphs.window(3, 4) | graphs.window(3, 2) | graphs.hubs([1])).bind(150),
    "hubs": (graphs.window(5) | graphs.hubs([0, 77, 78, -1])).bind(2 * TILE + 3),
    "many hubs": (graphs.window(1) | graphs.hubs(range(0, 140, 2))).bind(2 * BLOCK + 20),
    "BigBird of blocks": (graphs.window(9) | graphs.hubs([0]) | BLOCKS).bind(2 * TILE + 50),
    "small blocks": graphs.expand(graphs.random(3, 5), 3).bind(170),
    "blocks of one": graphs.expand(graphs.random(3, 2), 1).bind(70),
    "all kinds": (
        graphs.window(3) | graphs.hubs([2]) | BLOCKS | graphs.blocks(20) | graphs.window(2, 5)
    ).bind(TILE + 41),
    "past of hubs": (graphs.causal() & (graphs.window(30) | graphs.hubs([0, 9]))).bind(300),
    "holes": (graphs.complete() - graphs.window(3, 2)).bind(80),
    "packed lists": graphs.batch(
        graphs.window(4) | graphs.hubs([0]) | graphs.window(2, 3), [70, 1, 9, TILE + 3]
    ),
    "packed pairs of lists": graphs.batch(
        graphs.window(4) | graphs.hubs([0]), [5, 66, 2], [70, 66, 5]
    ),
    "packed runs": graphs.batch([BLOCKS.bind(50), BLOCKS.bind(100)]),
    "decoding a list": (graphs.window(20) | graphs.hubs([0, 60])).bind(2, TILE + 40),
    "class token before runs": graphs.virtual(graphs.window(2, 2) | graphs.blocks(7)).bind(90),
    "sorted": shuffled(graphs.blocks(20).bind(BLOCK + 21)),
    "sorted, a step": shuffled((graphs.window(3, 4) | graphs.hubs([1])).bind(TILE + 5)),
    "sorted, packed pairs": shuffled(
        graphs.batch(graphs.window(4) | graphs.hubs([0]), [5, 66, 2], [70, 66, 5])
    ),
    "many chunks": (graphs.window(8) | graphs.hubs([5]) | graphs.expand(graphs.random(1), 64)).bind(
        18 * BLOCK + 7
    ),
}
UNIONS: dict[str, Graph] = {
    "BigBird": (graphs.window(1) | graphs.hubs([0]) | graphs.random(2)).bind(8),
    "half empty": (graphs.hubs([2]) - graphs.window(0) | graphs.window(0)).bind(6),
    "class token": graphs.virtual(graphs.grid(2, 2)).bind(5),
    "packed unions": graphs.batch(graphs.window(1) | graphs.hubs([0]), [3, 1, 4]),
    "two columns": graphs.hubs([0, 3]).bind(5),
    "decoding a union": (graphs.window(1) | graphs.hubs([0, 2])).bind(2, 7),
}
EDGES: dict[str, Graph] = {
    "copies": edges(13, 13, 60),
    "bipartite": edges(7, 19, 50, distinct=True),
    "sparse": edges(40, 40, 6),
    "copies of one edge": edges(1, 1, 3),
    "edges of hubs": edges(50, 50, 2000, hubs=True),
    "no edges": edges(5, 4, 0),
    "isolated": graphs.edges(torch.tensor([[1, 3, 3, 0], [0, 0, 2, 2]]), 5),
    "all pairs in another order": graphs.complete().bind(3).transpose(),
    "packed, nobody": graphs.batch(graphs.complete(), []),
    **dict(long_rows(PIECE)),
    **dict(long_rows(PIECE + 1)),
    **dict(long_rows(3 * PIECE + 5)),
}
GRAPHS = RUNS | LISTS | UNIONS | EDGES
SMALL = ("copies", "bipartite", "packed pairs, small", "decoding two", "BigBird")
"""One of each form that a layout may have: for every kind of call."""
MODERATE = [name for name, graph in GRAPHS.items() if graph.num_edges < 4 * PIECE]
"""Without those that are large for the sake of tiles."""

SHARED = ((2,), (2,), (2,))
CALLS: dict[str, Call] = {
    "plain": Call(),
    "one head": Call(heads=1, width=16, value_width=8),
    "five heads": Call(heads=5, width=8, value_width=32),
    "eight heads": Call(heads=8, width=16, value_width=16),
    "twenty heads": Call(heads=20, width=32, value_width=9),
    "wide": Call(heads=3, width=64, value_width=128),
    "grouped": Call(heads=4, key_heads=1),
    "one key head": Call(heads=3, key_heads=1, width=16, value_width=8),
    "two key heads": Call(heads=6, key_heads=2, width=8),
    "grouped gatv2": Call("leaky_relu", heads=4, key_heads=2, width=8),
    "width 1": Call(width=1, value_width=1),
    "width 7": Call(width=7, value_width=7),
    "thirteen heads of width 7": Call(heads=13, width=7, value_width=7),
    "wide and odd": Call(heads=2, width=44, value_width=39),
    "values of no width": Call(value_width=0),
    "additive keys of no width": Call("leaky_relu", width=0, scale=1.0),
    "scaled": Call(scale=0.7),
    "negative scale": Call(scale=-0.4),
    "own": Call("own"),
    "no score": Call("none"),
    "bias alone": Call("none", bias="head"),
    "gat": Call("leaky_relu", weight=False, width=1, heads=8, value_width=8),
    "steep gat": Call("leaky_relu", weight=False, width=1, slope=0.5),
    "gat with a vector": Call("leaky_relu", width=1, heads=3),
    "gatv2": Call("leaky_relu", heads=8, width=16, value_width=16),
    "odd gatv2": Call("leaky_relu", heads=3, width=7),
    "wide and odd gatv2": Call("leaky_relu", heads=2, width=21, value_width=12),
    "relu": Call("relu", width=32),
    "tanh": Call("tanh"),
    "gelu": Call("gelu", width=8),
    "silu": Call("silu", heads=3, width=9),
    "identity": Call("identity"),
    "bias": Call(bias="head", heads=8),
    "bias of all heads": Call(bias="one", heads=3),
    "bias from a table": Call(bias="table", heads=4),
    "bias from a table of all heads": Call(bias="table one", heads=3),
    "bias by offset": Call(bias="offsets", heads=4),
    "bias by offset of all heads": Call(bias="offsets one", heads=3),
    "bias by places": Call(bias="places", heads=2, width=8),
    "masked": Call(bias="head", masked=3),
    "masked, all": Call(bias="head", masked=1),
    "gain": Call(gain="head"),
    "gain of all heads": Call(gain="one"),
    "gain, masked": Call(gain="one", bias="head", masked=4),
    "gain and bias from tables": Call(gain="table", bias="table"),
    "additive, gain, table": Call("tanh", gain="head", bias="table"),
    "edge keys": Call(edge_key="full"),
    "edge values": Call(edge_value="full"),
    "edge vectors": Call(edge_key="full", edge_value="full", gain="head", heads=4, width=8),
    "projected": Call(edge_key="projected", edge_value="projected"),
    "projected from three features": Call(
        heads=8, edge_key="projected", edge_value="projected", features=3
    ),
    "projected values": Call(edge_value="projected", heads=8, value_width=16),
    "additive, edge keys": Call("leaky_relu", edge_key="full", width=8),
    "additive, projected": Call("leaky_relu", edge_key="projected", edge_value="full"),
    "gelu, projected": Call("gelu", edge_key="projected", edge_value="projected"),
    "tanh, projected, gain": Call("tanh", edge_key="projected", gain="head"),
    "everything": Call(edge_key="full", edge_value="projected", gain="one", bias="table"),
    "batch": Call(batch=((3,), (3,), (3,)), bias="head", heads=8, width=8),
    "batch, all shared": Call(
        batch=((2, 3), (2, 3), (2, 3)), bias="table", gain="one", edge_key="projected"
    ),
    "batch of terms": Call(batch=SHARED, bias="batch", gain="batch", edge_value="full"),
    "batch of edge vectors": Call(batch=SHARED, edge_key="batch", edge_value="batch"),
    "dropout": Call(dropout=0.4, heads=8),
    "dropout, batch": Call(dropout=0.4, batch=((3,), (3,), (3,)), edge_value="full", bias="head"),
    "grouped, bias by offset, dropout": Call(
        heads=4, key_heads=1, batch=SHARED, bias="offsets", dropout=0.3, width=8
    ),
    "dropout of everything": Call(dropout=1.0),
}
BATCHES: list[Leads] = [
    ((2, 3), (2, 3), (2, 3)),
    ((2,), (), ()),
    ((), (2,), (2,)),
    ((2,), (2,), ()),
    ((), (), (2,)),
    ((2, 3), (3,), (3,)),
    ((3, 1), (2,), (1, 1)),
    ((0,), (0,), (0,)),
]
WANTED = [("query",), ("key",), ("value",), ("query", "value"), ("key", "value")]
MEMORY = ["heads first", "strided", "negative", "reversed", "shifted"]
TYPES = [torch.float32, torch.bfloat16, torch.float16]


def changed(name: str, **changes: object) -> Call:
    """A declared call with something else."""
    return replace(CALLS[name], **changes)  # type: ignore[arg-type]
