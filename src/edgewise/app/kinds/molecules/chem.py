"""Molecular graphs with features by RDKit: atoms are nodes, and each bond is two directed edges.

Atom features (:data:`ATOM_WIDTH` numbers): element, number of neighbours and of hydrogens,
hybridisation and ring sizes, each one-hot; formal charge; aromaticity; chirality; and the
contributions of the atom to four properties of the molecule. These are logP and molar refractivity
in 10 cm³/mol, including the hydrogens of the atom (Wildman and Crippen, 1999), and the polar
surface area (Ertl et al., 2000) and total surface area (Labute, 2000) in 10 Å², without hydrogens.

Bond features (:data:`BOND_WIDTH` numbers): single, double, triple or aromatic; conjugated; in a
ring; and E or Z, if specified.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.limits import LIMITS

ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si")
HYBRIDISATIONS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREOE", "STEREOZ")
RINGS = (3, 4, 5, 6, 7, 8)
NEIGHBOURS = HYDROGENS = (0, 1, 2, 3, 4)
ATOM_WIDTH = (
    sum(len(c) + 1 for c in (ELEMENTS, NEIGHBOURS, HYDROGENS, HYBRIDISATIONS)) + len(RINGS) + 3 + 4
)
BOND_WIDTH = len(BONDS) + 2 + len(STEREO)
LARGEST = 1e6  # Bound for descriptors, because some descriptors of ions overflow.
# RDKit computes the first two in time O(atoms⁴), 9 s for 300 carbons, and the others in O(atoms³),
# 3.6 s for 600 carbons. Above these numbers of heavy atoms, they count as undefined.
SLOW_DESCRIPTORS = (
    (re.compile("(Avg)?Ipc"), 100),
    (re.compile("BCUT2D_.*|BalabanJ|BertzCT|.*EState.*"), 300),
)


def rdkit() -> ModuleType:
    """Return the module ``rdkit.Chem``."""
    require("rdkit", extra="chem", purpose="reading molecules")
    from rdkit import Chem

    module: ModuleType = Chem
    return module


def quiet() -> AbstractContextManager[None]:
    """Disable RDKit's messages in a ``with`` block; the caller reports the row of an error."""
    from rdkit import rdBase

    logs: AbstractContextManager[None] = rdBase.BlockLogs()
    return logs


def parse(smiles: str) -> Any | None:
    """Parse SMILES to an RDKit molecule; return ``None`` if it is invalid or has no atoms.

    Raises:
        ArgumentError: the SMILES exceeds a limit on characters, nested branches or atoms.
    """
    LIMITS["smiles_characters"].check(len(smiles), "smiles", f"in {smiles[:40]!r}...")
    depth = deepest = 0
    for character in smiles:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    LIMITS["smiles_nesting"].check(deepest, "smiles", f"in {smiles[:40]!r}...")
    chem = rdkit()
    with quiet():
        if len(smiles) > LIMITS["molecule_atoms"].value:
            # Without sanitisation, atoms are counted before the work on rings and aromaticity.
            unchecked = chem.MolFromSmiles(smiles.strip(), sanitize=False)
            if unchecked is None:
                return None
            check_atoms(unchecked, smiles)
        molecule = chem.MolFromSmiles(smiles.strip())
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def check_atoms(molecule: Any, name: str) -> None:
    """Raise ArgumentError if a molecule, called ``name``, is above the limit ``molecule_atoms``."""
    count = sum(atom.GetAtomicNum() != 1 for atom in molecule.GetAtoms())
    LIMITS["molecule_atoms"].check(count, "smiles", f"in {name[:40]!r}...")


def is_smiles(text: str) -> bool:
    """Return whether a text is a valid SMILES within the limits."""
    try:
        return parse(text) is not None
    except ArgumentError:
        return False


