"""What of molecules is hidden, that it cannot be seen, and that it is what is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import MaskedMolecules, zinc
from edgewise.app.kinds.molecules import masked_baseline as masked_molecules
from edgewise.app.kinds.molecules.chem import molecule_graph, parse
from edgewise.app.kinds.molecules.masked_molecules import ATOM_KINDS, HiddenParts
from tests.errors import refused
from tests.unlabelled import SMILES, write_molecules

pytest.importorskip("rdkit")


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    monkeypatch.delitem(SHA256, zinc.NAME)
    return write_molecules(tmp_path)


def first_batch(part: str, share: float = 0.3) -> HiddenParts:
    splits = MaskedMolecules(mask_fraction=share, batch_size=len(SMILES)).load()
    batch = next(iter(splits.loaders(0)[part]))
    assert isinstance(batch, HiddenParts)
    return batch


@pytest.mark.usefixtures("raw")
def test_the_baseline_sees_what_is_around_hidden_atoms_and_bonds() -> None:
    pytest.importorskip("sklearn")
    batch = first_batch("test")
    x, graph = batch.inputs
    edges = batch.keywords["edge_attr"]

    def near(node: int) -> torch.Tensor:
        bonds = [i for i, end in enumerate(graph.edge_index[1].tolist()) if end == node]
        rows = torch.cat([x[graph.edge_index[0][bonds]], edges[bonds]], dim=1).sum(0)
        return torch.cat(
            [x[node], rows[x.shape[1] :], torch.tensor([len(bonds)]), rows[: x.shape[1]]]
        )

    atoms, bonds = masked_molecules.described(batch)
    assert batch.select is not None
    for node, row in zip(batch.select.tolist(), atoms, strict=False):
        neighbours = graph.edge_index[0][graph.edge_index[1] == node].tolist()
        wanted = torch.cat([near(node), sum(map(near, neighbours), torch.zeros(len(near(0))))])
        assert row.tolist() == wanted.tolist()
    for (first, second), row in zip(batch.bonds.T.tolist(), bonds, strict=True):
        a, b = near(first), near(second)
        assert row.tolist() == torch.cat([a + b, (a - b).abs()]).tolist()


@pytest.mark.usefixtures("raw")
def test_the_baseline_fits_its_training_molecules() -> None:
    pytest.importorskip("sklearn")
    splits = MaskedMolecules(mask_fraction=0.3).load()
    batch = splits.train.make(torch.arange(splits.train.count))
    score = next(masked_molecules.candidates(find("masked-molecules"), splits)).fit()
    assert (score(batch).argmax(1) == batch.target).float().mean() > 0.9


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_what_is_hidden_is_what_is_asked(part: str) -> None:
    batch = first_batch(part)
    x, graph = batch.inputs
    edges = batch.keywords["edge_attr"]
    whole = [molecule_graph(parse(text)) for text in SMILES]
    atoms, bonds = (torch.cat([one[i] for one in whole]) for i in (0, 2))
    assert batch.select is not None
    hidden = torch.zeros(len(x), dtype=torch.bool)
    own = batch.select[batch.select < len(x)]
    assert batch.select[len(own) :].tolist() == [len(x) + i for i in range(batch.bonds.shape[1])]
    hidden[own] = True
    assert not x[hidden].any()
    assert torch.equal(x[~hidden], atoms[~hidden])
    ends = set(map(tuple, batch.bonds.T.tolist()))
    both = ends | {(target, source) for source, target in ends}
    covered = torch.tensor([tuple(pair) in both for pair in graph.edge_index.T.tolist()])
    assert not edges[covered].any()
    assert torch.equal(edges[~covered], bonds[~covered])

    sizes = torch.tensor([len(one[0]) for one in whole])
    asked = torch.bincount(torch.arange(len(sizes)).repeat_interleave(sizes)[hidden])
    assert asked.tolist() == (0.3 * sizes).ceil().long().tolist()
    elements = atoms[own, :ATOM_KINDS].argmax(1)
    assert batch.target[: len(elements)].tolist() == elements.tolist()
    kinds = {
        tuple(end): int(of[:4].argmax())
        for end, of in zip(graph.edge_index.T.tolist(), bonds, strict=True)
    }
    expected = [ATOM_KINDS + kinds[end] for end in map(tuple, batch.bonds.T.tolist())]
    assert batch.target[len(elements) :].tolist() == expected


@pytest.mark.usefixtures("raw")
def test_an_atom_is_scored_by_its_own_output_and_a_bond_by_both_ends() -> None:
    batch = first_batch("val")
    assert batch.select is not None
    out = torch.randn(len(batch.inputs[0]), ATOM_KINDS + 4)
    scores = batch.select_outputs(out)
    n = len(batch.select) - batch.bonds.shape[1]
    assert torch.equal(scores[:n, :ATOM_KINDS], out[batch.select[:n], :ATOM_KINDS])
    source, target = batch.bonds
    assert torch.equal(scores[n:, ATOM_KINDS:], (out[source] + out[target])[:, ATOM_KINDS:])
    assert (scores[:n, ATOM_KINDS:] == -torch.inf).all()
    assert (scores[n:, :ATOM_KINDS] == -torch.inf).all()
    nothing = replace(batch, target=batch.target[:0], select=batch.select[:0])
    assert nothing.select_outputs(out).shape == (0, ATOM_KINDS + 4)  # of a process without examples


@pytest.mark.usefixtures("raw")
def test_tests_hide_the_same_whatever_else_is_in_the_batch_and_training_other_parts() -> None:
    splits = MaskedMolecules(mask_fraction=0.5).load()
    every = splits.test.make(torch.arange(len(SMILES)))
    alone = splits.test.make(torch.tensor([5]))
    n = sum(parse(text).GetNumAtoms() for text in SMILES[:5])
    assert torch.equal(alone.inputs[0], every.inputs[0][n : n + len(alone.inputs[0])])
    loader = splits.loaders(0)["train"]
    first = next(iter(loader)).inputs[0]
    loader.set_epoch(1)
    assert not torch.equal(next(iter(loader)).inputs[0], first)
    assert not torch.equal(splits.val.make(torch.arange(7)).inputs[0], every.inputs[0])


def test_a_share_of_zero_is_refused() -> None:
    with refused("data.mask_fraction", expected="above 0", got="0", remedy="0.15"):
        MaskedMolecules(mask_fraction=0.0)
