"""Recommendation of places: Gowalla check-ins, in the split used by NGCF and LightGCN.

Paper: He et al., LightGCN, 2020 (the split); Cho et al., Friendship and mobility, 2011 (the data).
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.data.files import find_files
from edgewise.data.graphs.interactions import Chosen, Interactions, chosen_of

COMMIT = "947ca2b3b1d2d3545b114145710cb06c4e57b3d2"
ADDRESS = f"https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/{COMMIT}/data/gowalla"
FILES = ["train.txt", "test.txt"]


@dataclass(frozen=True)
class Gowalla(Interactions):
    """Published training and test split; validation interactions come from the training part."""

    def read(self) -> Chosen:
        raw = find_files("gowalla", {name: f"{ADDRESS}/{name}" for name in FILES})
        return chosen_of(raw / FILES[0], raw / FILES[1])
