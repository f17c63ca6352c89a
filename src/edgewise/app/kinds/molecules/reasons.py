"""Reasons for the predictions of molecules, and the attention between their atoms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.digits import rounded
from edgewise.app.kinds.molecules.chem import bond_atoms, without_parts
from edgewise.app.kinds.molecules.predict import (
    MoleculeProperties,
    PenalisedLogP,
    read_smiles,
)
from edgewise.app.predict.cases import (
    model_call,
    number_case,
    output_rows,
    target_cases,
)
from edgewise.app.predict.pages import answer_text
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation
from edgewise.explain.record import record


def explain_molecule(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Record the attention between the atoms of a molecule."""
    with record(run.model, **recording) as recorded:
        answer = answer_text(run, value)
    smiles = run.predictor.show(value)
    # The predictor may use only a part of a salt.
    example = run.predictor.prepare(value)
    molecule = example.molecule if hasattr(example, "molecule") else read_smiles(smiles)
    return Explanation(
        recorded,
        atom_labels(molecule),
        "molecule",
        _atom_positions(molecule),
        answer,
        details={
            "smiles": smiles,
            "bonds": [list(pair) for pair in bond_atoms(molecule)],
            "orders": [bond.GetBondTypeAsDouble() for bond in molecule.GetBonds()],
        },
    )


def _atom_positions(molecule: Any) -> Tensor:
    from rdkit.Chem import rdDepictor

    rdDepictor.Compute2DCoords(molecule)
    conformer = molecule.GetConformer()
    positions = [list(conformer.GetAtomPosition(i))[:2] for i in range(molecule.GetNumAtoms())]
    return torch.tensor(positions)


def atom_labels(molecule: Any) -> list[str]:
    """Return the names of the atoms of a molecule of RDKit, numbered from 1, such as C1."""
    return [f"{atom.GetSymbol()}{atom.GetIdx() + 1}" for atom in molecule.GetAtoms()]


def penalised_logp(predictor: PenalisedLogP, value: Any, _: int) -> Iterator[Case]:
    """Yield the atoms of a molecule as reasons for its penalised logP."""
    out, scores = output_rows(predictor, value)[1:]
    labels = atom_labels(read_smiles(predictor.show(value)))
    member = torch.arange(len(labels))
    yield number_case(scores, 0, member, labels, rounded(float(out[0, 0])), by_edge=True)


def molecule_properties(predictor: MoleculeProperties, value: Any, _: int) -> Iterator[Case]:
    """Yield the atoms and bonds of a molecule as reasons for each property.

    A removed atom or bond is deleted from the molecule, and its neighbours get hydrogens, because
    the features of an atom also describe its neighbours. A single atom is not deleted.
    """
    example = predictor.prepare(value)
    labels = atom_labels(example.molecule)

    def scores(atoms: Tensor | None = None, pairs: Tensor | None = None) -> Tensor:
        remaining = example
        if atoms is not None or pairs is not None:
            indices = () if atoms is None else atoms.nonzero()[:, 0].tolist()
            bonds = () if pairs is None else pairs.T.tolist()
            molecule = without_parts(example.molecule, indices, bonds)
            remaining = example._replace(molecule=molecule)
        return model_call(predictor, remaining)[1]

    with torch.no_grad():
        out = scores()
    member = torch.arange(len(labels))
    for case in target_cases(predictor, out, scores, member, labels, by_edge=True):
        deleting = replace(case, score_without=case.score, replacement="hydrogens")
        yield case if len(labels) == 1 else deleting
