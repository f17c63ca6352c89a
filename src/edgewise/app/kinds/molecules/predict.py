"""Predictors for molecules: properties, and masked atoms and bonds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.rows import check_columns
from edgewise.app.files.table import as_number
from edgewise.app.kinds.molecules.chem import (
    BONDS,
    ELEMENTS,
    bond_atoms,
    parse,
    unknown_parts,
    with_parts,
)
from edgewise.app.kinds.molecules.data import MoleculeTable, described_all, described_by, packed
from edgewise.app.kinds.molecules.masked_molecules import ATOM_KINDS, MaskedMolecules, hide
from edgewise.app.kinds.molecules.sdf import SMILES, is_sdf, read_sdf
from edgewise.app.kinds.molecules.zinc import ZINC, zinc_graph
from edgewise.app.predict.predictor import Answer, Predictor, check_unicode
from edgewise.app.predict.properties import Properties
from edgewise.app.train.batches import Batch
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.standardisation import Standardisation
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.regression import Regression
from edgewise.layers import shares_nodes

KINDS = (*ELEMENTS, "another", *(kind.lower() for kind in BONDS))
"""Classes of the model's outputs: elements, then kinds of bonds."""


def read_smiles(value: Any, read: Callable[[str], Any] = parse) -> Any:
    """Parse a SMILES string by a parser that returns ``None`` for an invalid one, or raise
    ArgumentError.
    """
    check_unicode(value)  # RDKit does not check the encoding.
    molecule = read(value) if isinstance(value, str) else None
    if molecule is None:
        raise ArgumentError(
            "input",
            expected="a molecule as SMILES",
            got=f"{str(value)[:80]!r}, which RDKit cannot read",
            remedy="correct this SMILES",
        )
    return molecule


class Measurement(NamedTuple):
    """A SMILES and the values of the conditions, such as the temperature, by name."""

    smiles: str
    conditions: Mapping[str, Any]


class CheckedMeasurement(NamedTuple):
    """A checked input: the SMILES, RDKit's molecule, and the conditions as numbers."""

    smiles: str
    molecule: Any
    conditions: list[float]


class MoleculeProperties(Properties):
    """Properties of a molecule: numbers in the unit of the training data, and classes."""

    data, input = MoleculeTable, "a molecule as SMILES"
    batch_size = 256
    ensembles = True

    @classmethod
    def serves(cls, recipe: Recipe) -> bool:
        return isinstance(recipe.data, cls.data) and isinstance(recipe.task, Regression)

    def set_up(self) -> None:
        super().set_up()
        assert isinstance(self.recipe.data, MoleculeTable)
        self.table = self.recipe.data
        self.smiles = self.preprocessing.values["smiles"]
        if self.table.unit and not all(target.classes for target in self.targets):
            self.unit = {"unit": self.table.unit}
        if self.table.fraction:
            self.bounds = 0.0, 1.0
        logs = self.table.log_conditions
        self.names = tuple(dict.fromkeys((*self.table.conditions, *logs)))
        self.scales = {
            name: Standardisation.read(self.preprocessing.values[name])
            for name in ("conditions", "descriptors")
            if name in self.preprocessing.values
        }

    def columns(self) -> tuple[str, ...]:
        return (self.smiles, *self.names)

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """Read SMILES; a word such as ``T=300`` sets a condition (the column ``T``) for all
        molecules.
        """
        split = [(word, *word.partition("=")[::2]) for word in words]
        at = {name: value for _, name, value in split if name in self.names}
        for word, name, _ in split:
            if name not in self.names:
                yield Measurement(word, at)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        if not is_sdf(path):
            yield from super().from_file(path)
            return
        table = read_sdf(path)
        check_columns(path, self.names, list(table.columns))
        for line, *cells in zip(table.lines, *table.columns.values(), strict=True):
            row = dict(zip(table.columns, cells, strict=True))
            yield line, row, self.from_row({**row, self.smiles: row[SMILES]})

    def from_row(self, row: Mapping[str, Any]) -> Measurement:
        return Measurement(row[self.smiles], {name: row[name] for name in self.names})

    def prepare(self, value: Any) -> CheckedMeasurement:
        smiles, conditions = value if isinstance(value, Measurement) else (value, {})
        molecule = read_smiles(smiles, self.table.molecule)
        values = {name: self._condition(name, conditions.get(name), smiles) for name in self.names}
        logs = [math.log(values[name]) for name in self.table.log_conditions]
        return CheckedMeasurement(
            smiles, molecule, [values[name] for name in self.table.conditions] + logs
        )

    def _condition(self, name: str, value: Any, smiles: str) -> float:
        positive = name in self.table.log_conditions
        number = as_number(str(value), ";")
        if math.isnan(number) or (positive and number <= 0):
            raise ArgumentError(
                name,
                expected=f"a number{' above 0' * positive} for the condition {name!r} of "
                f"{smiles[:80]}",
                got="none" if value is None else repr(value),
                remedy=f"add a column {name!r} to the input table, or pass {name}=VALUE on the "
                "command line",
            )
        return number

    def answer(self, examples: list[CheckedMeasurement], *, interval: float = 0.0) -> list[Answer]:
        batch = self._batch(examples)
        return self.described(*self.called(*batch.inputs, **batch.keywords), interval)

    def _batch(self, examples: list[CheckedMeasurement]) -> Batch:
        molecules = {example.smiles: example.molecule for example in examples}
        index_of = {smiles: number for number, smiles in enumerate(molecules)}
        number = torch.tensor([index_of[example.smiles] for example in examples])
        measured = torch.tensor([example.conditions for example in examples], dtype=torch.double)
        if "conditions" in self.scales:
            measured = self.scales["conditions"].scaled(measured)
        described: Tensor | None = None
        if "descriptors" in self.scales:
            described = described_by(described_all(molecules.values()), self.scales["descriptors"])
        graphs = replace(packed(molecules.values()), shared=shares_nodes(self.model))
        return self.table.inputs(graphs, number, measured, described)

    def show(self, value: Any) -> str:
        return str(value.smiles if isinstance(value, Measurement) else value)


