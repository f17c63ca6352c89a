"""ZINC: 12,000 drug-like molecules and their penalised logP.

The task of the benchmark ZINC-12k, on other molecules: the benchmark's files are not redistributed
with a licence, and these 12,000 are derived from two files that are. 1,000 to validate and 1,000 to
test are the rows that the benchmark's own indices name in JT-VAE's ``valid.txt`` and ``test.txt``;
10,000 to train are the first others of ``valid.txt``, as the benchmark's are from a file that is
larger. Errors are of about the size of the published ones and not comparable with them.

Papers: Jin et al., Junction tree variational autoencoder, 2018 (the target); Dwivedi et al.,
Benchmarking graph neural networks, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.batches import Batch
from edgewise.data.codes import Codes
from edgewise.data.files import find_raw, not_published
from edgewise.data.molecules.chem import rdkit
from edgewise.data.packed import PackedGraphs
from edgewise.data.splits import Data, Split, Splits, TargetScale
from edgewise.errors import ArgumentError, require
from edgewise.ragged import boundaries

NAME = "ZINC_jtvae12k"
PARTS = ("train", "val", "test")
FILES = [f"{part}.npz" for part in PARTS]
KINDS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +"),
    *("N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +"),
    *("S H1 +", "C H1 -", "P H1 +"),
)
"""The kinds of atoms by their numbers: the element, the hydrogens that SMILES has to write beside
it (of a carbon those of a centre of chirality), and the charge."""
BOND_KINDS = ("SINGLE", "DOUBLE", "TRIPLE")
"""Aromatic rings are written with single and double bonds."""
ATOMS, BONDS = len(KINDS), len(BOND_KINDS)

LOGP = 2.4570953396190123, 1.434324401111988
SYNTHESIS = -3.0525811293166134, 0.8335207024513095
CYCLE = -0.0485696876403053, 0.2860212110245455
"""Mean and deviation of each part of the target over the 250,000 molecules of ZINC250k."""


@dataclass(frozen=True)
class ZINC(Data):
    """A molecule an example: kinds of atoms and bonds one-hot, and the penalised logP.

    A model is called ``model(x, graph, batch=, edge_attr=)``, and with the codes of its encodings.
    Atoms and bonds are as in the benchmark: no hydrogens, charges in the kind of the atom, no
    aromatic bonds, and nothing that RDKit knows beyond that.

    Attributes:
        bonds: whether the model is given the kinds of bonds.
        batch_size: molecules in a batch.
        train_rows: how many molecules are trained on, from the first; 0 for all 10,000.

    """

    bonds: bool = True
    batch_size: int = 64
    train_rows: int = 0

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")
        check_least("data.train_rows", self.train_rows, 0, "choose 0 for all")

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        read = [_read(raw / file) for file in FILES]
        graphs = _joined([graphs for graphs, _ in read])
        y = torch.cat([target for _, target in read])
        index = list(torch.arange(len(y)).split([len(target) for _, target in read]))
        index[0] = index[0][: self.train_rows or None]
        codes = Codes(graphs)
        train, val, test = (self._part(codes, which, y) for which in index)
        sizes = {"in_width": ATOMS, "out_width": 1, "edge_width": BONDS if self.bonds else 0}
        return Splits(sizes, train, val, test, self.batch_size, codes=codes)

    def inputs(self, graphs: PackedGraphs, which: Tensor) -> Batch:
        """What a model is given of some of the graphs, ``[B]``, but for their targets."""
        x, graph, members, bonds = graphs.take(which)
        keywords: dict[str, Any] = {"batch": members}
        if self.bonds:
            keywords["edge_attr"] = one_hot(bonds[:, 0], BONDS)
        empty = torch.empty(len(which), 0)
        return Batch((one_hot(x[:, 0], ATOMS), graph), empty, keywords=keywords)

    def _part(self, codes: Codes, which: Tensor, y: Tensor) -> Split:
        def make(index: Tensor) -> Batch:
            given = self.inputs(codes.graphs, which[index])
            keywords = {**given.keywords, **codes.take(which[index])}
            return replace(given, target=y[which[index], None], keywords=keywords)

        own = y[which]
        return Split(len(which), make, TargetScale(float(own.mean()), float(own.std())))


def one_hot(kinds: Tensor, count: int) -> Tensor:
    """``[N, count]`` from numbers of kinds, from 0."""
    return F.one_hot(kinds.long(), count).float()


def penalised_logp(molecule: Any) -> float:
    r"""The target: logP, less the difficulty of synthesis, less the longest ring beyond six atoms.

    .. math:: y = z(\log P) + z(-SA) + z(-\max(0, \text{longest ring} - 6))

    where z standardises by the mean and deviation over ZINC250k. The longest ring is of a basis of
    cycles (networkx), which is not the only one: of one molecule in sixteen another basis gives
    another number.

    Args:
        molecule: RDKit's.

    Raises:
        MissingExtraError: RDKit or networkx is not installed.

    """
    chem = rdkit()
    require("networkx", extra="graphs", purpose="the longest ring of a molecule")
    import networkx as nx
    from rdkit.Chem import Crippen
    from rdkit.Contrib.SA_Score import sascorer  # type: ignore[import-untyped]

    logp: Any = Crippen.MolLogP  # type: ignore[attr-defined]
    rings = nx.cycle_basis(nx.Graph(chem.GetAdjacencyMatrix(molecule)))
    beyond = max((len(ring) for ring in rings), default=0) - 6
    parts = logp(molecule), -sascorer.calculateScore(molecule), -max(0, beyond)
    scaled = zip(parts, (LOGP, SYNTHESIS, CYCLE), strict=True)
    return math.fsum((value - mean) / std for value, (mean, std) in scaled)


def molecule_graph(molecule: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Kinds of atoms ``[n, 1]``, edges ``[2, 2·bonds]`` and kinds of bonds ``[2·bonds, 1]``.

    Args:
        molecule: RDKit's, with the hydrogens that SMILES has to write as its explicit ones.

    Raises:
        ArgumentError: an atom or a bond that no molecule of the data has.

    """
    chem = rdkit()
    # Written and read again, it has no hydrogens in brackets where none are needed.
    molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule, canonical=False))
    chem.Kekulize(molecule, clearAromaticFlags=True)
    atoms = [_known("atom", _kind(atom), KINDS) for atom in molecule.GetAtoms()]
    ends: list[tuple[int, int]] = []
    bonds: list[int] = []
    for bond in molecule.GetBonds():
        one, other = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(one, other), (other, one)]
        bonds += [_known("bond", str(bond.GetBondType()), BOND_KINDS)] * 2
    edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T.contiguous()
    kinds = torch.tensor(atoms).byte(), torch.tensor(bonds).byte()
    return kinds[0][:, None], edge_index, kinds[1][:, None]


