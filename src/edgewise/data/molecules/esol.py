"""ESOL: solubility of 1,128 molecules in water, in log10 mol/L.

Papers: Delaney, ESOL: estimating aqueous solubility directly from molecular structure, 2004; Wu et
al., MoleculeNet, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.files import find_files
from edgewise.data.molecules.molecule_table import MoleculeTable
from edgewise.data.tables.frames import FrameSource

FILE = "delaney-processed.csv"
ADDRESS = f"https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/{FILE}"


@dataclass(frozen=True)
class ESOL(MoleculeTable):
    """Measured solubility, split at random or by scaffold.

    ``path`` names another copy of the file. By default, the file is in the data folder or is
    downloaded.
    """

    smiles: str = "smiles"
    target: str = "measured log solubility in mols per litre"
    unit: str = "log10 mol/L"

    def source(self) -> Path | FrameSource:
        return super().source() if self.path else find_files("esol", {FILE: ADDRESS}) / FILE
