"""Positional and structural encodings of nodes and edges.

An encoding is added to node features before the first layer, rotates queries and keys, or adds
terms to the scores of edges. Encodings of a position in a graph (:data:`OF_NODES`,
:data:`OF_PAIRS`) have two steps: ``encoding.code(graph)`` computes numbers from the edges, once per
data set; ``encoding(...)`` applies parameters to them. ``docs/reference/encodings.md`` compares all
encodings.
"""

from __future__ import annotations

from edgewise.encodings.centrality import Centrality, degrees
from edgewise.encodings.choices import TEXT_POSITIONS, TextPositions, text_positions
from edgewise.encodings.distances import (
    DistanceEncoding,
    PathEdges,
    ShortestPath,
    distance_encoding,
    path_edges,
    resistance_distances,
    shortest_paths,
)
from edgewise.encodings.drawing import draw
from edgewise.encodings.index import (
    Binary,
    RawIndex,
    ScaledIndex,
    binary_positions,
    scaled_positions,
)
from edgewise.encodings.intimacy import Intimates, intimate_nodes
from edgewise.encodings.laplacian import (
    Laplacian,
    RepeatedEigenvalueWarning,
    SignInvariant,
    laplacian_eigenpairs,
    laplacian_eigenvectors,
    laplacian_spectrum,
)
from edgewise.encodings.learned import Learned, Learned2d
from edgewise.encodings.overlap import common_neighbours
from edgewise.encodings.positions import offsets, packed_positions
from edgewise.encodings.random_features import RandomFeatures
from edgewise.encodings.random_walk import (
    RandomWalk,
    random_walk_probabilities,
    relative_random_walk_probabilities,
)
from edgewise.encodings.relative import ALiBi, Buckets, RelativeTable, Shaw, TransformerXLRelative
from edgewise.encodings.rotary import Rotary, rotary_rates
from edgewise.encodings.sinusoidal import Sinusoidal, sinusoidal_positions
from edgewise.encodings.tables import (
    ADDED,
    ENCODINGS,
    OF_NODES,
    OF_PAIRS,
    POSITIONS,
    RELATIVE,
    TURNED,
)
from edgewise.encodings.weisfeiler_lehman import WeisfeilerLehman, wl_colors

__all__ = [
    "ADDED",
    "ENCODINGS",
    "OF_NODES",
    "OF_PAIRS",
    "POSITIONS",
    "RELATIVE",
    "TEXT_POSITIONS",
    "TURNED",
    "ALiBi",
    "Binary",
    "Buckets",
    "Centrality",
    "DistanceEncoding",
    "Intimates",
    "Laplacian",
    "Learned",
    "Learned2d",
    "PathEdges",
    "RandomFeatures",
    "RandomWalk",
    "RawIndex",
    "RelativeTable",
    "RepeatedEigenvalueWarning",
    "Rotary",
    "ScaledIndex",
    "Shaw",
    "ShortestPath",
    "SignInvariant",
    "Sinusoidal",
    "TextPositions",
    "TransformerXLRelative",
    "WeisfeilerLehman",
    "binary_positions",
    "common_neighbours",
    "degrees",
    "distance_encoding",
    "draw",
    "intimate_nodes",
    "laplacian_eigenpairs",
    "laplacian_eigenvectors",
    "laplacian_spectrum",
    "offsets",
    "packed_positions",
    "path_edges",
    "random_walk_probabilities",
    "relative_random_walk_probabilities",
    "resistance_distances",
    "rotary_rates",
    "scaled_positions",
    "shortest_paths",
    "sinusoidal_positions",
    "text_positions",
    "wl_colors",
]


def __dir__() -> list[str]:
    return __all__
