"""Molecules as graphs, against what a chemist would draw."""

from __future__ import annotations

import sys

import pytest
import torch

from edgewise._utils.errors import MissingExtraError

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")

from edgewise.app.kinds.molecules import chem


def graph_of(smiles: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    molecule = chem.parse(smiles)
    assert molecule is not None
    return chem.molecule_graph(molecule)


def test_ethanol() -> None:
    x, edge_index, bonds = graph_of("CCO")
    assert edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert bonds.tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]] * 4  # single, and nothing else
    assert x.shape == (3, chem.ATOM_WIDTH)
    elements = x[:, : len(chem.ELEMENTS) + 1].argmax(1)
    assert [chem.ELEMENTS[i] for i in elements] == ["C", "C", "O"]
    place = len(chem.ELEMENTS) + 1
    neighbours = x[:, place : place + len(chem.NEIGHBOURS) + 1].argmax(1)
    assert neighbours.tolist() == [1, 2, 1]
    place += len(chem.NEIGHBOURS) + 1
    hydrogens = x[:, place : place + len(chem.HYDROGENS) + 1].argmax(1)
    assert hydrogens.tolist() == [3, 2, 1]


def test_shares_of_the_atoms_add_up_to_rdkits_descriptors() -> None:
    from rdkit.Chem import Crippen, rdMolDescriptors

    smiles = "CC(=O)Oc1ccccc1C(=O)O"
    x, molecule = graph_of(smiles)[0].sum(0), chem.parse(smiles)
    assert float(x[-4]) == pytest.approx(Crippen.MolLogP(molecule), abs=1e-4)
    assert float(x[-3]) * 10 == pytest.approx(Crippen.MolMR(molecule), abs=1e-3)
    assert float(x[-2]) * 10 == pytest.approx(rdMolDescriptors.CalcTPSA(molecule), abs=1e-3)


def test_bonds_of_benzene_and_of_a_double_bond_with_sides() -> None:
    _, _, aromatic = graph_of("c1ccccc1")
    assert aromatic.tolist() == [[0, 0, 0, 1, 1, 1, 0, 0]] * 12  # aromatic, conjugated, in a ring
    one, other = (graph_of(smiles)[2][2, -2:].tolist() for smiles in ("C/C=C/C", "C/C=C\\C"))
    assert (one, other) == ([1, 0], [0, 1])


def test_a_molecule_without_bonds_is_a_graph_without_edges() -> None:
    x, edge_index, bonds = graph_of("C")
    assert (len(x), tuple(edge_index.shape), tuple(bonds.shape)) == (1, (2, 0), (0, 8))


def test_a_salt_is_one_graph_of_two_components() -> None:
    x, edge_index, _ = graph_of("C[N+](C)(C)C.[Cl-]")
    assert len(x) == 6
    assert 5 not in edge_index
    charge = x[:, -7]
    assert charge.tolist() == [0, 1, 0, 0, 0, -1]


@pytest.mark.parametrize("smiles", ["", "  ", "C(", "C1CC", "Xx", "C(C)(C)(C)(C)C"])
def test_what_is_no_molecule_is_none(smiles: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert chem.parse(smiles) is None
    assert capfd.readouterr().err == ""  # RDKit's own remarks name no row


@pytest.mark.parametrize(
    ("smiles", "cations", "rest"),
    [
        ("C[N+](C)(C)C.[Cl-]", "C[N+](C)(C)C", "[Cl-]"),
        ("[Na+].[K+].O=S(=O)([O-])[O-].O", "[K+].[Na+]", "O.O=S(=O)([O-])[O-]"),
        ("CCO", "", "CCO"),
        ("C[NH2+]CC(=O)[O-]", "", "C[NH2+]CC(=O)[O-]"),  # neutral as a whole
    ],
)
def test_ions(smiles: str, cations: str, rest: str) -> None:
    from rdkit.Chem import MolToSmiles

    assert tuple(map(MolToSmiles, chem.ions(chem.parse(smiles)))) == (cations, rest)


def test_descriptors_are_rdkits_and_finite() -> None:
    from rdkit.Chem import Descriptors

    molecule = chem.parse("CCO")
    names = [name for name, _ in Descriptors.descList]
    found = dict(zip(names, chem.descriptors(molecule), strict=True))
    assert found["MolWt"] == pytest.approx(46.07, abs=0.01)
    assert found["NumHDonors"] == 1
    for part in (molecule, *chem.ions(molecule), chem.parse("[Na+].[Cl-]")):
        assert all(abs(value) <= chem.LARGEST for value in chem.descriptors(part))  # nor NaN


def test_scaffolds() -> None:
    assert chem.scaffold(chem.parse("Cc1ccccc1CCN")) == "c1ccccc1"
    assert chem.scaffold(chem.parse("CCCC")) == ""


def test_without_rdkit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r"\[chem\]"):
        chem.parse("C")
