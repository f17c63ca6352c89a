"""Structure-data files: records as rows, properties as columns, records that cannot be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")

from rdkit import Chem

from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.molecules.sdf import read_sdf
from tests.errors import refused

SMILES = ["C", "CC", "CCO", "c1ccccc1", "Cc1ccccc1", "O", "C[N+](C)(C)C.[Cl-]", "CO", "CN", "N"]


def write(path: Path, names: tuple[str, ...] = ("logS", "active")) -> Path:
    """Write a file with two properties; the second record lacks the second."""
    writer = Chem.SDWriter(str(path))
    for i, smiles in enumerate(SMILES):
        molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
        molecule.SetProp("_Name", f"compound {i}")
        molecule.SetProp(names[0], str(i * 1.5))
        if i != 1:
            molecule.SetProp(names[1], str(i % 2))
        writer.write(molecule)
    writer.close()
    return path


def test_a_record_is_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.sdf")
    table = read_sdf(path)
    assert list(table.columns) == ["smiles", "name", "logS", "active"]
    assert table.columns["smiles"] == [
        Chem.MolToSmiles(Chem.MolFromSmiles(smiles)) for smiles in SMILES
    ]
    assert table.columns["name"][2] == "compound 2"
    assert table.columns["active"][:3] == ["0", "", "0"]
    packed = tmp_path / "mine.sdf.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_sdf(packed).frame.equals(table.frame)


def test_it_is_trained_on_as_the_table_of_its_columns_is(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.sdf")
    read_sdf(path).frame.to_csv(tmp_path / "mine.csv", index=False)
    one, other = (
        MoleculeTable(path=str(own), target="logS,active", val=0.25).load()
        for own in (path, tmp_path / "mine.csv")
    )
    assert one.targets == other.targets
    for left, right in ((one.train, other.train), (one.test, other.test)):
        batches = [part.make(torch.arange(part.count)) for part in (left, right)]
        torch.testing.assert_close(batches[0].inputs[0], batches[1].inputs[0])
        torch.testing.assert_close(batches[0].target, batches[1].target, equal_nan=True)


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.sdf")
    records = path.read_text().split("$$$$\n")
    records[3] = records[3].replace(" C ", " Q9 ", 1).replace("V2000", "V2OOO")
    path.write_text("$$$$\n".join(records))
    with refused("data.smiles", expected="mine.sdf", got="row 4", remedy="skip"):
        MoleculeTable(path=str(path), target="logS", val=0.25).load()
    with pytest.warns(UserWarning, match="row 4"):
        MoleculeTable(path=str(path), target="logS", val=0.25, invalid="skip").load()


def test_a_file_without_a_structure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.sdf"
    path.write_text("no structure\n")
    with refused(str(path), expected="records", got="that RDKit cannot read", remedy=""):
        read_sdf(path)


def test_a_property_called_smiles_is_renamed(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.sdf", ("SMILES", "active"))
    assert list(read_sdf(path).columns) == ["smiles", "name", "own_SMILES", "active"]


def test_a_record_above_the_limit_is_an_invalid_row(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.sdf")
    large = Chem.MolToMolBlock(Chem.MolFromSmiles("C" * 501))
    path.write_text(f"{path.read_text()}{large}> <logS>\n1\n\n$$$$\n")
    reason = "read as blank: .* 500 atoms .* 'record 11 of mine.sdf'"
    with (
        pytest.warns(UserWarning, match=reason),
        refused("data.smiles", expected="mine.sdf", got="row 11", remedy="skip"),
    ):
        MoleculeTable(path=str(path), target="logS", val=0.25).load()
    with pytest.warns(UserWarning, match="record 11"), pytest.warns(UserWarning, match="row 11"):
        loaded = MoleculeTable(path=str(path), target="logS", val=0.25, invalid="skip").load()
    assert sum(split.count for split in (loaded.train, loaded.val, loaded.test)) == len(SMILES)
