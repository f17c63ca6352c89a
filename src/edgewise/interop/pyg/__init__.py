"""Drop-in convolutions for PyTorch Geometric: change the import, keep the model.

Write ``from edgewise.interop.pyg import GATConv`` instead of ``from torch_geometric.nn import
GATConv``. Each class is a subclass of the PyG class of the same name, with the same constructor,
parameters and state dict. Messages are computed with :func:`edgewise.attend` and
:func:`edgewise.aggregate`. Unsupported options raise an error; ``docs/howto/pyg.md`` lists them.
"""

from __future__ import annotations

from edgewise._utils.errors import require

# ruff: noqa: E402 - require() comes before the imports that need PyG
require("torch_geometric", extra="graphs", purpose="edgewise.interop.pyg")

from edgewise.interop.pyg.film_conv import FiLMConv
from edgewise.interop.pyg.gat_conv import GATConv
from edgewise.interop.pyg.gatv2_conv import GATv2Conv
from edgewise.interop.pyg.gcn_conv import GCNConv
from edgewise.interop.pyg.gin_conv import GINConv
from edgewise.interop.pyg.gine_conv import GINEConv
from edgewise.interop.pyg.gmm_conv import GMMConv
from edgewise.interop.pyg.gps_conv import GPSConv
from edgewise.interop.pyg.hgt_conv import HGTConv
from edgewise.interop.pyg.pna_conv import PNAConv
from edgewise.interop.pyg.rgat_conv import RGATConv
from edgewise.interop.pyg.rgcn_conv import RGCNConv
from edgewise.interop.pyg.sage_conv import SAGEConv
from edgewise.interop.pyg.supergat_conv import SuperGATConv
from edgewise.interop.pyg.transformer_conv import TransformerConv

__all__ = [
    "FiLMConv",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "GINEConv",
    "GMMConv",
    "GPSConv",
    "HGTConv",
    "PNAConv",
    "RGATConv",
    "RGCNConv",
    "SAGEConv",
    "SuperGATConv",
    "TransformerConv",
]


def __dir__() -> list[str]:
    return __all__
