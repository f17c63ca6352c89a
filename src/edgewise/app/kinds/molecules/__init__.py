"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.molecules.data import MoleculeTable
from edgewise.app.kinds.molecules.masked_molecules import MaskedMolecules
from edgewise.app.kinds.molecules.solubility import ESOL, IonicLiquids
from edgewise.app.kinds.molecules.zinc import ZINC

__all__ = ["ESOL", "ZINC", "IonicLiquids", "MaskedMolecules", "MoleculeTable"]


def __dir__() -> list[str]:
    return __all__
