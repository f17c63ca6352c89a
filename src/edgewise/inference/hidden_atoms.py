"""Elements and bonds that a model of masked molecules finds in the places of ``*`` and ``~``."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.data.codes import Codes
from edgewise.data.molecules.chem import BONDS, ELEMENTS, unknown_parts, with_parts
from edgewise.data.molecules.masked_molecules import ATOM_KINDS, MaskedMolecules, hide
from edgewise.data.molecules.molecule_table import packed
from edgewise.errors import ArgumentError
from edgewise.inference.molecules import read_smiles
from edgewise.inference.predictor import Answer, Predictor
from edgewise.tasks import Classification

KINDS = (*ELEMENTS, "another", *(kind.lower() for kind in BONDS))
"""What the model's outputs are scores of."""


class Masked(NamedTuple):
    """RDKit's molecule, and the numbers of its atoms and bonds that are to be found."""

    molecule: Any
    atoms: list[int]
    bonds: list[int]


class HiddenAtoms(Predictor):
    """The likeliest elements of the atoms that are written as ``*``, and kinds of bonds for ``~``.

    What is known of the other atoms is what RDKit says of the molecule as it is written, with
    places that are unknown. In training it was computed before anything was hidden.
    """

    data, task = MaskedMolecules, Classification
    input = "a molecule as SMILES, with * for an unknown atom or ~ for an unknown bond"

    def columns(self) -> tuple[str, ...]:
        return ("smiles",)

    def prepare(self, value: Any) -> Masked:
        molecule = read_smiles(value)
        atoms, bonds = unknown_parts(molecule)
        if not atoms and not bonds:
            raise ArgumentError(
                "input",
                expected=self.input,
                got=repr(value)[:80],
                remedy="write * in the place of an atom, such as CC(=O)*, or ~ for a bond; a run "
                "of your own property starts from this one with --from",
            )
        return Masked(molecule, atoms, bonds)

    def answer(self, examples: list[Masked], *, top: int = 1) -> list[Answer]:
        """The molecules with what is likeliest in its place, and the likeliest of each place.

        Args:
            examples: molecules, and what is hidden of them.
            top: elements or kinds of bonds for each place.
        """
        check_least("top", top, 1, "choose how many elements you want")
        codes = Codes(packed([one.molecule for one in examples]))
        atoms = _flags([(one.molecule.GetNumAtoms(), one.atoms) for one in examples])
        bonds = _flags([(one.molecule.GetNumBonds(), one.bonds) for one in examples])
        batch = hide(codes, torch.arange(len(examples)), atoms, bonds)
        chances = batch.counted(self.model(*batch.inputs, **batch.keywords)).softmax(-1)
        of_atoms, of_bonds = chances.split([int(atoms.sum()), int(bonds.sum())])
        rows = zip(
            examples,
            of_atoms[:, :ATOM_KINDS].split([len(one.atoms) for one in examples]),
            of_bonds[:, ATOM_KINDS:].split([len(one.bonds) for one in examples]),
            strict=True,
        )
        return [_found(one, elements, kinds, top) for one, elements, kinds in rows]


def _flags(chosen: list[tuple[int, list[int]]]) -> Tensor:
    """Of several counts of things, one after the other, which are among the chosen ones."""
    parts = [torch.zeros(count, dtype=torch.bool) for count, _ in chosen]
    for part, (_, index) in zip(parts, chosen, strict=True):
        part[index] = True
    return torch.cat(parts)


def _found(one: Masked, of_atoms: Tensor, of_bonds: Tensor, top: int) -> Answer:
    """Atoms count from 1 in the order in which they are written."""
    ends = [one.molecule.GetBondWithIdx(at) for at in one.bonds]
    places = [f"atom {at + 1}" for at in one.atoms]
    places += [f"bond {bond.GetBeginAtomIdx() + 1}-{bond.GetEndAtomIdx() + 1}" for bond in ends]
    elements = [_ranked(row, KINDS[:ATOM_KINDS]) for row in of_atoms]
    kinds = [_ranked(row, KINDS[ATOM_KINDS:]) for row in of_bonds]
    likeliest = dict(zip(one.atoms, (ranked[0][0] for ranked in elements), strict=True))
    known = {at: element for at, element in likeliest.items() if element in ELEMENTS}
    bonds = dict(zip(one.bonds, (ranked[0][0].upper() for ranked in kinds), strict=True))
    return {
        "smiles": with_parts(one.molecule, known, bonds),
        "found": [
            {"place": place, "kind": kind, "probability": chance}
            for place, ranked in zip(places, elements + kinds, strict=True)
            for kind, chance in ranked[:top]
        ],
    }


def _ranked(chances: Tensor, kinds: tuple[str, ...]) -> list[tuple[str, float]]:
    return sorted(zip(kinds, chances.tolist(), strict=True), key=lambda pair: -pair[1])
