"""Structure-data files (SDF) as tables: a row for each record, a column for each property.

Paper: Dalby et al., Description of several chemical structure file formats, 1992.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from edgewise._utils.errors import ArgumentError
from edgewise._utils.limits import check_memory
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource, pandas_for
from edgewise.app.files.read_table import form_of
from edgewise.app.files.reading import read_bytes
from edgewise.app.files.table import Table
from edgewise.app.kinds.molecules.chem import canonical, check_atoms, quiet, rdkit

FORMS = (".sdf", ".sd")
SMILES, NAME = "smiles", "name"
"""Names of the columns for the structure and for the title line of a record."""


def is_sdf(source: Path | FrameSource) -> bool:
    """Return whether a source is a structure-data file, by its suffix."""
    return isinstance(source, Path) and form_of(source) in FORMS


def read_sdf(path: Path) -> Table:
    """Read a file of structures, as the column ``smiles`` with "" for a record that RDKit cannot
    read or that is above ``molecule_atoms``; a property called ``smiles`` becomes ``own_smiles``.
    """
    chem = rdkit()
    content = read_bytes(path)
    check_memory("data.path", 10 * len(content), path.name, "use a part of the records")
    rows: list[dict[str, str]] = []
    with quiet():
        for molecule in chem.ForwardSDMolSupplier(io.BytesIO(content)):
            if molecule is None:
                rows.append({SMILES: ""})
                continue
            smiles = _smiles(molecule, f"record {len(rows) + 1} of {path.name}")
            properties = {name: molecule.GetProp(name).strip() for name in molecule.GetPropNames()}
            row = {
                f"own_{n}" if n.lower() == SMILES else n: value for n, value in properties.items()
            }
            title = molecule.GetProp("_Name").strip() if molecule.HasProp("_Name") else ""
            title_column = {NAME: title} if title and NAME not in row else {}
            rows.append({SMILES: smiles, **title_column, **row})
    if not any(row[SMILES] for row in rows):
        raise unreadable(
            path, expected="records of structures", got=f"{len(rows)} that RDKit cannot read"
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    frame = pandas_for("reading a table").DataFrame(columns, dtype=str)
    return Table(path, frame, list(range(1, len(rows) + 1)), named=True)


def _smiles(molecule: Any, record: str) -> str:
    """Return the SMILES of a record; "" with a warning if it exceeds the limit on atoms."""
    try:
        check_atoms(molecule, record)
    except ArgumentError as error:
        warnings.warn(f"structure read as blank: {error}", stacklevel=3)
        return ""
    return canonical(molecule)
