"""Tables of encodings by name, one for each way of applying them."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from edgewise.encodings.centrality import Centrality
from edgewise.encodings.distances import DistanceEncoding, ShortestPath
from edgewise.encodings.index import Binary, RawIndex, ScaledIndex
from edgewise.encodings.laplacian import Laplacian, SignInvariant
from edgewise.encodings.learned import Learned, Learned2d
from edgewise.encodings.random_features import RandomFeatures
from edgewise.encodings.random_walk import RandomWalk
from edgewise.encodings.relative import ALiBi, Buckets, RelativeTable, Shaw, TransformerXLRelative
from edgewise.encodings.rotary import Rotary
from edgewise.encodings.sinusoidal import Sinusoidal
from edgewise.encodings.weisfeiler_lehman import WeisfeilerLehman

ADDED: dict[str, type[nn.Module]] = {
    "index": RawIndex,
    "scaled": ScaledIndex,
    "binary": Binary,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "learned_2d": Learned2d,
}
"""Encodings that are added to features: ``encoding(x [..., T, width], positions=None)`` returns
features ``[..., T, width]``."""

TURNED: dict[str, type[nn.Module]] = {"rotary": Rotary}
"""Encodings that rotate queries and keys: ``encoding(x [..., T, H, D], positions=None)`` returns
rotated queries or keys ``[..., T, H, D]``."""

RELATIVE: dict[str, type[nn.Module]] = {
    "relative": RelativeTable,
    "buckets": Buckets,
    "alibi": ALiBi,
    "shaw": Shaw,
    "transformer_xl": TransformerXLRelative,
}
"""Encodings of relative positions: ``encoding(graph)`` returns edge terms, which are passed to
attention as ``layer(x, graph, **encoding(graph))``."""

OF_NODES: dict[str, type[nn.Module]] = {
    "laplacian": Laplacian,
    "sign_invariant": SignInvariant,
    "random_walk": RandomWalk,
    "weisfeiler_lehman": WeisfeilerLehman,
    "centrality": Centrality,
    "distance": DistanceEncoding,
}
"""Encodings of nodes of a graph that are added to features: ``encoding(x [N, width],
encoding.code(graph))`` returns features ``[N, width]``."""

POSITIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "random_walk": RandomWalk,
    "laplacian": Laplacian,
    "sign_invariant": SignInvariant,
    "distance": DistanceEncoding,
    "random": RandomFeatures,
}
"""Encodings of nodes that models select by name. ``f(width, size)`` creates an encoding; ``size``
is its number of walk steps, eigenvectors, distances or random features."""

OF_PAIRS: dict[str, type[nn.Module]] = {"shortest_path": ShortestPath}
"""Encodings of all pairs of nodes of a graph.

``encoding(encoding.code(graph))`` returns edge terms for attention on ``graphs.complete()``, or, if
there is a batch of graphs, on ``graphs.batch(graphs.complete(), sizes)``, where ``sizes`` is the
number of nodes of each graph."""

ENCODINGS: dict[str, type[nn.Module]] = {
    **ADDED,
    **TURNED,
    **RELATIVE,
    **OF_NODES,
    **OF_PAIRS,
}
"""All encodings by name."""
