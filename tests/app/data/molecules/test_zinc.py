"""ZINC's molecules, and that their target is what the benchmark defines."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.molecules import ZINC, zinc
from tests.errors import refused
from tests.places import ROOT, needs

RAW = ROOT / zinc.NAME / "raw"


@needs(zinc.NAME)
def test_splits_are_the_files_and_batches_their_molecules() -> None:
    splits = ZINC().load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [10000, 1000, 1000]
    batch = splits.test.make(torch.tensor([1, 0]))
    (x, graph), given = batch.inputs, batch.keywords
    with np.load(RAW / "test.npz") as file:
        ends, y = file["node_ptr"], file["y"]
        kinds, bonds = file["x"][: ends[2]], file["edge_attr"][: file["edge_ptr"][2]]
        assert batch.target.flatten().tolist() == [y[1], y[0]]
    assert x.argmax(1).tolist() == kinds.tolist()
    assert given["edge_attr"].argmax(1).tolist() == (bonds - 1).tolist()
    assert given["batch"].in_degree().tolist() == [ends[2] - ends[1], ends[1]]
    assert graph.num_edges == len(bonds)
    assert torch.equal(graph.dense(), graph.dense().T)


@needs(zinc.NAME)
def test_fewer_molecules_and_no_bonds() -> None:
    splits = ZINC(bonds=False, train_rows=50).load()
    assert (splits.train.count, splits.test.count) == (50, 1000)
    assert splits.model_arguments["edge_width"] == 0
    assert "edge_attr" not in splits.train.make(torch.arange(3)).keywords


@needs(zinc.NAME)
def test_the_target_is_penalised_logp() -> None:
    pytest.importorskip("rdkit")
    from edgewise.app.kinds.molecules.chem import parse

    with (RAW / "test.csv").open() as file:
        rows = list(csv.DictReader(file))[:40]
    for row in rows:
        assert zinc.penalised_logp(parse(row["smiles"])) == pytest.approx(float(row["y"]), abs=2e-5)


@needs(zinc.NAME)
def test_the_graph_of_a_smiles_is_that_of_the_file() -> None:
    pytest.importorskip("rdkit")
    from edgewise.app.kinds.molecules.chem import parse

    with (RAW / "test.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][:200]
    theirs, _ = zinc._read(RAW / "test.npz")
    for number, text in enumerate(smiles):
        kinds, edge_index, bonds = zinc.zinc_graph(parse(text))
        x, graph, _, edges = theirs.take(torch.tensor([number]))
        assert torch.equal(kinds, x)
        own = dict(zip(map(tuple, edge_index.T.tolist()), bonds[:, 0].tolist(), strict=True))
        index = map(tuple, graph.edge_index.T.tolist())
        assert own == dict(zip(index, edges[:, 0].tolist(), strict=True))


def test_hydrogens_in_brackets_that_need_none_change_nothing() -> None:
    pytest.importorskip("rdkit")
    from edgewise.app.kinds.molecules.chem import parse

    plain, brackets = (zinc.zinc_graph(parse(text)) for text in ("CCO", "[CH3][CH2][OH]"))
    for one, other in zip(plain, brackets, strict=True):
        assert torch.equal(one, other)
    kinds, edge_index, bonds = zinc.zinc_graph(parse("C"))
    assert (kinds.tolist(), edge_index.shape, bonds.shape) == ([[0]], (2, 0), (0, 1))
    (chiral, *_), *_ = zinc.zinc_graph(parse("[C@H](F)(Cl)Br"))
    assert zinc.KINDS[int(chiral)] == "C H1"


@pytest.mark.parametrize(
    ("smiles", "got"),
    [("C[Si](C)C", "Si"), ("[Na+].[Cl-]", "Na +"), ("[13CH4]", "C H4"), ("C[N+2]", "N + +")],
)
def test_an_atom_that_zinc_has_not_is_refused(smiles: str, got: str) -> None:
    pytest.importorskip("rdkit")
    from edgewise.app.kinds.molecules.chem import parse

    with refused(
        "input", expected="the atom types of ZINC", got=got, remedy="remove this molecule"
    ):
        zinc.zinc_graph(parse(smiles))


def test_a_macrocycle_is_penalised_and_a_ring_of_six_is_not() -> None:
    pytest.importorskip("rdkit")
    pytest.importorskip("networkx")
    from rdkit.Chem import Crippen

    from edgewise.app.kinds.molecules.chem import parse

    six, twelve = (parse("C1" + "C" * (size - 2) + "C1") for size in (6, 12))
    beyond = zinc.penalised_logp(six) - zinc.penalised_logp(twelve)
    by_logp = (Crippen.MolLogP(six) - Crippen.MolLogP(twelve)) / zinc.LOGP[1]
    from rdkit.Contrib.SA_Score import sascorer

    by_synthesis = sascorer.calculateScore(twelve) - sascorer.calculateScore(six)
    expected = by_logp + by_synthesis / zinc.SYNTHESIS[1] + 6 / zinc.CYCLE[1]
    assert beyond == pytest.approx(expected)


def test_without_its_files_it_says_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGEWISE_DATA", raising=False)
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"EDGEWISE_DATA .*ZINC_jtvae12k/raw/train\.npz"):
        ZINC().load()
