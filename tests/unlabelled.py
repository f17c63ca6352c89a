"""A few molecules in the place of ZINC's, for what learns without labels."""

from __future__ import annotations

from pathlib import Path

from edgewise.app.kinds.molecules import zinc

SMILES = ("CCO", "c1ccccc1O", "CC(=O)NC", "C#N", "N", "O=C(O)c1ccc(Cl)cc1", "CCCCCCCCCC")


def write_molecules(folder: Path) -> Path:
    """The folder with the files of all parts, below one that ``EDGEWISE_DATA`` may name."""
    raw = folder / zinc.NAME / "raw"
    raw.mkdir(parents=True)
    for part in zinc.PARTS:
        (raw / f"{part}.csv").write_text("\n".join(["smiles,y", *(f"{s},0" for s in SMILES)]))
    return raw
