"""Properties of molecules, in their own unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.data.molecules.chem import parse
from edgewise.data.molecules.molecule_table import (
    MoleculeTable,
    described_all,
    described_by,
    packed,
)
from edgewise.data.scale import Scale
from edgewise.data.tables.table import as_number
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer, Predictor, check_unicode
from edgewise.tasks import Regression


def read_smiles(value: Any) -> Any:
    """RDKit's molecule.

    Raises:
        ArgumentError: it is no SMILES.

    """
    check_unicode(value)  # which RDKit does not
    molecule = parse(value) if isinstance(value, str) else None
    if molecule is None:
        raise ArgumentError(
            "input",
            expected="a molecule as SMILES",
            got=f"{str(value)[:80]!r}, which RDKit cannot read",
            remedy="correct it",
        )
    return molecule


class Measurement(NamedTuple):
    """A molecule, and what it is asked at: the values of the conditions by their names."""

    smiles: str
    conditions: Mapping[str, Any]


class Known(NamedTuple):
    """A measurement that can be answered: the molecule as RDKit has it, and its conditions."""

    smiles: str
    molecule: Any
    conditions: list[float]


class MoleculeProperties(Predictor):
    """The property that a run was trained on, of molecules given as SMILES.

    An input is a SMILES, or a row with the SMILES and the conditions by the names of their columns
    in the training table.
    """

    data, task, input = MoleculeTable, Regression, "a molecule as SMILES"
    batch_size = 256

    def set_up(self) -> None:
        assert isinstance(self.recipe.data, MoleculeTable)
        self.table = self.recipe.data
        self.smiles, self.target = self.fitted.values["smiles"], self.fitted.values["target"]
        self.unit = {"unit": self.table.unit} if self.table.unit else {}
        logs = self.table.log_conditions
        self.names = tuple(dict.fromkeys((*self.table.conditions, *logs)))
        self.scales = {
            name: Scale.read(self.fitted.values[name])
            for name in ("conditions", "descriptors")
            if name in self.fitted.values
        }

    def columns(self) -> tuple[str, ...]:
        return (self.smiles, *self.names)

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """SMILES; a word such as ``T=300`` is a condition of all of them."""
        split = [(word, *word.partition("=")[::2]) for word in words]
        at = {name: value for _, name, value in split if name in self.names}
        for word, name, _ in split:
            if name not in self.names:
                yield Measurement(word, at)

    def from_row(self, row: Mapping[str, Any]) -> Measurement:
        return Measurement(row[self.smiles], {name: row[name] for name in self.names})

    def prepare(self, value: Any) -> Known:
        smiles, given = value if isinstance(value, Measurement) else (value, {})
        molecule = read_smiles(smiles)
        at = {name: self._condition(name, given.get(name), smiles) for name in self.names}
        logs = [math.log(at[name]) for name in self.table.log_conditions]
        return Known(smiles, molecule, [at[name] for name in self.table.conditions] + logs)

    def _condition(self, name: str, value: Any, smiles: str) -> float:
        positive = name in self.table.log_conditions
        found = as_number(str(value), ";")
        if math.isnan(found) or (positive and found <= 0):
            raise ArgumentError(
                name,
                expected=f"a number{' above 0' * positive} as condition of {smiles[:80]}",
                got="none" if value is None else repr(value),
                remedy=f"give it as a column {name!r} beside {self.smiles!r}, or as a word "
                f"{name}=VALUE",
            )
        return found

    def answer(self, examples: list[Known]) -> list[Answer]:
        molecules = {one.smiles: one.molecule for one in examples}
        index_of = {smiles: number for number, smiles in enumerate(molecules)}
        number = torch.tensor([index_of[one.smiles] for one in examples])
        measured = torch.tensor([one.conditions for one in examples], dtype=torch.double)
        if "conditions" in self.scales:
            measured = self.scales["conditions"].scaled(measured)
        described: Tensor | None = None
        if "descriptors" in self.scales:
            described = described_by(described_all(molecules.values()), self.scales["descriptors"])
        batch = self.table.inputs(packed(molecules.values()), number, measured, described)
        outputs = self.model(*batch.inputs, **batch.keywords)[:, 0].tolist()
        return [{self.target: value, **self.unit} for value in outputs]

    def show(self, value: Any) -> str:
        return str(value.smiles if isinstance(value, Measurement) else value)
