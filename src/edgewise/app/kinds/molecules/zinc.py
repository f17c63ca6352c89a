"""ZINC: penalised logP of 12,000 drug-like molecules.

The task is the task of the benchmark ZINC-12k, but most molecules differ, because the files of the
benchmark have no licence for redistribution. The 1,000 validation and 1,000 test molecules are the
rows of JT-VAE's ``valid.txt`` and ``test.txt`` with the indices of the benchmark. The 10,000
training molecules are the first other rows of ``valid.txt``. Errors are close to published ones,
but not comparable with them.

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

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.ragged import boundaries
from edgewise.app.files.files import find_raw, not_published
from edgewise.app.kinds.molecules.chem import bond_edges, rdkit
from edgewise.app.train.batches import Batch
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.app.train.splits import Data, Split, Splits, TargetScale

NAME = "ZINC_jtvae12k"
PARTS = ("train", "val", "test")
FILES = [f"{part}.npz" for part in PARTS]
KINDS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +"),
    *("N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +"),
    *("S H1 +", "C H1 -", "P H1 +"),
)
"""Atom types by index: element, explicit hydrogens in SMILES (such as on a chiral carbon), and
charge."""
BOND_KINDS = ("SINGLE", "DOUBLE", "TRIPLE")
"""Bond types by index; aromatic rings are kekulised."""
ATOMS, BONDS = len(KINDS), len(BOND_KINDS)

LOGP = 2.4570953396190123, 1.434324401111988
SYNTHESIS = -3.0525811293166134, 0.8335207024513095
CYCLE = -0.0485696876403053, 0.2860212110245455
"""Mean and standard deviation of each term of the target over the molecules of ZINC250k."""


@dataclass(frozen=True)
class ZINC(Data):
    """Molecules with one-hot atom and bond types, and the penalised logP as target.

    A model is called as ``model(x, graph, batch=, edge_attr=)`` plus its precomputed encodings.
    Features are those of the benchmark: no hydrogens, charges as part of the atom type, kekulised
    bonds, and no other features.

    Attributes:
        bonds: whether to include bond types as edge features.
        batch_size: molecules per batch.
        train_rows: number of training molecules, from the first; 0 for all 10,000.
    """

    folders = (NAME,)
    section = "Whole graphs and molecules"

    bonds: bool = True
    batch_size: int = 64
    train_rows: int = 0

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)
        check_range("data.train_rows", self.train_rows, "choose 0 for all", least=0)

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        read = [_read(raw / file) for file in FILES]
        graphs = _joined([graphs for graphs, _ in read])
        y = torch.cat([target for _, target in read])
        index = list(torch.arange(len(y)).split([len(target) for _, target in read]))
        index[0] = index[0][: self.train_rows or None]
        codes = PrecomputedEncodings(graphs)
        train, val, test = (self._part(codes, which, y) for which in index)
        sizes = {"in_width": ATOMS, "out_width": 1, "edge_width": BONDS if self.bonds else 0}
        return Splits(sizes, train, val, test, self.batch_size, codes=codes)

    def inputs(self, graphs: PackedGraphs, which: Tensor) -> Batch:
        """Return the inputs for a batch of graphs, as a batch without targets."""
        x, graph, members, bonds = graphs.take(which)
        keywords: dict[str, Any] = {"batch": members}
        if self.bonds:
            keywords["edge_attr"] = one_hot(bonds[:, 0], BONDS)
        empty = torch.empty(len(which), 0)
        return Batch((one_hot(x[:, 0], ATOMS), graph), empty, keywords=keywords)

    def _part(self, codes: PrecomputedEncodings, which: Tensor, y: Tensor) -> Split:
        def make(index: Tensor) -> Batch:
            inputs = self.inputs(codes.graphs, which[index])
            keywords = {**inputs.keywords, **codes.take(which[index])}
            return replace(inputs, target=y[which[index], None], keywords=keywords)

        targets = y[which]
        return Split(len(which), make, TargetScale(float(targets.mean()), float(targets.std())))


def one_hot(kinds: Tensor, count: int) -> Tensor:
    """Encode type indices ``[N]`` from 0 to ``count - 1`` one-hot, as ``[N, count]``."""
    return F.one_hot(kinds.long(), count).float()


def penalised_logp(molecule: Any) -> float:
    r"""Return logP minus synthetic accessibility minus a penalty for large rings, standardised.

    .. math:: y = z(\log P) + z(-SA) + z(-\max(0, \text{longest ring} - 6))

    For one molecule in sixteen, another cycle basis than that of networkx gives another value.
    """
    chem = rdkit()
    require("networkx", extra="graphs", purpose="the longest ring of a molecule")
    import networkx as nx
    from rdkit.Chem import Crippen
    from rdkit.Contrib.SA_Score import sascorer  # type: ignore[import-untyped]

    logp: Any = Crippen.MolLogP  # type: ignore[attr-defined]
    rings = nx.cycle_basis(nx.Graph(chem.GetAdjacencyMatrix(molecule)))
    beyond = max((len(ring) for ring in rings), default=0) - 6
    terms = logp(molecule), -sascorer.calculateScore(molecule), -max(0, beyond)
    scaled = zip(terms, (LOGP, SYNTHESIS, CYCLE), strict=True)
    return math.fsum((value - mean) / std for value, (mean, std) in scaled)


def zinc_graph(molecule: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return atom types ``[n, 1]``, edges ``[2, 2·bonds]`` and bond types ``[2·bonds, 1]``."""
    chem = rdkit()
    # The round trip through SMILES removes explicit hydrogens that are not needed.
    molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule, canonical=False))
    chem.Kekulize(molecule, clearAromaticFlags=True)
    atoms = [_kind_index("atom", _kind(atom), KINDS) for atom in molecule.GetAtoms()]
    bonds = [
        _kind_index("bond", str(bond.GetBondType()), BOND_KINDS) for bond in molecule.GetBonds()
    ]
    bond_kinds = torch.tensor(bonds, dtype=torch.uint8)[:, None].repeat_interleave(2, 0)
    return torch.tensor(atoms).byte()[:, None], bond_edges(molecule), bond_kinds


