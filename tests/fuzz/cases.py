"""Random calls of the primitive: case ``number`` of a seed is the same on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise import graphs
from edgewise.graphs import Graph
from tests.engines import oracle
from tests.engines.case import Case, GivenGraph, Leaf, laid_out
from tests.engines.cases import places, spread
from tests.fuzz.patterns import draw_spec

Rng = np.random.Generator
OPERATIONS = {"attend": 0.62, "aggregate": 0.2, "weights": 0.08, "scores": 0.06, "softmax": 0.04}
DTYPES = {torch.float32: 0.45, torch.float64: 0.2, torch.bfloat16: 0.2, torch.float16: 0.15}
SCORES = {
    **{"dot": 0.56, "none": 0.08, "own": 0.06},
    **{"leaky_relu": 0.1, "relu": 0.04, "tanh": 0.04, "gelu": 0.04, "silu": 0.04, "identity": 0.04},
}
SCALES = [None, None, None, None, 1.0, 0.3, -1.0, 0.0, -0.4, 3.0]
WIDTHS = [1, 2, 3, 4, 5, 7, 8, 8, 16, 17, 33]
INDEX_TYPES = [torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
LAYOUTS = [
    *("plain", "plain", "plain", "plain"),
    *("heads first", "strided", "negative", "reversed", "shifted", "expanded"),
]
LARGEST = 20_000
"""Elements of the largest tensor of edges, so that a case takes milliseconds."""
MOST_EDGES = 3_000


def draw_case(seed: int, number: int) -> Case:
    """The case of this number."""
    rng = np.random.default_rng([seed, number])
    operation = _choice(rng, OPERATIONS)
    drawn = draw_graph(rng)
    dtype = _choice(rng, DTYPES)
    heads = int(rng.choice([1, 1, 2, 2, 3, 4, 5]))
    width, value_width = (int(rng.choice(WIDTHS)) for _ in range(2))
    if rng.random() < 0.02:
        width, value_width = (int(x) for x in rng.permutation([0, value_width]))
    batch = _draw_batch(rng)
    size = max(drawn.graph.num_edges, drawn.graph.num_targets, drawn.graph.num_sources, 1)
    if size * heads * max(width, value_width) * int(np.prod(batch)) > LARGEST:
        batch, heads, width, value_width = (), 1, min(width, 4), min(value_width, 4)
    bare = rng.random() < 0.3  # as most calls are, and as the fastest engines ask for
    score = oracle.Score("dot" if bare else _choice(rng, SCORES))
    case = Case(seed, number, operation, drawn, dtype, batch, heads, score)
    if operation == "aggregate":
        _draw_aggregate(rng, case, value_width)
    elif operation == "softmax":
        case.score = oracle.Score("none")
        case.leaves["bias"] = _edge_term(rng, case, wide=True)
    else:
        _draw_attention(rng, case, width, value_width)
        if not bare:
            _draw_terms(rng, case, value_width)
        case.batch = _broadcast(case)
    _draw_poison(rng, case)
    _draw_rest(rng, case)
    return case


def draw_graph(rng: Rng) -> GivenGraph:
    """Explicit edges, a pattern, a composition of patterns, a packed batch, or such reordered."""
    kind = rng.random()
    if kind < 0.5:
        return _draw_edges(rng)
    for _ in range(50):
        targets = _draw_size(rng)
        sources = targets if rng.random() < 0.75 else targets + int(rng.integers(1, 5))
        spec = draw_spec(rng, targets, sources)
        matrix = spec.matrix(targets, sources)
        if matrix is None:
            continue
        if matrix.sum() > MOST_EDGES:
            continue
        given = spec.pattern(targets, sources)
        text = f"{spec} at {targets} targets, {sources} sources"
        if rng.random() < 0.15:
            return _reordered(rng, text, given.bind(targets, sources), matrix)
        return GivenGraph(text, given, given.bind(targets, sources), matrix)
    return _draw_edges(rng)


def _reordered(rng: Rng, text: str, graph: Graph, matrix: Tensor) -> GivenGraph:
    """The same under other numbers of its targets and of its sources."""
    target_perm, source_perm = (torch.from_numpy(rng.permutation(size)) for size in matrix.shape)
    moved = torch.empty_like(matrix)
    moved[target_perm[:, None], source_perm] = matrix
    given = graphs.Permuted(graph, target_perm, source_perm)
    return GivenGraph(f"{text}, reordered", given, given, moved)


def _draw_edges(rng: Rng) -> GivenGraph:
    targets = _draw_size(rng)
    sources = targets if rng.random() < 0.6 else _draw_size(rng)
    many = rng.random() < 0.1
    count = int(rng.integers(0, (6 if many else 3) * targets + 1)) if rng.random() < 0.95 else 0
    source, target = rng.integers(0, sources, count), rng.integers(0, targets, count)
    shape = rng.random()
    if shape < 0.15:  # hubs, which read or are read by most, and empty rows beside them
        target[rng.random(count) < 0.8] = rng.integers(targets)
    elif shape < 0.3:
        source[rng.random(count) < 0.8] = rng.integers(sources)
    pairs = np.stack([source, target])
    unique = rng.random() < 0.6
    if unique and count:
        pairs = rng.permutation(np.unique(pairs, axis=1), axis=1)
    index = torch.from_numpy(pairs).to(torch.int32 if rng.random() < 0.2 else torch.int64)
    if rng.random() < 0.2:
        index = index.T.contiguous().T
    graph = graphs.edges(index, (sources, targets))
    text = f"{pairs.shape[1]} edges, {targets} targets, {sources} sources"
    return GivenGraph(text, graph, graph)


def _draw_size(rng: Rng) -> int:
    kind = rng.random()
    if kind < 0.06:
        return 1
    if kind < 0.9:
        return int(rng.integers(2, 14))
    return int(rng.integers(14, 70 if kind < 0.98 else 200))


def _draw_batch(rng: Rng) -> tuple[int, ...]:
    shapes = [(), (), (), (), (0,), (1,), (2,), (2,), (3,), (2, 1), (2, 2), (1, 3), (2, 1, 2)]
    return () if rng.random() < 0.3 else tuple(shapes[rng.integers(len(shapes))])


def _draw_attention(rng: Rng, case: Case, width: int, value_width: int) -> None:
    graph, additive = case.over.graph, case.score.name not in ("dot", "none", "own")
    if additive and rng.random() < 0.5:
        width = 1
    loud = float(rng.choice([1.0, 1.0, 1.0, 0.1, 3.0, 10.0]))
    if case.score.name == "dot":
        scale = SCALES[rng.integers(len(SCALES))]
        case.default_score = scale is None and rng.random() < 0.5
        case.score = oracle.Score("dot", max(width, 1) ** -0.5 if scale is None else scale)
        case.notes += ["scale=None"] * (scale is None)
    elif case.score.name == "leaky_relu":
        case.score = oracle.Score("leaky_relu", slope=float(rng.choice([0.2, 0.2, 0.01, 0.5, -1])))
    key_heads = case.heads
    if rng.random() < 0.15:  # several heads of queries read one of keys
        key_heads = int(rng.choice([n for n in range(1, case.heads + 1) if case.heads % n == 0]))
    shapes = {
        "query": (graph.num_targets, case.heads, width),
        "key": (graph.num_sources, key_heads, width),
    }
    if case.operation == "attend":
        shapes["value"] = (graph.num_sources, key_heads, value_width)
    for name, inner in shapes.items():
        shape = (*_part_of(rng, case.batch), *inner)
        case.leaves[name] = _leaf(rng, case, shape, loud if name != "value" else 1.0)
    if additive and (width != 1 or rng.random() < 0.5):
        case.leaves["score.weight"] = _leaf(rng, case, (case.heads, width), term=True)
    if case.operation == "attend":
        case.lse = rng.random() < 0.4
        if rng.random() < 0.12:
            case.dropout = float(rng.choice([0.1, 0.5, 0.9, 1.0]))
    plain = not (case.lse or case.dropout) and case.operation != "scores"
    if plain and rng.random() < 0.12:
        heads = 1 if rng.random() < 0.6 else case.heads
        case.alpha = tuple(float(x) for x in rng.choice([1.1, 1.25, 1.5, 1.5, 1.75, 2.0], heads))
        if rng.random() < 0.5:
            _draw_learned_alpha(rng, case)
    if case.operation == "weights" and not case.alpha and rng.random() < 0.5:
        case.chosen = rng.integers(0, max(graph.num_edges, 1), 5 if graph.num_edges else 0)


def _draw_learned_alpha(rng: Rng, case: Case) -> None:
    """α as a tensor with a gradient: one number, of shape [] or [1], or one a head."""
    numbers = np.array(case.alpha) + rng.uniform(-0.05, 0.0, len(case.alpha))
    dtype = torch.float64 if case.dtype == torch.float64 else torch.float32
    tensor = torch.from_numpy(numbers).to(dtype)
    if len(numbers) == 1 and rng.random() < 0.5:
        tensor = tensor[0]
    case.leaves["alpha"] = Leaf(tensor, tensor.double().numpy())


def _draw_terms(rng: Rng, case: Case, value_width: int) -> None:
    width = case.leaves["key"].tensor.shape[-1]
    if rng.random() < (0.7 if case.score.name == "none" else 0.4):
        _draw_term(rng, case, "bias")
    if rng.random() < 0.2:
        _draw_term(rng, case, "gain")
    if rng.random() < 0.15:
        _draw_vector(rng, case, "edge_key", width)
    if case.operation == "attend" and rng.random() < 0.15:
        _draw_vector(rng, case, "edge_value", value_width)


def _draw_aggregate(rng: Rng, case: Case, width: int) -> None:
    graph = case.over.graph
    case.reduce = str(rng.choice(["sum", "mean", "max", "min"]))
    case.score = oracle.Score("none")
    few = rng.random() < 0.4  # few values: many ties, many of them at 0
    shape = (*_part_of(rng, case.batch), graph.num_sources, case.heads, width)
    case.leaves["value"] = _leaf(rng, case, shape, few=few)
    if rng.random() < 0.5:
        heads = int(rng.choice([1, case.heads]))
        shape = (*_part_of(rng, case.batch), graph.num_edges, heads)
        case.leaves["weight"] = _leaf(rng, case, shape, few=few, term=True)
    case.batch = _broadcast(case)


def _draw_term(rng: Rng, case: Case, name: str) -> None:
    edges = case.over.graph.num_edges
    if rng.random() < 0.3:
        if name == "bias" and rng.random() < 0.5:
            case.places = places(case.over.graph, None if rng.random() < 0.5 else rng)
            edges = spread(case.places)
        kind = INDEX_TYPES[rng.integers(len(INDEX_TYPES))]
        classes = int(rng.integers(1, 9))
        case.indices[name] = torch.from_numpy(rng.integers(0, classes, edges)).to(kind)
        heads = int(rng.choice([1, case.heads, case.heads]))
        case.leaves[f"{name}.table"] = _leaf(
            rng, case, (classes, heads), term=True, masked=name == "bias"
        )
        return
    case.leaves[name] = _edge_term(rng, case, masked=name == "bias")


def _edge_term(rng: Rng, case: Case, *, masked: bool = True, wide: bool = False) -> Leaf:
    heads = case.heads if wide else int(rng.choice([1, case.heads, case.heads]))
    batch = case.batch if wide else ()
    if not wide and rng.random() < 0.4:
        batch = (1,) if not case.batch and rng.random() < 0.3 else _part_of(rng, case.batch)
    shape = (*batch, case.over.graph.num_edges, heads)
    return _leaf(rng, case, shape, term=not wide, masked=masked)


def _draw_vector(rng: Rng, case: Case, name: str, width: int) -> None:
    edges = case.over.graph.num_edges
    if rng.random() < 0.4:
        features = int(rng.choice([1, 2, 3, 5]))
        case.leaves[f"{name}.features"] = _leaf(rng, case, (edges, features), term=True)
        case.leaves[f"{name}.weight"] = _leaf(rng, case, (case.heads, width, features), term=True)
        return
    batch = _part_of(rng, case.batch) if rng.random() < 0.2 else ()
    case.leaves[name] = _leaf(rng, case, (*batch, edges, case.heads, width), term=True)


def _draw_poison(rng: Rng, case: Case) -> None:
    """NaN or an infinity at one place of an argument: nodes, edge terms, tables, projections."""
    if case.operation not in ("attend", "aggregate") or rng.random() > 0.2 or case.dropout:
        return
    if 0 in case.batch:  # members that nobody has read nothing, and 0 times NaN is NaN
        return
    names = [name for name in case.leaves if name != "alpha"]
    names += ["query", "key", "value", "value"] if case.operation == "attend" else []
    name = str(rng.choice(names))
    shape = case.leaves[name].tensor.shape
    if 0 in shape:
        return
    number = float(rng.choice([np.nan, np.nan, np.inf, -np.inf]))
    case.poison = name, number, tuple(int(rng.integers(size)) for size in shape)


def _draw_rest(rng: Rng, case: Case) -> None:
    kind, names = rng.random(), tuple(case.leaves)
    if kind < 0.75:
        case.wanted = names
    elif kind < 0.95:
        case.wanted = tuple(name for name in names if rng.random() < 0.5)
    case.threads = rng.random() < 0.1
    case.meta = rng.random() < 0.04
    if case.operation in ("attend", "aggregate"):
        draw = rng.random()
        case.context = "autocast" if draw < 0.1 else "inference" if draw < 0.2 else ""
    case.heads_first = case.operation == "attend" and not case.lse and rng.random() < 0.15


def _part_of(rng: Rng, batch: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the batch: itself mostly."""
    if not batch or rng.random() < 0.6:
        return batch
    shape = batch[int(rng.integers(0, len(batch) + 1)) :]
    return tuple(1 if rng.random() < 0.3 else size for size in shape)


