"""Molecules with measured properties: any table with SMILES, and numbers or classes.

Papers: Weininger, SMILES, 1988; Bemis and Murcko, The properties of known drugs, 1996 (scaffolds);
Wu et al., MoleculeNet, 2018 (the splits).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_given, check_range, check_splits
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.dates import read_times
from edgewise.app.files.files import naming
from edgewise.app.files.frames import FrameSource, Source, open_source, take_frames
from edgewise.app.files.read_table import read_table
from edgewise.app.files.split_column import find_split_column, parts_of
from edgewise.app.files.table import Table, as_number
from edgewise.app.files.target_columns import TargetColumns, TaskType, missing_cells, target_names
from edgewise.app.files.targets import Target
from edgewise.app.kinds.molecules.chem import (
    canonical,
    descriptors,
    ions,
    is_smiles,
    largest_fragment,
    molecule_graph,
    parse,
    rdkit,
    scaffold,
)
from edgewise.app.kinds.molecules.sdf import is_sdf, read_sdf
from edgewise.app.train.batches import Batch
from edgewise.app.train.folds import Folds, How, Key, sample_labelled
from edgewise.app.train.forest import fit_forest
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.splits import Data, Split, Splits, TargetScale
from edgewise.app.train.standardisation import Standardisation

By = Literal["random", "molecule", "scaffold", "time"]
Fragments = Literal["all", "largest"]
Invalid = Literal["refuse", "skip"]
DATES = ("date", "year", "time", "timestamp")
LEAST = 1e-3  # Fractions are clipped to [LEAST, 1 - LEAST] before the scale of logits is computed.
FURTHEST = 4.0  # Descriptors are clipped to this number of standard deviations.
CONSTANT = 1e-6  # Standard deviation below which a descriptor is dropped.
SHOWN = 5  # Maximum number of rows that an error lists.
SEEN = 200  # Number of distinct texts that are parsed to recognise a column of SMILES.
# A column counts as SMILES if RDKit parses at least this fraction of its first SEEN distinct texts.
# The field `invalid` determines how other texts are treated.
READ = 0.8


@dataclass(frozen=True)
class MoleculeTable(Data):
    """Table of molecules with one or several targets and optional measurement conditions.

    A model is called as ``model(x, graph, batch=, edge_attr=, global_attr=, descriptors=)``: atom
    features, the graph of the bonds, the membership graph (its edges go from atoms to their
    molecule), bond features, conditions ``[B, C]`` and descriptors. Absent features are omitted.

    Attributes:
        path: table with a header, such as a CSV or Parquet file; a data frame; or an SDF file,
            whose properties are the columns.
        smiles: SMILES column; an ionic liquid, ``cation.anion``, is one graph. "" finds the column
            by its name, or takes the only column that RDKit can parse.
        target: columns to predict, such as ``logS`` or ``logS,active``. If there are several
            columns, a row may lack some of the values. "" takes the only remaining column of
            numbers or of few distinct texts.
        task_type: ``regression`` predicts numbers, ``classification`` classes; ``auto`` takes a
            column as classes if it has only 0 and 1, or at most 20 distinct texts that are not all
            numbers, and takes other columns as numbers.
        unit: unit of the numbers to predict, which predictions include.
        fraction: whether each target is a fraction from 0 to 1, such as a mole fraction. The
            network then predicts its logit, which for a dissolved gas is about linear in log
            pressure.
        conditions: columns such as temperature and pressure, concatenated to the vector of the
            molecule. They are standardised over the training set.
        log_conditions: columns whose logarithm is an additional condition.
        split: how rows are assigned to folds: ``random``; ``molecule`` or ``scaffold``
            (Bemis-Murcko) keeps all rows of a molecule or scaffold in one fold; ``time`` tests on
            the latest rows and validates on the latest of the other rows.
        date: column of dates or years, for a split by ``time``; "" finds one that is named date,
            year, time or timestamp.
        split_column: column with the words train, val and test (or usual synonyms, such as dev),
            used instead of folds. "" finds the only column named split, set, subset, partition or
            part that has train and test and no words other than these; "none" uses folds. If no
            row has val, the fraction ``data.val`` of the training rows is the validation set.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`.
        invalid: ``refuse`` raises an error for SMILES that RDKit cannot parse or that exceed a
            limit, and for rows without a target; ``skip`` drops these rows with a warning. Both
            name the first five.
        fragments: parts of a salt or mixture, ``A.B``, that are used: ``all`` as one graph, or the
            ``largest`` organic one. Charges are kept.
        bonds: whether the model receives bond features and conditions.
        descriptors: whether the model also gets RDKit descriptors of each molecule, of its cations
            and of the rest, standardised over the training molecules and clipped to ±4.
        forest: fit randomised trees to classes. The predictions are the average of the network and
            the trees, or one of them if its validation loss is clearly lower. A model with
            ``--from`` or class weights, and tables with a target of numbers, do not use trees.
        batch_size: rows per batch.
        epoch_rows: maximum number of rows sampled per epoch; 0 for all.
        labelled: number of training rows to use, a random sample with ``split_seed``; 0 for all.

    A run saves the scaling of conditions and descriptors, the column names, and the row numbers of
    the validation and test sets.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.molecules import MoleculeTable
        >>> smiles, mass = ["C" * n for n in range(1, 21)], [14 * n + 2 for n in range(1, 21)]
        >>> alkanes = pd.DataFrame({"smiles": smiles, "mass": mass})
        >>> splits = MoleculeTable(path=alkanes).load()
        >>> splits.train.count, splits.model_arguments["out_width"]
        (15, 1)
    """

    section = "Whole graphs and molecules"

    path: Source = ""
    smiles: str = ""
    target: str | tuple[str, ...] = ""
    task_type: TaskType = "auto"
    unit: str = ""
    fraction: bool = False
    conditions: tuple[str, ...] = ()
    log_conditions: tuple[str, ...] = ()
    split: By = "random"
    date: str = ""
    split_column: str = ""
    folds: int = 5
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    invalid: Invalid = "refuse"
    fragments: Fragments = "all"
    bonds: bool = True
    descriptors: bool = False
    forest: bool = False
    batch_size: int = 64
    epoch_rows: int = 0
    labelled: int = 0

    provides: ClassVar[tuple[str, ...]] = (
        "in_width",
        "out_width",
        "edge_width",
        "global_width",
        "descriptor_width",
    )

    def __post_init__(self) -> None:
        take_frames(self, "path")
        self._folds()
        choices = {"split": By, "invalid": Invalid, "task_type": TaskType, "fragments": Fragments}
        for name, kind in choices.items():
            check_choice(f"data.{name}", getattr(self, name), get_args(kind))
        if self.descriptors and not self.bonds:
            raise ArgumentError(
                "data.descriptors",
                expected="data.bonds=True whenever data.descriptors is set",
                got="data.bonds=False",
                remedy="set both data.bonds and data.descriptors, or neither",
            )
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)
        check_range("data.epoch_rows", self.epoch_rows, "choose 0 for all", least=0)
        check_range("data.labelled", self.labelled, "choose 0 for all", least=0)

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def source(self) -> Path | FrameSource:
        """Return the file, or the data frame."""
        return open_source(check_given("data.path", self.path, "a table of molecules"))

    def load(self) -> Splits:
        table = read_molecules(self.source())
        smiles = self._smiles_column(table)
        by_column = find_split_column(table, self.split_column)
        date = self._date_column(table)
        taken = {smiles, by_column, date, *self.conditions, *self.log_conditions}
        if not self.target:  # A column of splits is no target, even if it is not used.
            taken.add(find_split_column(table, ""))
        names = target_names(table, self.target, taken - {""}, _are_smiles)
        table, molecules = self._readable(table, smiles, names)
        index_of = {text: number for number, text in enumerate(molecules)}
        number = torch.tensor([index_of[text] for text in table.columns[smiles]])
        columns = TargetColumns(table, names, self.task_type)
        self._check_fractions(columns)
        measured = self._conditions(table)
        graphs = packed(molecules.values())
        with naming(table.path):
            how, keys = self._units(table, date, molecules, number)
            index = self._index(table, by_column, how, keys)
        sample = sample_labelled(len(index["train"]), self.labelled, self.split_seed, "rows")
        train = index["train"] = index["train"][sample]
        targets = columns.describe(columns.values[train], fraction=self.fraction)
        lines = torch.tensor(table.lines)
        preprocessing: dict[str, Any] = {
            "smiles": smiles,
            "val_lines": lines[index["val"]],
            "test_lines": lines[index["test"]],
        }
        if measured.shape[1]:
            scale = Standardisation.of(measured[train])
            preprocessing["conditions"] = scale.record()
            measured = scale.scaled(measured)
        described = None
        if self.descriptors:
            values = described_all(molecules.values())
            scale = Standardisation.of(values[number[train].unique()])
            described, preprocessing["descriptors"] = described_by(values, scale), scale.record()
        sizes = {
            "in_width": graphs.x.shape[1],
            "out_width": sum(target.width for target in targets),
        }
        if self.bonds:
            sizes |= {"edge_width": graphs.edges.shape[1], "global_width": measured.shape[1]}
        if described is not None:
            sizes["descriptor_width"] = described.shape[1]
        codes = PrecomputedEncodings(graphs)
        splits = {
            name: self._part(codes, number[i], measured[i], described, columns.values[i])
            for name, i in index.items()
        }
        if self.forest and all(target.classes for target in targets):
            trees = fit_forest(splits["train"], targets)
            preprocessing |= {f"forest.{name}": tensor for name, tensor in trees.items()}
        target_scale = self._target_scale(targets, columns.values[train])
        train_part = replace(
            splits["train"], target_scale=target_scale, draw=self.epoch_rows or None
        )
        return Splits(
            sizes,
            train_part,
            splits["val"],
            splits["test"],
            self.batch_size,
            preprocessing=preprocessing,
            codes=codes,
            targets=targets,
        )

    def inputs(
        self, graphs: PackedGraphs, number: Tensor, measured: Tensor, described: Tensor | None
    ) -> Batch:
        """Return the model inputs for a batch of table rows, as a batch without targets."""
        x, graph, members, bonds = graphs.take(number)
        keywords: dict[str, Any] = {"batch": members}
        if self.bonds:
            keywords["edge_attr"] = bonds
        if self.bonds and measured.shape[1]:
            keywords["global_attr"] = measured
        if described is not None:
            keywords["descriptors"] = described[number]
        return Batch((x, graph), torch.empty(len(number), 0), keywords=keywords)

    def _part(
        self,
        codes: PrecomputedEncodings,
        number: Tensor,
        measured: Tensor,
        described: Tensor | None,
        y: Tensor,
    ) -> Split:
        def make(index: Tensor) -> Batch:
            inputs = self.inputs(codes.graphs, number[index], measured[index], described)
            keywords = {**inputs.keywords, **codes.take(number[index])}
            return replace(inputs, target=y[index], keywords=keywords)

        return Split(len(y), make)

    def _target_scale(self, targets: Sequence[Target], y: Tensor) -> TargetScale | None:
        """Return the scale of each output for training targets with NaN for a missing value, or
        ``None``.
        """
        if not self.fraction:
            return TargetScale.of(targets)
        values_by_target = [values[~values.isnan()] for values in y.unbind(1)]
        logits = [values.clamp(LEAST, 1 - LEAST).logit() for values in values_by_target]
        # Fractions below LEAST may all have the same logit.
        stds = [float(target_logits.std(correction=0)) or 1.0 for target_logits in logits]
        return TargetScale(
            [float(target_logits.mean()) for target_logits in logits], stds, fraction=True
        )

    def _smiles_column(self, table: Table) -> str:
        candidates = [name for name, texts in table.columns.items() if _are_smiles(texts)]
        called = [name for name in table.columns if name.lower() == "smiles"]
        if len(called) == 1:
            candidates = called
        what = "the column of SMILES"
        return table.choose("data.smiles", self.smiles, candidates, what, of_words=True)

    def _check_fractions(self, columns: TargetColumns) -> None:
        """Raise ArgumentError if ``fraction`` is set and a target is not a number from 0 to 1."""
        for column, name in enumerate(columns.names if self.fraction else ()):
            y = columns.values[:, column]
            outside = ((y < 0) | (y > 1)).any()
            if outside or columns.classes[column]:
                kinds = f"the classes {', '.join(columns.classes[column])}"
                numbers = [float(value) for value in (y[~y.isnan()].min(), y[~y.isnan()].max())]
                raise ArgumentError(
                    "data.fraction",
                    expected=f"numbers from 0 to 1 in column {name!r}",
                    got=(kinds if columns.classes[column] else "{} to {}".format(*numbers))
                    + f" in {columns.table.path.name}",
                    remedy="set data.fraction to false, or name another data.target",
                )

    def _readable(
        self, table: Table, smiles: str, targets: Sequence[str]
    ) -> tuple[Table, dict[str, Any]]:
        """Return the rows with a valid SMILES and a value of a target, and the molecule of each
        SMILES.
        """
        texts = table.columns[smiles]
        parsed: dict[str, Any] = dict.fromkeys(texts)
        errors: dict[str, ArgumentError] = {}
        for text in parsed:
            try:
                parsed[text] = self.molecule(text)
            except ArgumentError as error:  # The molecule is above a limit.
                errors[text] = error
        wrong = [row for row, text in enumerate(texts) if parsed[text] is None]
        missing = [missing_cells(table, name, self.task_type) for name in targets]
        without = [row for row, cells in enumerate(zip(*missing, strict=True)) if all(cells)]
        usable_rows = sorted(set(range(len(table))) - {*wrong, *without})
        refuse = self.invalid == "refuse" or not usable_rows
        or_else = "drop these rows with --data.invalid skip"
        if wrong:
            cells = [
                f"row {table.line(row)}: {texts[row][:60]!r}"
                + (f" ({errors[texts[row]].expected})" if texts[row] in errors else "")
                for row in wrong[:SHOWN]
            ]
            got = f"{len(wrong)} that cannot be read ({_listed(cells, len(wrong), '; ')})"
            if refuse:
                limits = "".join(f"; {error.remedy}" for error in list(errors.values())[:1])
                if not usable_rows:
                    or_else = "name another column with --data.smiles"
                raise ArgumentError(
                    "data.smiles",
                    expected=f"molecules as SMILES in column {smiles!r} of {table.path.name}",
                    got=got,
                    remedy=f"correct these rows, or {or_else}{limits}",
                )
            warnings.warn(f"{table.path.name}: SMILES skipped: {got}", stacklevel=3)
        if without:
            cells = [str(table.line(row)) for row in without[:SHOWN]]
            got = f"{len(without)} without a value (row {_listed(cells, len(without), ', ')})"
            if refuse:
                if not usable_rows:
                    or_else = "name another column with --data.target"
                raise ArgumentError(
                    "data.target",
                    expected=f"a value in each row of column {' or '.join(map(repr, targets))} of "
                    f"{table.path.name}",
                    got=got,
                    remedy=f"fill in the values, or {or_else}",
                )
            warnings.warn(f"{table.path.name}: rows skipped: {got}", stacklevel=3)
        molecules = {text: molecule for text, molecule in parsed.items() if molecule is not None}
        table = table.only(usable_rows)
        return table, {text: molecules[text] for text in dict.fromkeys(table.columns[smiles])}

    def _conditions(self, table: Table) -> Tensor:
        plain = table.numbers("data.conditions", self.conditions)
        positive = table.numbers("data.log_conditions", self.log_conditions)
        if (positive <= 0).any():
            raise ArgumentError(
                "data.log_conditions",
                expected="numbers above 0",
                got=f"{float(positive.min())} in {table.path.name}",
                remedy="list a column with values of 0 or below in data.conditions instead",
            )
        return torch.cat([plain, positive.log()], dim=1)

    def molecule(self, smiles: str) -> Any | None:
        """Parse SMILES and choose the fragments; return ``None`` if RDKit cannot parse them."""
        molecule = parse(smiles)
        if molecule is None or self.fragments == "all":
            return molecule
        return largest_fragment(molecule)

    def _date_column(self, table: Table) -> str:
        """Return the column of dates for a split by time, or ""."""
        if self.split != "time":
            return ""
        usual = [name for name in table.frame.columns if name.lower() in DATES]
        return table.choose("data.date", self.date, usual, "the column of dates")

    def _units(
        self, table: Table, date: str, molecules: Mapping[str, Any], number: Tensor
    ) -> tuple[How, Sequence[Key]]:
        """Return how rows are split, and the key of each row: molecule, scaffold or time."""
        if date:
            return "time", read_times(table, "data.date", date)
        if self.split == "random":
            return "random", range(len(table))
        if self.split == "scaffold":
            keys = list(map(scaffold, molecules.values()))
        else:
            keys = [self.identity(text, molecule) for text, molecule in molecules.items()]
        return "group", [keys[i] for i in number.tolist()]

    def identity(self, smiles: str, molecule: Any) -> str:  # noqa: ARG002
        """Return a key for a split by molecule: the canonical SMILES, equal for all spellings."""
        return canonical(molecule)

    def _index(
        self, table: Table, by_column: str, how: How, keys: Sequence[Key]
    ) -> dict[str, Tensor]:
        """Return the indices of the rows of each split, by a column of the table or by folds."""
        if not by_column:
            return self._folds().split(how, keys)
        if self.fold:
            raise ArgumentError(
                "data.fold",
                expected=f"0, because column {by_column!r} defines the test split",
                got=str(self.fold),
                remedy="omit data.fold, or set data.split_column to none",
            )
        indices = parts_of(table, by_column)
        if not len(indices["val"]):
            train, val = self._folds().held_out(how, [keys[i] for i in indices["train"].tolist()])
            indices |= {"train": indices["train"][train], "val": indices["train"][val]}
        check_splits(**indices)
        return indices


def read_molecules(source: Path | FrameSource) -> Table:
    """Read a table or an SDF file of molecules."""
    if is_sdf(source):
        assert isinstance(source, Path)
        return read_sdf(source)
    return _named(read_table(source))


def _named(table: Table) -> Table:
    """Name the two columns of a table whose first row is a SMILES and a number, not a header."""
    names = list(table.columns)
    for smiles, target in (names, names[::-1]) if len(names) == 2 else ():
        if not math.isnan(as_number(target, table.delimiter)) and is_smiles(smiles):
            column_names = {smiles: "smiles", target: "target"}
            return table.without_header([column_names[name] for name in names])
    return table


def packed(molecules: Iterable[Any]) -> PackedGraphs:
    """Return the packed graphs of molecules."""
    return PackedGraphs.of(*map(list, zip(*map(molecule_graph, molecules), strict=True)))


def described_all(molecules: Iterable[Any]) -> Tensor:
    """Return descriptors ``[G, D]`` of molecules, of their cations and of their other fragments."""
    no_atoms, rows = descriptors(rdkit().Mol()), []
    for molecule in molecules:
        cations, rest = ions(molecule)
        values = descriptors(molecule)
        if cations.GetNumAtoms():
            rows.append([*values, *descriptors(cations), *descriptors(rest)])
        else:  # The other fragments are the whole molecule.
            rows.append([*values, *no_atoms, *values])
    return torch.tensor(rows, dtype=torch.double)


def described_by(values: Tensor, scale: Standardisation) -> Tensor:
    """Return the standardised and clipped descriptors ``[G, D]`` that vary in training."""
    return scale.scaled(values)[:, scale.std > CONSTANT].clamp(-FURTHEST, FURTHEST)


def _listed(cells: Sequence[str], count: int, separator: str) -> str:
    return separator.join([*cells, *["..."] * (count > len(cells))])


def _are_smiles(texts: Sequence[str]) -> bool:
    seen = list(dict.fromkeys(text for text in texts if text.strip()))[:SEEN]
    return bool(seen) and sum(map(is_smiles, seen)) >= READ * len(seen)
