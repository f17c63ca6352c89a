"""Solubility of CO2 in 183 ionic liquids: 15,665 measurements, as mole fractions.

The data were collected from the literature by Chen et al. (2024) and published under Apache-2.0 in
the repository MrPiegon/RBVAE-FNN-PSO, as the first six columns of the sheet ``ModelData`` of
``Modeldata/CO2ModelData.xlsx``. There is no download of the CSV file: save that sheet as CSV.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.files import find_raw
from edgewise.data.molecules.molecule_table import By, MoleculeTable
from edgewise.data.tables.frames import FrameSource
from edgewise.errors import MissingDataError

FILE = "co2_solubility_chen2024.csv.gz"


@dataclass(frozen=True)
class IonicLiquids(MoleculeTable):
    """Graphs of cation and anion, with temperature in K and pressure in kPa as conditions.

    All measurements of a liquid are in one fold, so the liquids of the test fold are new to the
    model. This is harder than predicting new temperatures and pressures of known liquids.
    """

    smiles: str = "Canonical SMILES"
    target: str = "Mole"
    fraction: bool = True
    conditions: tuple[str, ...] = ("T", "P")
    log_conditions: tuple[str, ...] = ("P",)
    split: By = "molecule"
    val: float = 0.15
    batch_size: int = 256

    def source(self) -> Path | FrameSource:
        if self.path:
            return super().source()
        return find_raw("ionic_liquids", [FILE], _no_download) / FILE


def _no_download(_folder: Path) -> None:
    raise MissingDataError(
        f"{FILE}: not available for download. Remedy: set EDGEWISE_DATA, or save the sheet "
        "that the documentation of edgewise.data.ionic_liquids names as CSV and set data.path."
    )