def _broadcast(case: Case) -> tuple[int, ...]:
    """The leading dimensions of all that was drawn."""
    own = {"query": 3, "key": 3, "value": 3, "edge_key": 3, "edge_value": 3}
    own |= {"bias": 2, "gain": 2, "weight": 2}
    shapes = [x.exact.shape[: -own[name]] for name, x in case.leaves.items() if name in own]
    return np.broadcast_shapes(*shapes)


def _leaf(
    rng: Rng,
    case: Case,
    shape: tuple[int, ...],
    loud: float = 1.0,
    *,
    few: bool = False,
    term: bool = False,
    masked: bool = False,
) -> Leaf:
    """Numbers of the case's type, or of another where it is a term of the edges."""
    numbers = rng.integers(-2, 3, shape) / 2 if few else loud * rng.standard_normal(shape)
    if masked and rng.random() < 0.4:
        away = rng.random(shape) < rng.choice([0.2, 0.6, 1.0])
        sizes = [-1e4, torch.finfo(case.dtype).min]
        sizes += [-1e8, -1e9, -1e30] if case.dtype != torch.float16 else []
        large = -np.inf if rng.random() < 0.5 else float(rng.choice(sizes))
        numbers = np.where(away, large, numbers)
    dtype = case.dtype
    if term and rng.random() < 0.25:
        dtype = torch.float32
    elif term and rng.random() < 0.02:
        dtype = torch.float64
    tensor = torch.from_numpy(np.asarray(numbers, dtype=np.float64)).to(dtype)
    how = LAYOUTS[rng.integers(len(LAYOUTS))]
    if how != "plain":
        case.notes.append(how)
    if how == "expanded" and shape and 0 not in shape:
        axis = int(rng.integers(len(shape)))
        tensor = tensor.narrow(axis, 0, 1).expand(shape)
    return Leaf(laid_out(tensor, how), tensor.double().numpy())


def _choice(rng: Rng, weights: dict[Any, float]) -> Any:
    chances = np.array(list(weights.values()))
    return list(weights)[rng.choice(len(chances), p=chances / chances.sum())]
