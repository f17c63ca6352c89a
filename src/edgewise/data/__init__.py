"""Data sets: one file each, all giving batches, sizes and splits in the same form."""

from __future__ import annotations

from edgewise.data.batch import Batch
from edgewise.data.digits import Digits as digits
from edgewise.data.esol import ESOL as esol
from edgewise.data.ionic_liquids import IonicLiquids as ionic_liquids
from edgewise.data.loader import Loader
from edgewise.data.molecules import Molecules as molecules
from edgewise.data.packed import PackedGraphs
from edgewise.data.planetoid import Planetoid as planetoid
from edgewise.data.splits import Data, Split, Splits
from edgewise.data.tu import TU as tu

DATA: dict[str, type[Data]] = {
    "digits": digits,
    "esol": esol,
    "ionic_liquids": ionic_liquids,
    "molecules": molecules,
    "planetoid": planetoid,
    "tu": tu,
}
"""Every data set by the name that recipes and run folders use."""

__all__ = [
    "DATA",
    "Batch",
    "Data",
    "Loader",
    "PackedGraphs",
    "Split",
    "Splits",
    "digits",
    "esol",
    "ionic_liquids",
    "molecules",
    "planetoid",
    "tu",
]