class PenalisedLogP(Predictor):
    """Penalised logP of a molecule, without a unit, as predicted by a model trained on ZINC."""

    data, task, input = ZINC, Regression, "a molecule as SMILES"
    batch_size = 256

    def columns(self) -> tuple[str, ...]:
        return ("smiles",)

    def prepare(self, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        return zinc_graph(read_smiles(value))

    def answer(self, examples: list[tuple[Tensor, Tensor, Tensor]]) -> list[Answer]:
        assert isinstance(self.recipe.data, ZINC)
        graphs = PackedGraphs.of(*map(list, zip(*examples, strict=True)))
        batch = self.recipe.data.inputs(graphs, torch.arange(len(graphs)))
        outputs = self.model(*batch.inputs, **batch.keywords)[:, 0].tolist()
        return [{"penalised_logp": value} for value in outputs]


class Masked(NamedTuple):
    """RDKit's molecule, and the indices of its masked atoms and bonds."""

    molecule: Any
    atoms: list[int]
    bonds: list[int]


class HiddenAtoms(Predictor):
    """Most probable elements of atoms written as ``*``, and kinds of bonds written as ``~``. RDKit
    computes the features of the other atoms from the incomplete molecule, unlike in training.
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
                remedy="write * for an atom, as in CC(=O)*, or ~ for a bond; to predict a "
                "property, train another recipe with --from and this run folder",
            )
        return Masked(molecule, atoms, bonds)

    def answer(self, examples: list[Masked], *, top: int = 1) -> list[Answer]:
        check_range("top", top, "choose a number of elements, such as 3", least=1)
        codes = PrecomputedEncodings(packed([example.molecule for example in examples]))
        atoms = _flags([(example.molecule.GetNumAtoms(), example.atoms) for example in examples])
        bonds = _flags([(example.molecule.GetNumBonds(), example.bonds) for example in examples])
        batch = hide(codes, torch.arange(len(examples)), atoms, bonds)
        chances = batch.select_outputs(self.model(*batch.inputs, **batch.keywords)).softmax(-1)
        of_atoms, of_bonds = chances.split([int(atoms.sum()), int(bonds.sum())])
        rows = zip(
            examples,
            of_atoms[:, :ATOM_KINDS].split([len(example.atoms) for example in examples]),
            of_bonds[:, ATOM_KINDS:].split([len(example.bonds) for example in examples]),
            strict=True,
        )
        return [_answer_for(example, elements, kinds, top) for example, elements, kinds in rows]


def _flags(chosen: list[tuple[int, list[int]]]) -> Tensor:
    """Return a mask over the atoms, or bonds, of all molecules, from their number and the true
    indices.
    """
    masks = [torch.zeros(count, dtype=torch.bool) for count, _ in chosen]
    for flags, (_, index) in zip(masks, chosen, strict=True):
        flags[index] = True
    return torch.cat(masks)


def _answer_for(masked: Masked, of_atoms: Tensor, of_bonds: Tensor, top: int) -> Answer:
    """Return the prediction for one molecule; its atoms are numbered from 1 in SMILES order."""
    ends = bond_atoms(masked.molecule)
    positions = [f"atom {at + 1}" for at in masked.atoms]
    positions += [f"bond {ends[at][0] + 1}-{ends[at][1] + 1}" for at in masked.bonds]
    elements = [_ranked(row, KINDS[:ATOM_KINDS]) for row in of_atoms]
    kinds = [_ranked(row, KINDS[ATOM_KINDS:]) for row in of_bonds]
    best = dict(zip(masked.atoms, (ranked[0][0] for ranked in elements), strict=True))
    element_by_atom = {at: element for at, element in best.items() if element in ELEMENTS}
    bonds = dict(zip(masked.bonds, (ranked[0][0].upper() for ranked in kinds), strict=True))
    return {
        "smiles": with_parts(masked.molecule, element_by_atom, bonds),
        "found": [
            {"place": position, "kind": kind, "probability": chance}
            for position, ranked in zip(positions, elements + kinds, strict=True)
            for kind, chance in ranked[:top]
        ],
    }


def _ranked(chances: Tensor, kinds: tuple[str, ...]) -> list[tuple[str, float]]:
    return sorted(zip(kinds, chances.tolist(), strict=True), key=lambda pair: -pair[1])
