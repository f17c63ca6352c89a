"""Molecules with a measured property: any table with a column of SMILES and one of numbers.

Papers: Weininger, SMILES, 1988; Bemis and Murcko, The properties of known drugs, 1996 (scaffolds);
Wu et al., MoleculeNet, 2018 (the splits).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice, check_least
from edgewise.batches import Batch
from edgewise.data.files import naming
from edgewise.data.folds import Folds, How
from edgewise.data.molecules.chem import descriptors, ions, molecule_graph, parse, scaffold
from edgewise.data.packed import PackedGraphs
from edgewise.data.splits import Data, Split, Splits, TargetScale
from edgewise.data.table import Table, read_table
from edgewise.errors import ArgumentError

By = Literal["random", "molecule", "scaffold"]
Invalid = Literal["refuse", "skip"]
FURTHEST = 4.0  # descriptors are clipped to so many standard deviations
LEAST = 1e-3  # fractions nearer to 0 or 1 count as this in the mean and spread of the logits


@dataclass(frozen=True)
class MoleculeTable(Data):
    """A molecule a row, a number to predict, and what the measurement was made at.

    A model is called ``model(x, graph, batch=, edge_attr=, global_attr=, descriptors=)``: atom
    features, the graph of the bonds, the graph of membership (output b reads the atoms of its
    molecule), bond features, conditions ``[B, C]`` and descriptors, those that there are.

    Attributes:
        path: a ``.csv`` or ``.csv.gz`` file whose first row names the columns.
        smiles: the column of the molecules; an ionic liquid, ``cation.anion``, is one graph.
        target: the column to predict, in its own unit.
        fraction: whether the target is one, from 0 to 1, such as a mole fraction: the network then
            predicts its logit, which for a gas that dissolves is about linear in log pressure.
        conditions: columns such as temperature and pressure, joined to the molecule's vector. They
            are scaled to mean 0 and variance 1 over the training split.
        log_conditions: columns whose logarithm is given too.
        split: how folds are dealt: rows at ``random``; each ``molecule`` or each Murcko
            ``scaffold`` wholly in one fold.
        folds, fold, val, split_seed: see :class:`~edgewise.data.folds.Folds`.
        invalid: a SMILES that RDKit cannot read: ``refuse`` the file, or ``skip`` its row with a
            warning; both name the row.
        bonds: whether the model is given bond features and conditions.
        descriptors: whether it is given, after these, RDKit's descriptors of each molecule, of its
            cations and of the rest of it, scaled to mean 0 and variance 1 over the training
            molecules and cut off at ±4.
        batch_size: rows in a batch.

    """

    path: str = ""
    smiles: str = "smiles"
    target: str = "target"
    fraction: bool = False
    conditions: tuple[str, ...] = ()
    log_conditions: tuple[str, ...] = ()
    split: By = "random"
    folds: int = 5
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    invalid: Invalid = "refuse"
    bonds: bool = True
    descriptors: bool = False
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = (
        "in_width",
        "out_width",
        "edge_width",
        "global_width",
        "descriptor_width",
    )

    def __post_init__(self) -> None:
        self._folds()
        for name, kind in (("split", By), ("invalid", Invalid)):
            check_choice(f"data.{name}", getattr(self, name), get_args(kind))
        if self.descriptors and not self.bonds:
            raise ArgumentError(
                "data.descriptors",
                expected="data.bonds beside it",
                got="data.bonds=False",
                remedy="set both, or neither",
            )
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def source(self) -> Path:
        """The file."""
        return Path(self.path).expanduser()

    def load(self) -> Splits:
        table = read_table(self.source())
        names, molecules, number, rows = self._molecules(table)
        y = table.numbers("data.target", [self.target])[rows, 0]
        if self.fraction and not ((y >= 0) & (y <= 1)).all():
            raise ArgumentError(
                "data.fraction",
                expected=f"numbers from 0 to 1 in column {self.target!r}",
                got=f"{float(y.min())} to {float(y.max())} in {table.path.name}",
                remedy="set it to false, or name another data.target",
            )
        measured = self._conditions(table)[rows]
        graphs = PackedGraphs.of(*map(list, zip(*map(molecule_graph, molecules), strict=True)))
        with naming(table.path):
            index = self._folds().split(*self._keys(names, molecules, number))
        train = index["train"]
        if measured.shape[1]:
            std = measured[train].std(0, correction=0).clamp(min=1e-12)
            measured = (measured - measured[train].mean(0)) / std
        described = _described(molecules, number[train].unique()) if self.descriptors else None
        sizes = {"in_width": graphs.x.shape[1], "out_width": 1}
        if self.bonds:
            sizes |= {"edge_width": graphs.edges.shape[1], "global_width": measured.shape[1]}
        if described is not None:
            sizes["descriptor_width"] = described.shape[1]
        parts = {
            name: self._part(graphs, number[i], measured[i], described, y[i])
            for name, i in index.items()
        }
        return Splits(
            sizes, parts["train"], parts["val"], parts["test"], batch_size=self.batch_size
        )

    def _part(
        self,
        graphs: PackedGraphs,
        number: Tensor,
        measured: Tensor,
        described: Tensor | None,
        y: Tensor,
    ) -> Split:
        def make(index: Tensor) -> Batch:
            x, graph, members, bonds = graphs.take(number[index])
            keywords: dict[str, Any] = {"batch": members}
            if self.bonds:
                keywords["edge_attr"] = bonds
            if self.bonds and measured.shape[1]:
                keywords["global_attr"] = measured[index]
            if described is not None:
                keywords["descriptors"] = described[number[index]]
            return Batch((x, graph), y[index, None], keywords=keywords)

        seen = y.clamp(LEAST, 1 - LEAST).logit() if self.fraction else y
        std = float(seen.std(correction=0).clamp(min=1e-12))
        return Split(len(y), make, TargetScale(float(seen.mean()), std, self.fraction))

    def _molecules(self, table: Table) -> tuple[list[str], list[Any], Tensor, Tensor]:
        """Distinct SMILES, their molecules, the molecule of each row that is kept, and the rows."""
        texts = table.texts("data.smiles", self.smiles)
        parsed = {text: parse(text) for text in dict.fromkeys(texts)}
        wrong = [row for row, text in enumerate(texts) if parsed[text] is None]
        if wrong:
            self._report(table, texts, wrong)
        kept = [text for text in parsed if parsed[text] is not None]
        index_of = {text: number for number, text in enumerate(kept)}
        rows = [row for row, text in enumerate(texts) if text in index_of]
        number = torch.tensor([index_of[texts[row]] for row in rows], dtype=torch.long)
        return kept, [parsed[text] for text in kept], number, torch.tensor(rows, dtype=torch.long)

    def _report(self, table: Table, texts: Sequence[str], wrong: list[int]) -> None:
        shown = "; ".join(f"row {table.line(row)}: {texts[row]!r}" for row in wrong[:5])
        got = f"{len(wrong)} that cannot be read ({shown}{'; ...' if len(wrong) > 5 else ''})"
        if self.invalid == "skip" and len(wrong) < len(texts):
            warnings.warn(f"{table.path.name}: SMILES skipped: {got}", stacklevel=3)
            return
        raise ArgumentError(
            "data.smiles",
            expected=f"molecules as SMILES in column {self.smiles!r} of {table.path.name}",
            got=got,
            remedy="correct these rows, or leave them out with data.invalid='skip'",
        )

    def _conditions(self, table: Table) -> Tensor:
        plain = table.numbers("data.conditions", self.conditions)
        positive = table.numbers("data.log_conditions", self.log_conditions)
        if (positive <= 0).any():
            raise ArgumentError(
                "data.log_conditions",
                expected="numbers above 0",
                got=f"{float(positive.min())} in {table.path.name}",
                remedy="give these columns as data.conditions only",
            )
        return torch.cat([plain, positive.log()], dim=1)

    def _keys(
        self, names: list[str], molecules: list[Any], number: Tensor
    ) -> tuple[How, list[str]]:
        """How to deal the rows, and the group of each."""
        group = [scaffold(m) for m in molecules] if self.split == "scaffold" else names
        how: How = "random" if self.split == "random" else "group"
        return how, [group[i] for i in number.tolist()]


def _described(molecules: Sequence[Any], known: Tensor) -> Tensor:
    """``[G, D]``, the descriptors that differ among the known molecules, scaled by these."""
    rows = [
        [value for part in (one, *ions(one)) for value in descriptors(part)] for one in molecules
    ]
    values = torch.tensor(rows, dtype=torch.double)
    mean, std = values[known].mean(0), values[known].std(0, correction=0)
    scaled = ((values - mean) / std.clamp(min=1e-12)).clamp(-FURTHEST, FURTHEST)
    return scaled[:, std > 1e-6].float()