def _kind(atom: Any) -> str:
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    written = f" H{hydrogens}" * bool(hydrogens)
    return f"{atom.GetSymbol()}{written}{' +' * max(charge, 0)}{' -' * max(-charge, 0)}"


def _known(what: str, kind: str, known: Sequence[str]) -> int:
    if kind not in known:
        raise ArgumentError(
            "input",
            expected=f"a molecule of the kinds of {what}s in ZINC: {', '.join(known)}",
            got=kind,
            remedy="leave it out; the model has never seen one",
        )
    return known.index(kind)


def _read(path: Path) -> tuple[PackedGraphs, Tensor]:
    """Return the graphs of a file, with atom and bond types counted from 0, and their targets."""
    with np.load(path, allow_pickle=False) as file:
        found = {name: torch.from_numpy(file[name]) for name in file}
    graphs = PackedGraphs(
        found["x"][:, None],
        found["edge_index"].long(),
        found["edge_attr"][:, None] - 1,
        found["node_ptr"].long(),
        found["edge_ptr"].long(),
    )
    return graphs, found["y"]


def _joined(parts: list[PackedGraphs]) -> PackedGraphs:
    node_sizes = torch.cat([part.sizes for part in parts])
    degrees = torch.cat([part.edge_start.diff() for part in parts])
    return PackedGraphs(
        torch.cat([part.x for part in parts]),
        torch.cat([part.edge_index for part in parts], dim=1),
        torch.cat([part.edges for part in parts]),
        boundaries(node_sizes),
        boundaries(degrees),
    )