def molecule_graph(molecule: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return atom features ``[n, ATOM_WIDTH]``, edges ``[2, 2·bonds]`` and bond features. A salt,
    ``cation.anion``, is one graph with two components.
    """
    pairs = zip(molecule.GetAtoms(), _contributions(molecule), strict=True)
    atoms = [_atom(atom) + contributions for atom, contributions in pairs]
    bonds = torch.tensor([_bond(bond) for bond in molecule.GetBonds()]).reshape(-1, BOND_WIDTH)
    return torch.tensor(atoms), bond_edges(molecule), bonds.repeat_interleave(2, 0)


def bond_atoms(molecule: Any) -> list[tuple[int, int]]:
    """Return the indices of both atoms of each bond."""
    return [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]


def bond_edges(molecule: Any) -> Tensor:
    """Return the edges ``[2, 2·bonds]``: each bond in one direction, then in the other."""
    pairs = torch.tensor(bond_atoms(molecule), dtype=torch.long).reshape(-1, 2)
    return torch.stack([pairs, pairs.flip(1)], dim=1).reshape(-1, 2).T.contiguous()


def largest_fragment(molecule: Any) -> Any:
    """Return the largest organic fragment of a salt or mixture; the largest if none is organic."""
    rdkit()
    from rdkit.Chem.MolStandardize import rdMolStandardize

    with quiet():
        return rdMolStandardize.LargestFragmentChooser(preferOrganic=True).choose(molecule)


def canonical(molecule: Any) -> str:
    """Return RDKit's canonical SMILES."""
    return str(rdkit().MolToSmiles(molecule))


def without_parts(
    molecule: Any, atoms: Iterable[int] = (), bonds: Iterable[tuple[int, int]] = ()
) -> Any:
    """Return the molecule without some atoms, by index, and bonds, by the indices of their atoms.
    Hydrogens take the place of the removed neighbours.
    """
    chem = rdkit()
    edited = chem.RWMol(molecule)
    chem.Kekulize(edited, clearAromaticFlags=True)
    removed = set(atoms)
    cut = [bond for bond in bond_atoms(molecule) if removed.intersection(bond)]
    for first, second in (*bonds, *cut):
        for atom in (first, second):
            edited.GetAtomWithIdx(atom).SetNoImplicit(False)  # This adds implicit hydrogens.
        edited.RemoveBond(first, second)
    for atom in sorted(removed, reverse=True):
        edited.RemoveAtom(atom)
    with quiet():
        chem.SanitizeMol(edited)
        chem.AssignStereochemistry(edited, cleanIt=True, force=True)
    return edited.GetMol()


def descriptors(molecule: Any) -> list[float]:
    """Return all two-dimensional descriptors of RDKit, with 0 for undefined descriptors, and for
    :data:`SLOW_DESCRIPTORS` of large molecules.
    """
    rdkit()
    from rdkit.Chem import Descriptors

    atoms = molecule.GetNumHeavyAtoms()
    with quiet():
        values = [
            0.0 if atoms > max_atoms(name) else _descriptor(function, molecule)
            for name, function in Descriptors.descList
        ]
    numbers = torch.tensor(values, dtype=torch.double).nan_to_num()
    return numbers.clamp(-LARGEST, LARGEST).tolist()


def max_atoms(descriptor: str) -> float:
    """Return the number of heavy atoms up to which a descriptor is computed."""
    limits = (limit for names, limit in SLOW_DESCRIPTORS if names.fullmatch(descriptor))
    return next(limits, math.inf)


def _descriptor(function: Callable[[Any], float], molecule: Any) -> float:
    try:
        return function(molecule)
    except Exception:  # RDKit raises many classes of exceptions for undefined descriptors.
        return 0.0


def ions(molecule: Any) -> tuple[Any, Any]:
    """Return the cations of a molecule, and its other fragments; either may have no atoms."""
    chem = rdkit()
    groups: tuple[list[Any], list[Any]] = [], []
    for fragment in chem.GetMolFrags(molecule, asMols=True):
        groups[chem.GetFormalCharge(fragment) <= 0].append(fragment)
    cations, rest = (reduce(chem.CombineMols, fragment, chem.Mol()) for fragment in groups)
    for fragment in (cations, rest):
        chem.SanitizeMol(fragment)
    return cations, rest


def _one_hot(value: object, choices: Sequence[object]) -> list[float]:
    """Encode a value one-hot, with a last column for all other values."""
    columns = [float(value == choice) for choice in choices]
    return [*columns, 1.0 - sum(columns)]


def _atom(atom: Any) -> list[float]:
    return [
        *_one_hot(atom.GetSymbol(), ELEMENTS),
        *_one_hot(atom.GetDegree(), NEIGHBOURS),
        *_one_hot(atom.GetTotalNumHs(), HYDROGENS),
        *_one_hot(str(atom.GetHybridization()), HYBRIDISATIONS),
        *(float(atom.IsInRingSize(size)) for size in RINGS),
        float(atom.GetFormalCharge()),
        float(atom.GetIsAromatic()),
        float(str(atom.GetChiralTag()) != "CHI_UNSPECIFIED"),
    ]


def _bond(bond: Any) -> list[float]:
    return [
        *(float(str(bond.GetBondType()) == kind) for kind in BONDS),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
        *(float(str(bond.GetStereo()) == kind) for kind in STEREO),
    ]


def _contributions(molecule: Any) -> list[list[float]]:
    """Return each atom's contribution to logP, refractivity, polar and total surface area."""
    from rdkit.Chem import rdMolDescriptors as descriptors

    with_hydrogens = rdkit().AddHs(molecule)
    crippen = descriptors._CalcCrippenContribs(with_hydrogens)
    contributions = [list(pair) for pair in crippen[: molecule.GetNumAtoms()]]
    for hydrogen in list(with_hydrogens.GetAtoms())[molecule.GetNumAtoms() :]:
        to = contributions[hydrogen.GetNeighbors()[0].GetIdx()]
        to[0] += crippen[hydrogen.GetIdx()][0]
        to[1] += crippen[hydrogen.GetIdx()][1]
    polar = descriptors._CalcTPSAContribs(molecule)
    surface, _hydrogens = descriptors._CalcLabuteASAContribs(molecule)
    return [
        [logp, refraction / 10, area / 10, around / 10]
        for (logp, refraction), area, around in zip(contributions, polar, surface, strict=True)
    ]


def scaffold(molecule: Any) -> str:
    """Return the Murcko scaffold (rings and their linkers) as SMILES; empty without a ring."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    smiles: Any = MurckoScaffold.MurckoScaffoldSmiles  # RDKit's function has no annotations.
    return str(smiles(mol=molecule))
