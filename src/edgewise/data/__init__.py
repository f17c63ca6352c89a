"""Data sets: one file each, all giving batches, sizes and splits in the same form."""

from __future__ import annotations

from edgewise.data.batch import Batch
from edgewise.data.digits import Digits as digits
from edgewise.data.loader import Loader
from edgewise.data.planetoid import Planetoid as planetoid
from edgewise.data.splits import Data, Splits

DATA: dict[str, type[Data]] = {"digits": digits, "planetoid": planetoid}
"""Every data set by the name that recipes and run folders use."""

__all__ = ["DATA", "Batch", "Data", "Loader", "Splits", "digits", "planetoid"]
