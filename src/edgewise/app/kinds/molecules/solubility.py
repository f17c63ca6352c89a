"""Solubility: 1,128 molecules in water (ESOL), and CO2 in 183 ionic liquids.

The 15,665 measurements of CO2, as mole fractions, were collected from the literature by Chen et al.
(2024) and published under Apache-2.0 in the repository MrPiegon/RBVAE-FNN-PSO, as the first six
columns of the sheet ``ModelData`` of ``Modeldata/CO2ModelData.xlsx``. There is no download of the
CSV file: save that sheet as CSV.

Papers: Delaney, ESOL: estimating aqueous solubility directly from molecular structure, 2004; Wu et
al., MoleculeNet, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise._utils.errors import MissingDataError
from edgewise.app.files.files import find_files, find_raw
from edgewise.app.files.frames import FrameSource
from edgewise.app.kinds.molecules.data import By, MoleculeTable

ESOL_FILE = "delaney-processed.csv"
ESOL_ADDRESS = f"https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/{ESOL_FILE}"
CO2_FILE = "co2_solubility_chen2024.csv.gz"


@dataclass(frozen=True)
class ESOL(MoleculeTable):
    """Measured solubility, split at random or by scaffold.

    ``path`` names another copy of the file. By default, the file is in the data folder or is
    downloaded.

    Example:
        >>> from edgewise.app.kinds.molecules import ESOL
        >>> splits = ESOL(split="scaffold").load()  # doctest: +SKIP
    """

    folders = ("esol",)

    smiles: str = "smiles"
    target: str | tuple[str, ...] = "measured log solubility in mols per litre"
    unit: str = "log10 mol/L"

    def source(self) -> Path | FrameSource:
        if self.path:
            return super().source()
        return find_files("esol", {ESOL_FILE: ESOL_ADDRESS}) / ESOL_FILE


@dataclass(frozen=True)
class IonicLiquids(MoleculeTable):
    """Graphs of cation and anion, with temperature in K and pressure in kPa as conditions.

    All measurements of a liquid are in one fold, so the liquids of the test fold are new to the
    model. This is harder than predicting new temperatures and pressures of known liquids.
    """

    folders = ("ionic_liquids",)

    smiles: str = "Canonical SMILES"
    target: str | tuple[str, ...] = "Mole"
    fraction: bool = True
    conditions: tuple[str, ...] = ("T", "P")
    log_conditions: tuple[str, ...] = ("P",)
    split: By = "molecule"
    val: float = 0.15
    batch_size: int = 256

    def source(self) -> Path | FrameSource:
        if self.path:
            return super().source()
        return find_raw("ionic_liquids", [CO2_FILE], _no_download) / CO2_FILE

    def identity(self, smiles: str, molecule: Any) -> str:  # noqa: ARG002
        # The file writes one of its 182 liquids in two ways. They count as two liquids, as in
        # published results.
        return smiles


def _no_download(_folder: Path) -> None:
    raise MissingDataError(
        f"{CO2_FILE}: not available for download. Remedy: set EDGEWISE_DATA to a folder that holds "
        "the data sets, or save the sheet ModelData of Modeldata/CO2ModelData.xlsx (GitHub "
        "repository MrPiegon/RBVAE-FNN-PSO) as CSV and set data.path to this CSV file."
    )