def _kind(atom: Any) -> str:
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    written = f" H{hydrogens}" * bool(hydrogens)
    return f"{atom.GetSymbol()}{written}{' +' * max(charge, 0)}{' -' * max(-charge, 0)}"


def _kind_index(what: str, kind: str, kinds: Sequence[str]) -> int:
    if kind not in kinds:
        raise ArgumentError(
            "input",
            expected=f"a molecule with the {what} types of ZINC: {', '.join(kinds)}",
            got=f"the {what} type {kind}",
            remedy=f"remove this molecule, because no training molecule has this {what} type",
        )
    return kinds.index(kind)


def _read(path: Path) -> tuple[PackedGraphs, Tensor]:
    """Return the graphs of a file, with atom and bond types counted from 0, and their targets."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file}
    graphs = PackedGraphs(
        arrays["x"][:, None],
        arrays["edge_index"].long(),
        arrays["edge_attr"][:, None] - 1,
        arrays["node_ptr"].long(),
        arrays["edge_ptr"].long(),
    )
    return graphs, arrays["y"]


def _joined(splits: list[PackedGraphs]) -> PackedGraphs:
    node_sizes = torch.cat([graphs.sizes for graphs in splits])
    degrees = torch.cat([graphs.edge_start.diff() for graphs in splits])
    return PackedGraphs(
        torch.cat([graphs.x for graphs in splits]),
        torch.cat([graphs.edge_index for graphs in splits], dim=1),
        torch.cat([graphs.edges for graphs in splits]),
        boundaries(node_sizes),
        boundaries(degrees),
    )
