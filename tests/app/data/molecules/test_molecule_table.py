"""Tables of molecules: features, conditions, folds, and rows that cannot be used."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")

from edgewise import graphs
from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.train import Split, Splits
from tests.errors import refused

ROWS = ["C", "CC", "CCO", "c1ccccc1", "Cc1ccccc1", "O", "C[N+](C)(C)C.[Cl-]", "CO", "CN", "N"]


def table(folder: Path, rows: list[str]) -> Path:
    path = folder / "table.csv"
    lines = [f"{s},{i * 1.5},{300 + i},{10**i}" for i, s in enumerate(rows)]
    path.write_text("\n".join(["smiles,y,T,P", *lines]) + "\n")
    return path


def data(folder: Path, rows: list[str] = ROWS, **fields: Any) -> MoleculeTable:
    return MoleculeTable(path=str(table(folder, rows)), **{"target": "y", "val": 0.25, **fields})


def whole(split: Split) -> tuple[Any, ...]:
    batch = split.make(torch.arange(split.count))
    keywords = dict(batch.keywords)
    bonds, conditions = keywords["edge_attr"], keywords.get("global_attr")
    return (*batch.inputs, keywords["batch"], bonds, conditions, batch.target)


def splits_of(loaded: Splits) -> list[Split]:
    return [loaded.train, loaded.val, loaded.test]


def test_some_labels_alone(tmp_path: Path) -> None:
    every, some = data(tmp_path).load(), data(tmp_path, labelled=3).load()
    assert some.train.count == 3
    kept, known = (set(whole(one.train)[-1].flatten().tolist()) for one in (some, every))
    assert kept < known
    for name in ("val", "test"):
        assert torch.equal(whole(getattr(some, name))[-1], whole(getattr(every, name))[-1])
    assert some.train.target_scale is not None
    assert some.train.target_scale.mean == [pytest.approx(sum(kept) / 3)]
    with refused("data.labelled", expected="at most 6", got="7", remedy="0 for all"):
        data(tmp_path, labelled=7).load()


def test_every_row_is_in_one_split_with_its_molecule_and_its_number(tmp_path: Path) -> None:
    loaded = data(tmp_path).load()
    assert loaded.model_arguments["edge_width"] == 8
    assert loaded.model_arguments["global_width"] == 0
    seen = {}
    for split in splits_of(loaded):
        _, _, members, _, conditions, target = whole(split)
        assert conditions is None
        assert target.shape == (split.count, 1)
        seen |= dict(zip(target.flatten().tolist(), members.in_degree().tolist(), strict=True))
    assert seen == dict(
        zip([i * 1.5 for i in range(10)], [1, 2, 3, 6, 7, 1, 6, 2, 2, 1], strict=True)
    )


def test_without_bonds_a_model_gets_atoms_graph_and_molecules(tmp_path: Path) -> None:
    loaded = data(tmp_path, bonds=False).load()
    assert set(loaded.model_arguments) == {"in_width", "out_width"}
    batch = loaded.test.make(torch.tensor([0]))
    x, graph = batch.inputs
    assert list(batch.keywords) == ["batch"]
    members = batch.keywords["batch"]
    assert isinstance(graph, graphs.Graph)
    assert (len(x), members.num_targets) == (graph.num_targets, 1)


def test_conditions_are_scaled_by_the_training_split_alone(tmp_path: Path) -> None:
    loaded = data(tmp_path, conditions=("T",), log_conditions=("P",)).load()
    train, test = (whole(split) for split in (loaded.train, loaded.test))
    scaled, y = train[4].double(), train[5].double() / 1.5
    torch.testing.assert_close(scaled.mean(0), torch.zeros(2).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(2).double())
    expected = (test[5] / 1.5 - y.mean()) / y.std(correction=0)  # T and log P are linear in the row
    torch.testing.assert_close(test[4], expected.float().expand(-1, 2), atol=1e-4, rtol=1e-4)


def test_the_training_split_states_the_scale_of_its_targets(tmp_path: Path) -> None:
    loaded = data(tmp_path).load()
    y = whole(loaded.train)[-1]
    mean, std = float(y.mean()), float(y.std(correction=0))
    (target,) = loaded.targets
    assert (target.mean, target.std) == pytest.approx((mean, std))
    assert loaded.train.target_scale == ([target.mean], [target.std], False)


def test_the_scale_of_fractions_is_that_of_their_logits(tmp_path: Path) -> None:
    spec = data(tmp_path, fraction=True)
    lines = [f"{smiles},{i / (len(ROWS) - 1)}" for i, smiles in enumerate(ROWS)]  # from 0 to 1
    spec.source().write_text("\n".join(["smiles,y", *lines]))
    loaded = spec.load()
    logit = whole(loaded.train)[-1].clamp(1e-3, 1 - 1e-3).logit()
    mean, std, fraction = loaded.train.target_scale
    assert fraction
    assert mean == pytest.approx([float(logit.mean())])
    assert std == pytest.approx([float(logit.std(correction=0))])


def test_a_fraction_outside_of_0_to_1_is_refused(tmp_path: Path) -> None:
    with refused("data.fraction", expected="from 0 to 1", got="to 1", remedy="data.target"):
        data(tmp_path, fraction=True).load()


def test_descriptors_are_scaled_by_the_training_molecules_alone(tmp_path: Path) -> None:
    loaded = data(tmp_path, ROWS * 3, split="molecule", folds=3, descriptors=True).load()
    train, test = (
        split.make(torch.arange(split.count)).keywords["descriptors"]
        for split in (loaded.train, loaded.test)
    )
    described = train.unique(dim=0).double()  # one row a molecule
    assert described.shape[1] == loaded.model_arguments["descriptor_width"] > 100
    inside = described.abs().max(0).values < 4
    torch.testing.assert_close(
        described.mean(0)[inside], torch.zeros(int(inside.sum())).double(), atol=1e-5, rtol=0
    )
    spread = described.std(0, correction=0)[inside]
    torch.testing.assert_close(spread, torch.ones_like(spread), atol=1e-4, rtol=0)
    assert test.abs().max() == 4  # cut off
    assert test.shape == (loaded.test.count, described.shape[1])


def names_of(loaded: Splits) -> tuple[str, ...]:
    """The names of the columns of SMILES and of the targets."""
    return loaded.preprocessing["smiles"], *(target.name for target in loaded.targets)


def rows_of(loaded: Splits) -> list[set[int]]:
    """The rows in each split, by their targets."""
    return [{round(v / 1.5) for v in whole(s)[-1].flatten().tolist()} for s in splits_of(loaded)]


def test_a_molecule_is_in_one_split_only(tmp_path: Path) -> None:
    parts = rows_of(data(tmp_path, ROWS * 4, split="molecule", folds=3).load())
    groups = [{row % len(ROWS) for row in part} for part in parts]
    assert sum(map(len, groups)) == len(ROWS)


def test_a_scaffold_is_in_one_split_only(tmp_path: Path) -> None:
    rows = [f"{'C' * i}{ring}" for ring in ("c1ccccc1", "C1CC1", "c1ccncc1", "") for i in (1, 2, 3)]
    parts = rows_of(data(tmp_path, rows, split="scaffold", folds=2, val=0.5).load())
    groups = [{row // 3 for row in part} for part in parts]
    assert sum(map(len, groups)) == 4


def test_a_smiles_that_cannot_be_read_is_refused_with_its_row(tmp_path: Path) -> None:
    rows = [*ROWS, "C(", "nonsense"]
    with refused("data.smiles", expected="'smiles'", got="row 12: 'C('", remedy="skip"):
        data(tmp_path, rows).load()


def test_or_its_row_is_skipped_as_asked(tmp_path: Path) -> None:
    rows = ["C(", *ROWS]
    with pytest.warns(UserWarning, match=r"SMILES skipped: 1 that .* \(row 2: 'C\('\)"):
        loaded = data(tmp_path, rows, invalid="skip").load()
    values = [v for split in splits_of(loaded) for v in whole(split)[-1].flatten().tolist()]
    assert sorted(values) == [i * 1.5 for i in range(1, 11)]


@pytest.mark.parametrize(
    ("smiles", "unit"),
    [("C" * 501, "atoms"), ("C" * 10_001, "characters"), ("C(" * 101 + "C" + ")" * 101, "nested")],
    ids=["atoms", "characters", "branches"],
)
@pytest.mark.parametrize("fragments", ["all", "largest"])
def test_a_molecule_above_a_limit_is_an_invalid_row(
    smiles: str, unit: str, fragments: str, tmp_path: Path
) -> None:
    rows = [*ROWS, smiles, "C("]
    got = f"row 12: {smiles[:60]!r} (at most "
    with refused("data.smiles", expected="'smiles'", got=got, remedy="EDGEWISE_MAX_") as caught:
        data(tmp_path, rows, fragments=fragments).load()
    assert unit in caught.value.got
    assert "row 13: 'C('" in caught.value.got
    with pytest.warns(UserWarning, match=r"SMILES skipped: 2 .* \(row 12: "):
        loaded = data(tmp_path, rows, invalid="skip", fragments=fragments).load()
    assert sum(split.count for split in splits_of(loaded)) == len(ROWS)


def test_a_file_of_nothing_but_errors_is_refused_all_the_same(tmp_path: Path) -> None:
    with refused(
        "data.smiles", expected="molecules", got="2 that cannot be read", remedy="correct"
    ):
        data(tmp_path, ["C(", "X"], invalid="skip").load()


def test_a_logarithm_needs_numbers_above_zero(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles,y,P\n" + "\n".join(f"{s},1,{i}" for i, s in enumerate(ROWS)))
    with refused("data.log_conditions", expected="above 0", got="0.0", remedy="data.conditions"):
        MoleculeTable(path=str(path), target="y", log_conditions=("P",)).load()


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"target": "Y"}, "data.target"),
        ({"smiles": "smile"}, "data.smiles"),
        ({"conditions": ("T", "pressure")}, "data.conditions"),
    ],
)
def test_a_column_that_is_not_there_is_named(
    tmp_path: Path, fields: dict[str, Any], argument: str
) -> None:
    with refused(
        argument,
        expected="smiles",
        got="'",
        remedy="",
    ):
        data(tmp_path, **fields).load()


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"split": "group"}, "data.split"),
        ({"invalid": "x"}, "data.invalid"),
        ({"batch_size": 0}, "data.batch_size"),
        ({"descriptors": True, "bonds": False}, "data.descriptors"),
    ],
)
def test_fields_that_cannot_be_are_refused_before_reading(
    fields: dict[str, Any], argument: str
) -> None:
    with refused(argument, expected="", got="", remedy=""):
        MoleculeTable(path="nowhere.csv", **fields)


def test_no_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"none\.csv: no such file"):
        MoleculeTable(path=str(tmp_path / "none.csv")).load()


def test_reading_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        data(tmp_path).load()
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_columns_are_found_where_there_is_no_doubt(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{i},{s} ,name {i},{i * 1.5}" for i, s in enumerate(ROWS)]
    path.write_text("\n".join([",Structure,name,logS", *lines]))  # the first counts the rows
    assert names_of(MoleculeTable(path=str(path), val=0.25).load()) == ("Structure", "logS")
    lines = [f"{i},{s},{s},{i * 1.5}" for i, s in enumerate(ROWS)]
    path.write_text("\n".join(["id,Structure,SMILES,logS", *lines]))
    assert names_of(MoleculeTable(path=str(path), val=0.25).load()) == ("SMILES", "logS")


@pytest.mark.parametrize("order", [1, -1])
def test_two_columns_need_no_names(tmp_path: Path, order: int) -> None:
    rows = [(s, f"{i * 1.5}") for i, s in enumerate(ROWS)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(",".join(row[::order]) for row in rows))
    splits = MoleculeTable(path=str(path), val=0.25).load()
    assert names_of(splits) == ("smiles", "target")
    assert sum(part.count for part in (splits.train, splits.val, splits.test)) == len(rows)
    path.write_text("\n".join(["0,1", *(",".join(row[::order]) for row in rows)]))
    named = MoleculeTable(path=str(path), val=0.25).load()  # as pandas writes columns
    assert set(names_of(named)) == {"0", "1"}


@pytest.mark.parametrize("missing", ["", "NA", "nan", "N/A"])
def test_a_row_without_a_target_is_named(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{s},{missing if i == 1 else i * 1.5}" for i, s in enumerate(ROWS)]
    path.write_text("\n".join(["smiles,y", *lines]))
    with refused("data.target", expected="column 'y'", got="row 3", remedy="--data.invalid skip"):
        MoleculeTable(path=str(path), val=0.25).load()


def test_columns_in_doubt_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{s},{s},{i * 2},{i * 3}" for i, s in enumerate(ROWS)]
    path.write_text("\n".join(["one,other,logS,logP", *lines]))
    with refused("data.smiles", expected="SMILES", got="'one', 'other'", remedy="data.smiles one"):
        MoleculeTable(path=str(path)).load()
    with refused(
        "data.target", expected="names of the columns", got="'logS', 'logP'", remedy="logS,logP"
    ):
        MoleculeTable(path=str(path), smiles="one").load()
    spec = MoleculeTable(path=str(path), smiles="one", conditions=("logP",), val=0.25)
    assert names_of(spec.load()) == ("one", "logS")
    path.write_text("name,y\nbenzene,1\nwater,2\n")
    with refused("data.smiles", expected="SMILES", got="no such column", remedy="smiles name"):
        MoleculeTable(path=str(path)).load()


def split_table(folder: Path, words: list[str], name: str = "Split") -> MoleculeTable:
    path = folder / "t.csv"
    rows = zip(ROWS, words, strict=True)
    lines = [f"{s},{i * 1.5},{word}" for i, (s, word) in enumerate(rows)]
    path.write_text("\n".join([f"smiles,y,{name}", *lines]))
    return MoleculeTable(path=str(path), val=0.25)


def test_a_split_column_is_used_where_there_is_one(tmp_path: Path) -> None:
    words = ["train"] * 6 + ["valid", "Test", "TEST", "dev"]
    assert rows_of(split_table(tmp_path, words).load()) == [set(range(6)), {6, 9}, {7, 8}]
    named = replace(split_table(tmp_path, words, "part of"), split_column="part of")
    assert rows_of(named.load()) == [set(range(6)), {6, 9}, {7, 8}]
    dealt = replace(split_table(tmp_path, words), split_column="none")
    assert rows_of(dealt.load())[2] != {7, 8}


def test_without_a_validation_part_the_training_rows_are_dealt(tmp_path: Path) -> None:
    loaded = split_table(tmp_path, ["train"] * 8 + ["test"] * 2).load()
    train, val, test = rows_of(loaded)
    assert test == {8, 9}
    assert train | val == set(range(8))
    assert len(val) == 2
    lines = {name: loaded.preprocessing[name].tolist() for name in ("val_lines", "test_lines")}
    assert lines == {"val_lines": [row + 2 for row in sorted(val)], "test_lines": [10, 11]}


def test_a_split_column_that_says_something_else(tmp_path: Path) -> None:
    words = ["train"] * 8 + ["test", "later"]
    spec = replace(split_table(tmp_path, words), split_column="Split")
    with refused("data.split_column", expected="train, val", got="'later' in row 11", remedy="row"):
        spec.load()
    spec = replace(split_table(tmp_path, ["train"] * 8 + ["test"] * 2), fold=1)
    with refused("data.fold", expected="Split", got="1", remedy="none"):
        spec.load()


def test_a_row_without_a_target_is_refused_or_skipped(tmp_path: Path) -> None:
    spec = data(tmp_path)
    spec.source().write_text(spec.source().read_text() + "CCN,,1,1\n")
    with refused("data.target", expected="'y'", got="1 without a value (row 12)", remedy="skip"):
        spec.load()
    with pytest.warns(UserWarning, match=r"rows skipped: 1 without a value \(row 12\)"):
        loaded = replace(spec, invalid="skip").load()
    assert sum(split.count for split in splits_of(loaded)) == 10


def test_an_epoch_draws_some_of_the_rows(tmp_path: Path) -> None:
    loaded = data(tmp_path, epoch_rows=3, batch_size=2).load()
    assert [len(batch.target) for batch in loaded.loaders(0)["train"]] == [2, 1]


def test_a_target_that_does_not_vary_is_refused(tmp_path: Path) -> None:
    """Its scale would be 0, and whatever the network says the right answer."""
    path = tmp_path / "flat.csv"
    path.write_text("\n".join(["smiles,y", *(f"{smiles},1.5" for smiles in ROWS)]) + "\n")
    got = "1.5 in all 6 training rows"
    with refused(
        "data.target", expected="different numbers in column 'y'", got=got, remedy="--data.target"
    ):
        MoleculeTable(path=str(path), val=0.25).load()


def test_two_spellings_of_a_molecule_are_in_one_split(tmp_path: Path) -> None:
    spellings = ["CCO", "OCC", "C(O)C", "CO", "OC", "CN", "NC", "CCC", "C(C)C", "CS", "SC"]
    parts = rows_of(data(tmp_path, spellings, split="molecule", folds=3, val=0.5).load())
    kinds = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert sum(len({kinds[row] for row in part}) for part in parts) == 5


def dated(folder: Path, dates: list[str], name: str = "Date", **fields: Any) -> MoleculeTable:
    path = folder / "t.csv"
    rows = zip(ROWS, dates, strict=True)
    lines = [f"{s};{i * 1.5};{date}" for i, (s, date) in enumerate(rows)]
    path.write_text("\n".join([f"smiles;y;{name}", *lines]))
    return MoleculeTable(path=str(path), split="time", folds=5, val=0.25, **fields)


@pytest.mark.parametrize(
    "dates",
    [
        [f"2024-{month:02}-01" for month in range(1, 11)],
        [f"{day}.1.2024" for day in range(11, 21)],
        [str(year) for year in range(1990, 2000)],
        [str(20240101 + day) for day in range(10)],
    ],
)
def test_a_split_by_time_tests_on_the_latest_rows(tmp_path: Path, dates: list[str]) -> None:
    order = [3, 1, 4, 0, 9, 2, 6, 5, 8, 7]  # Position in time of each row.
    train, val, test = rows_of(dated(tmp_path, [dates[place] for place in order]).load())
    assert {order[row] for row in test} == {8, 9}
    assert {order[row] for row in val} == {6, 7}
    assert {order[row] for row in train} == set(range(6))


def test_rows_of_one_time_stay_together(tmp_path: Path) -> None:
    years = ["2000"] * 4 + ["2001"] * 2 + ["2002"] + ["2003"] * 2 + ["2004"]
    parts = rows_of(dated(tmp_path, years, "year").load())
    assert [{years[row] for row in part} for part in parts] == [
        {"2000"},
        {"2001", "2002"},
        {"2003", "2004"},
    ]


def test_dates_that_cannot_be_ordered_are_refused(tmp_path: Path) -> None:
    days = [f"{day:02}/{12 - day:02}/2024" for day in range(1, 11)]
    with refused("data.date", expected="'Date'", got="'01/11/2024' in row 2", remedy="2024-01-31"):
        dated(tmp_path, days).load()
    with refused("data.date", expected="'Date'", got="'later' in row 4", remedy="2024-01-31"):
        dated(tmp_path, [*days[:2], "later", *days[3:]]).load()
    with refused("data.date", expected="column of dates", got="smiles", remedy="--data.date"):
        dated(tmp_path, days, "when").load()
    with refused("data.fold", expected="0", got="1", remedy="data.split"):
        dated(tmp_path, [str(2000 + i) for i in range(10)], fold=1).load()


def test_a_split_by_time_validates_on_the_latest_training_rows(tmp_path: Path) -> None:
    years = [f"{2009 - i};{'test' if i == 5 else 'train'}" for i in range(10)]
    train, val, test = rows_of(dated(tmp_path, years, "year;split").load())
    assert (val, test) == ({0, 1, 2}, {5})
    assert train == {3, 4, 6, 7, 8, 9}


def test_a_salt_is_one_graph_or_its_largest_organic_fragment(tmp_path: Path) -> None:
    salts = ["CCO.[Na+].[Cl-]", "C[NH3+].F[P-](F)(F)(F)(F)F", "[Na+].[Cl-]", *ROWS]
    sizes = {}
    for fragments in ("all", "largest"):
        loaded = data(tmp_path, salts, fragments=fragments).load()
        found = {}
        for split in splits_of(loaded):
            members = whole(split)[2].in_degree().tolist()
            rows = (whole(split)[-1].flatten() / 1.5).round().int().tolist()
            found |= dict(zip(rows, members, strict=True))
        sizes[fragments] = [found[row] for row in range(4)]
    assert sizes == {"all": [5, 9, 2, 1], "largest": [3, 2, 1, 1]}
