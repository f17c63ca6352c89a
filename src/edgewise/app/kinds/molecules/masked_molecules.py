"""Self-supervised pre-training on the molecules of ZINC: prediction of masked atoms and bonds.

Paper: Hu et al., Strategies for pre-training graph neural networks, 2020
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.ragged import chosen, ranges, starts
from edgewise.app.files.files import find_raw, not_published
from edgewise.app.files.read_table import read_table
from edgewise.app.kinds.molecules.chem import ATOM_WIDTH, BOND_WIDTH, BONDS, ELEMENTS, parse
from edgewise.app.kinds.molecules.data import packed
from edgewise.app.kinds.molecules.zinc import NAME, PARTS
from edgewise.app.train.batches import Batch
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits

FILES = [f"{part}.csv" for part in PARTS]
ATOM_KINDS, BOND_KINDS = len(ELEMENTS) + 1, len(BONDS)  # One class for all other elements.


@dataclass(frozen=True)
class MaskedMolecules(Data):
    """Molecules with the features of some atoms and bonds set to 0.

    A model is called as ``model(x, graph, batch=, edge_attr=)`` plus its precomputed encodings, and
    returns ``[N, 12 + 4]``. The first 12 columns are the scores of the element of an atom. The sum
    of the last 4 columns over two atoms gives the scores of the type of their bond.

    Masks are sampled anew in every epoch of training, and once for validation and test.

    Attributes:
        mask_fraction: fraction of the atoms and of the bonds of each molecule to mask, rounded up.
        split_seed: random seed of the masks of validation and test.
        batch_size: molecules per batch.
    """

    folders = (NAME,)
    section = "Whole graphs and molecules"

    mask_fraction: float = 0.15
    split_seed: int = 0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        remedy = "choose for example 0.15"
        check_range("data.mask_fraction", self.mask_fraction, remedy, above=0, most=1)
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        molecules = [list(map(parse, read_table(raw / file).columns["smiles"])) for file in FILES]
        codes = PrecomputedEncodings(
            packed([molecule for split in molecules for molecule in split])
        )
        index = torch.arange(len(codes.graphs)).split([len(split) for split in molecules])
        train = index[0]

        def draw(which: Tensor, generator: Generator) -> Batch:
            distinct = train[which].unique()
            atoms, bonds = _counts(codes, distinct)
            hidden = (chosen(count, self.mask_fraction, generator) for count in (atoms, bonds))
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

    def _fixed(self, codes: PrecomputedEncodings, molecules: Tensor, seed: int) -> Split:
        """Return a split whose masks are sampled once, and do not depend on the batches."""
        counts, generator = _counts(codes, molecules), Generator().manual_seed(seed)
        hidden = [chosen(count, self.mask_fraction, generator) for count in counts]

        def make(index: Tensor) -> Batch:
            index = index.unique()
            masks = (
                every[ranges(starts(count)[index], count[index])]
                for every, count in zip(hidden, counts, strict=True)
            )
            return hide(codes, molecules[index], *masks)

        return Split(len(molecules), make)


@dataclass(frozen=True)
class HiddenParts(Batch):
    """Batch of molecules with masked atoms and masked bonds, whose two atoms are ``bonds [2, M]``.
    ``select`` has the indices of the masked atoms, then N, N + 1, ... for the masked bonds, where N
    is the number of atoms in the batch.
    """

    bonds: Tensor = field(default_factory=lambda: torch.empty(2, 0, dtype=torch.long))

    def to(self, device: torch.device) -> HiddenParts:
        """Return a copy of the batch on another device."""
        moved = super().to(device)
        assert isinstance(moved, HiddenParts)
        return replace(moved, bonds=self.bonds.to(device))

    def select_outputs(self, outputs: Tensor) -> Tensor:
        """Return the scores of the masked atoms, then of the masked bonds, from outputs ``[N, 12 +
        4]``. For an atom, the columns of bond types are -inf; for a bond, those of elements.
        """
        is_atom = torch.arange(outputs.shape[-1], device=outputs.device) < ATOM_KINDS
        atoms = outputs.masked_fill(~is_atom, -torch.inf)
        bonds = outputs[self.bonds].sum(0).masked_fill(is_atom, -torch.inf)
        return super().select_outputs(torch.cat([atoms, bonds]))


def hide(codes: PrecomputedEncodings, which: Tensor, atoms: Tensor, bonds: Tensor) -> HiddenParts:
    """Return a batch of the molecules ``which``, ascending, with masks of their atoms ``[N]`` and
    bonds ``[E / 2]``; True hides.
    """
    x, graph, members, edges = codes.graphs.take(which)
    both = bonds.repeat_interleave(2)  # A bond is two consecutive edges.
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


def _counts(codes: PrecomputedEncodings, which: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of atoms and of bonds of the molecules ``which``; all are ``[B]``."""
    return codes.graphs.sizes[which], codes.graphs.edge_start.diff()[which] // 2
