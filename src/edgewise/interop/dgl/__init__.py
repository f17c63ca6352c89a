"""Layers with the signatures and state dicts of DGL 2.2.1, on graphs of Edgewise.

DGL is not needed. A layer is called with a graph of Edgewise or with a ``DGLGraph`` of one edge
type; ``docs/howto/dgl.md`` shows how to move a script or a checkpoint.
"""

from __future__ import annotations

from edgewise.interop.dgl.biased_mha import BiasedMHA
from edgewise.interop.dgl.dot_gat_conv import DotGatConv
from edgewise.interop.dgl.egt_layer import EGTLayer
from edgewise.interop.dgl.gat_conv import GATConv
from edgewise.interop.dgl.gatv2_conv import GATv2Conv
from edgewise.interop.dgl.graph_conv import GraphConv
from edgewise.interop.dgl.graphormer_layer import GraphormerLayer
from edgewise.interop.dgl.graphs import from_dgl
from edgewise.interop.dgl.sage_conv import SAGEConv
from edgewise.interop.dgl.softmax import edge_softmax

__all__ = [
    "BiasedMHA",
    "DotGatConv",
    "EGTLayer",
    "GATConv",
    "GATv2Conv",
    "GraphConv",
    "GraphormerLayer",
    "SAGEConv",
    "edge_softmax",
    "from_dgl",
]


def __dir__() -> list[str]:
    return __all__
