"""Molecules without labels, of which some atoms and bonds are hidden: what they are is the target.

The 12,000 molecules of ZINC, in its splits, with the features of a table of one's own, so that a
model that has learned from them can be trained on with such a table.

Paper: Hu et al., Strategies for pre-training graph neural networks, 2020
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Generator, Tensor

from edgewise.arguments import check_least
from edgewise.batches import Batch
from edgewise.data.codes import Codes
from edgewise.data.files import find_raw, not_published, unreadable
from edgewise.data.molecules.chem import ATOM_WIDTH, BOND_WIDTH, BONDS, ELEMENTS, parse
from edgewise.data.molecules.molecule_table import packed
from edgewise.data.molecules.zinc import NAME, PARTS
from edgewise.data.reading import read_text
from edgewise.data.sampled import SampledSplit
from edgewise.data.splits import Data, Split, Splits
from edgewise.errors import ArgumentError
from edgewise.ragged import ranges, starts

FILES = [f"{part}.csv" for part in PARTS]
ATOM_KINDS, BOND_KINDS = len(ELEMENTS) + 1, len(BONDS)  # one kind for all other elements


@dataclass(frozen=True)
class MaskedMolecules(Data):
    """A molecule an example; of a share of its atoms and bonds all features are 0.

    A model is called ``model(x, graph, batch=, edge_attr=)``, and with the codes of its encodings;
    it has an output ``[N, 12 + 4]`` for each atom. The first 12 are scores of the element, those of
    two atoms added up have in the last 4 the scores of the bond between them.

    Which are hidden is drawn anew in every epoch, and once to validate and to test.

    Attributes:
        share: of the atoms, and of the bonds, of each molecule that are hidden, rounded up.
        split_seed: which are hidden in validation and test.
        batch_size: molecules in a batch.

    """

    share: float = 0.15
    split_seed: int = 0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ArgumentError(
                "data.share",
                expected="above 0, and at most 1",
                got=repr(self.share),
                remedy="choose for example 0.15",
            )
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        molecules = [_read(raw / file) for file in FILES]
        codes = Codes(packed([one for part in molecules for one in part]))
        index = torch.arange(len(codes.graphs)).split([len(part) for part in molecules])
        train = index[0]

        def draw(which: Tensor, generator: Generator) -> Batch:
            distinct = train[which].unique()
            atoms, bonds = _counts(codes, distinct)
            hidden = (chosen(count, self.share, generator) for count in (atoms, bonds))
            return hide(codes, distinct, *hidden)

        sizes = {
            "in_width": ATOM_WIDTH,
            "out_width": ATOM_KINDS + BOND_KINDS,
            "edge_width": BOND_WIDTH,
        }
        return Splits(
            sizes,
            SampledSplit.of(draw, len(train), self.batch_size),
            self._fixed(codes, index[1], 2 * self.split_seed + 1),
            self._fixed(codes, index[2], 2 * self.split_seed + 2),
            self.batch_size,
            codes=codes,
        )

    def _fixed(self, codes: Codes, part: Tensor, seed: int) -> Split:
        """Molecules of which the same is always hidden, whatever else is in their batch."""
        counts, generator = _counts(codes, part), Generator().manual_seed(seed)
        hidden = [chosen(count, self.share, generator) for count in counts]

        def make(index: Tensor) -> Batch:
            index = index.unique()
            own = (
                every[ranges(starts(count)[index], count[index])]
                for every, count in zip(hidden, counts, strict=True)
            )
            return hide(codes, part[index], *own)

        return Split(len(part), make)


@dataclass(frozen=True)
class HiddenParts(Batch):
    """A :class:`Batch` of which bonds count as well: ``select`` counts them on after the atoms.

    Attributes:
        bonds: ``[2, M]``, both atoms of each hidden bond.

    """

    bonds: Tensor = field(default_factory=lambda: torch.empty(2, 0, dtype=torch.long))

    def to(self, device: torch.device) -> HiddenParts:
        """The same on another device."""
        moved = super().to(device)
        assert isinstance(moved, HiddenParts)
        return replace(moved, bonds=self.bonds.to(device))

    def counted(self, outputs: Tensor) -> Tensor:
        """Scores of all kinds: an atom is no kind of bond, nor a bond one of atoms."""
        is_atom = torch.arange(outputs.shape[-1], device=outputs.device) < ATOM_KINDS
        atoms = outputs.masked_fill(~is_atom, -torch.inf)
        bonds = outputs[self.bonds].sum(0).masked_fill(is_atom, -torch.inf)
        return super().counted(torch.cat([atoms, bonds]))


def hide(codes: Codes, which: Tensor, atoms: Tensor, bonds: Tensor) -> HiddenParts:
    """A batch of molecules in which some atoms and bonds are to be found.

    Args:
        codes: of all molecules, with their graphs.
        which: ``[B]``, numbers of those in the batch, in ascending order.
        atoms: ``[N]``, whether each of their atoms is hidden.
        bonds: ``[E / 2]``, whether each of their bonds is.

    """
    x, graph, members, edges = codes.graphs.take(which)
    both = bonds.repeat_interleave(2)  # a bond is two edges, one after the other
    elements, kinds = (
        of.argmax(1) for of in (x[atoms, :ATOM_KINDS], edges[::2][bonds, :BOND_KINDS])
    )
    keywords = {
        "batch": members,
        "edge_attr": edges.masked_fill(both[:, None], 0),
        **codes.take(which),
    }
    return HiddenParts(
        (x.masked_fill(atoms[:, None], 0), graph),
        torch.cat([elements, kinds + ATOM_KINDS]),
        torch.cat([atoms.nonzero()[:, 0], len(x) + torch.arange(len(kinds))]),
        keywords,
        bonds=graph.edge_index[:, ::2][:, bonds],
    )


def chosen(counts: Tensor, share: float, generator: Generator) -> Tensor:
    """Of each group's things ``share``, rounded up, at random: ``[counts.sum()]``, whether it is.

    Args:
        counts: ``[G]``, how many things each group has; they follow each other.
        share: from 0 to 1.
        generator: of the choice.

    """
    group = torch.arange(len(counts)).repeat_interleave(counts)
    # Sorted by their group, and within it by a random number.
    order = torch.rand(len(group), generator=generator, dtype=torch.double).argsort()
    order = order[group[order].argsort(stable=True)]
    rank = ranges(torch.zeros_like(counts), counts)
    found = torch.empty(len(group), dtype=torch.bool)
    found[order] = rank < (share * counts).ceil()[group]
    return found


def _counts(codes: Codes, which: Tensor) -> tuple[Tensor, Tensor]:
    """How many atoms and bonds each of these molecules has."""
    return codes.graphs.sizes[which], codes.graphs.edge_start.diff()[which] // 2


def _read(path: Path) -> list[object]:
    rows = list(csv.DictReader(read_text(path).splitlines()))
    molecules = [parse(row.get("smiles") or "") for row in rows]
    expected = "a column smiles of molecules that RDKit can read"
    if not rows:
        raise unreadable(path, expected=expected, got="no row")
    if None in molecules:
        wrong = molecules.index(None)
        got = repr(rows[wrong].get("smiles"))
        raise unreadable(path, expected=expected, got=got, line=wrong + 2)
    return molecules
