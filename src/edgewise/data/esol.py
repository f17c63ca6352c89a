"""ESOL: the solubility of 1,128 molecules in water, in log10 mol/L.

Papers: Delaney, ESOL: estimating aqueous solubility directly from molecular structure, 2004; Wu et
al., MoleculeNet, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.files import find_raw
from edgewise.data.molecules import Molecules
from edgewise.errors import MissingExtraError

FILE = "delaney-processed.csv"


@dataclass(frozen=True)
class ESOL(Molecules):
    """Measured solubility; as published, molecules are dealt at random or by scaffold.

    ``path`` names another copy of the file; without it, the data folder's or a download.
    """

    target: str = "measured log solubility in mols per litre"

    def source(self) -> Path:
        return super().source() if self.path else find_raw("esol", [FILE], _download) / FILE


def _download(folder: Path) -> None:
    try:
        from torch_geometric.data import download_url
        from torch_geometric.datasets import MoleculeNet
    except ImportError as error:
        raise MissingExtraError("torch_geometric", "graphs", "downloading ESOL") from error
    download_url(MoleculeNet.url.format(FILE), str(folder), log=False)
