"""A run of masked molecules finds what stands in the places of ``*`` and ``~``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")
pytest.importorskip("lightning")

import edgewise
from edgewise.app.cli import main
from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import zinc
from edgewise.app.kinds.molecules.chem import parse, unknown_parts, with_parts
from edgewise.app.kinds.molecules.data import packed
from edgewise.app.kinds.molecules.masked_molecules import ATOM_KINDS, hide
from edgewise.app.runs import train, with_values
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from tests.unlabelled import write_molecules

FAST = {"model.width": 8, "model.depth": 1, "model.heads": 2, "trainer.epochs": 3}
FAST |= {"trainer.accelerator": "cpu", "trainer.save_every": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("molecules")
    write_molecules(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(root))
        patch.delitem(SHA256, zinc.NAME)
        train(with_values(find("masked-molecules"), FAST), root / "run")
    return root / "run"


def test_what_is_unknown_is_scored_by_the_model(folder: Path) -> None:
    run = edgewise.load(folder)
    texts = ["CC(=O)*", "c1ccccc1~*", "C~C"]
    molecules = [parse(text) for text in texts]
    atoms = torch.tensor([0, 0, 0, 1] + [0] * 6 + [1] + [0] * 2).bool()
    bonds = torch.tensor([0, 0, 0] + [0] * 5 + [1, 0] + [1]).bool()
    assert [unknown_parts(one) for one in molecules] == [([3], []), ([6], [5]), ([], [0])]
    bonds[3:10] = torch.arange(7) == 5
    batch = hide(PrecomputedEncodings(packed(molecules)), torch.arange(3), atoms, bonds)
    with torch.no_grad():
        chance = batch.select_outputs(run.model(*batch.inputs, **batch.keywords)).softmax(-1)
    answers = run.predict(texts, top=2, batch_size=2)
    places = [row["place"] for answer in answers for row in answer["found"]]
    assert places[::2] == ["atom 4", "atom 7", "bond 6-7", "bond 1-2"]
    found = [row["probability"] for answer in answers for row in answer["found"]]
    wanted = chance[[0, 1, 2, 3]].topk(2).values.flatten()  # atoms first, then bonds
    torch.testing.assert_close(torch.tensor(found), wanted)
    assert chance[:2, :ATOM_KINDS].sum(1) == pytest.approx(1)
    kinds = {row["kind"] for answer in answers for row in answer["found"]}
    assert len(kinds) > 2
    (one,) = run.predict("CC(=O)*")
    assert len(one["found"]) == 1
    assert one["smiles"] == with_parts(molecules[0], {3: one["found"][0]["kind"]}, {})


def test_elements_and_bonds_are_put_into_their_places() -> None:
    assert with_parts(parse("CC(=O)*"), {3: "O"}, {}) == "CC(=O)O"
    assert with_parts(parse("c1cc[*]cc1"), {3: "N"}, {}) == "c1ccncc1"
    assert with_parts(parse("C~C"), {}, {0: "DOUBLE"}) == "C=C"
    assert with_parts(parse("C*C"), {1: "F"}, {}) == "", "fluorine has one bond"


@pytest.mark.parametrize("wrong", ["CCO", "C(C", "", 7])
def test_what_has_nothing_unknown_is_named_and_the_others_are_answered(
    folder: Path, wrong: object
) -> None:
    bad, good = edgewise.load(folder).predict([wrong, "C*"])
    assert "RDKit cannot read" in bad["error"] or "write * for an atom" in bad["error"]
    assert good["found"][0]["place"] == "atom 2"


def test_from_the_shell(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "C*O", "--top", "3"]) == 0
    assert capsys.readouterr().out.count("atom 2") == 3
    table = tmp_path / "new.csv"
    table.write_text("smiles,note\nC*,a\nCC,b\nC~*,c\n")
    out = tmp_path / "out.csv"
    assert main(["predict", str(folder), "--input", str(table), "--out", str(out)]) == 1
    assert "line 3 of new.csv" in capsys.readouterr().err
    rows = out.read_text().splitlines()
    assert rows[0].startswith("smiles,note,predicted_smiles,rank,place,kind,probability")
    assert len(rows) == 5
