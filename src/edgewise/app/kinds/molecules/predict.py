"""Predictors for molecules: properties, and penalised logP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.rows import check_columns
from edgewise.app.files.table import as_number
from edgewise.app.kinds.molecules.chem import parse
from edgewise.app.kinds.molecules.data import MoleculeTable, described_all, described_by, packed
from edgewise.app.kinds.molecules.sdf import SMILES, is_sdf, read_sdf
from edgewise.app.kinds.molecules.zinc import ZINC, zinc_graph
from edgewise.app.predict.predictor import Answer, Predictor, check_unicode
from edgewise.app.predict.properties import Properties
from edgewise.app.train.batches import Batch
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.standardisation import Standardisation
from edgewise.app.train.tasks.regression import Regression
from edgewise.layers import shares_nodes


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
