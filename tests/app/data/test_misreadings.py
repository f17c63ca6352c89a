"""Cells that are easily misread: an error or one line says how each is read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.app import runs
from edgewise.app.cli.process import _printed_notes
from edgewise.app.files.edges import read_edges
from edgewise.app.files.frames import FrameSource
from edgewise.app.files.read_table import read_table, table_rows
from edgewise.app.files.reading import log
from edgewise.app.files.rows import read_rows
from edgewise.app.files.target_columns import TargetColumns
from edgewise.app.kinds import find
from edgewise.app.kinds.items import InteractionFiles
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.nodes import NodeFiles
from edgewise.app.kinds.series import TimeSeries
from edgewise.app.kinds.tags import TagFile
from edgewise.app.kinds.texts import TextTable
from tests.errors import refused

pandas = pytest.importorskip("pandas")


def written(folder: Path, text: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def notes(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "edgewise.app.files")
    return caplog


def ring(names: list[str]) -> Any:
    return pandas.DataFrame({"source": names, "target": [*names[1:], names[0]]})


def nodes(**columns: list[str]) -> NodeFiles:
    ids = columns.pop("id", [f"n{i}" for i in range(30)])
    return NodeFiles(nodes=pandas.DataFrame({"id": ids, **columns}), edges=ring(ids))


def test_decimal_commas_beside_decimal_points_are_refused(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a;y\nx;999,5\nz;1.234\n"))
    got = "'999,5' in row 2 of t.csv, and '1.234' in row 3 of t.csv"
    assert table.numeric == ["y"]
    with refused("data.target", expected="either decimal commas", got=got, remedy="in one way"):
        table.numbers("data.target", ["y"])
    for cells in ("999,5\nz;1,25", "999.5\nz;1.25", "1\nz;2,5", "1\nz;2.5"):
        assert len(read_table(written(tmp_path, f"a;y\nx;{cells}\n")).numbers("y", ["y"])) == 2


@pytest.mark.parametrize("text", ["5%", "1 234", "(5)", "<5", "1,5", "≥ 3", "1'000"])
def test_numbers_that_are_read_as_classes_are_named_in_a_warning(text: str) -> None:
    cells = [text, "7", "8"] * 10
    frame = FrameSource.of(pandas.DataFrame({"y": cells, "word": ["b", "5%", "a"] * 10}))
    table = read_table(frame)
    with pytest.warns(UserWarning, match="'y' of the DataFrame is read as classes, because"):
        TargetColumns(table, ["y"])
    assert (
        TargetColumns(table, ["y"], "classification").classes
        == TargetColumns(
            read_table(FrameSource.of(pandas.DataFrame({"y": cells}))), ["y"], "classification"
        ).classes
    )
    TargetColumns(table, ["word"])
    with pytest.warns(UserWarning, match="'label' of the DataFrame is read as classes"):
        nodes(label=cells, size=[str(i) for i in range(30)]).load()


@pytest.mark.parametrize("line", ["sep=;\n", "SEP=;\r\n"])
def test_the_first_line_of_excel_names_the_delimiter(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{line}a;b\n1,5;x, y\n2;high\n")
    table = read_table(path)
    assert table.texts("data.text", "b") == ["x, y", "high"]
    assert table.lines == [3, 4] == [number for number, _ in table_rows(path)]
    with refused("y", expected="finite", got="'high' in row 4", remedy="row"):
        table.only([1]).numbers("y", ["b"])
    with refused("data.path", expected="semicolons", got="row 4", remedy="correct"):
        read_table(written(tmp_path, f"{line}a;b\n1;2\n1;2;3\n"))
    edges = read_edges(written(tmp_path, f"{line}source;target\nann;bob\nbob;cem\n"))
    assert list(edges.ids) == ["ann", "bob", "cem"]
    edges = read_edges(written(tmp_path, "sep=\t\nsource\ttarget\nann;e\tbob, c\n"))
    assert list(edges.ids) == ["ann;e", "bob, c"]


def test_a_quoted_cell_may_begin_with_a_space_and_a_quotation_mark(tmp_path: Path) -> None:
    rows = '4,fine,neg\n5," ""great"" film he said",pos\n6," ""a\nb"", c",neg\n'
    path = written(tmp_path, f"n,text,label\n{rows}")
    assert read_table(path).columns["text"][1:] == [' "great" film he said', ' "a\nb", c']
    assert [row["label"] for _, row in table_rows(path)] == ["neg", "pos", "neg"]
    for cell in ('"great" film', '"great, film"', '"great'):
        path = written(tmp_path, f"n,text,label\n{rows}7, {cell},pos\n")
        got = f"a space between a delimiter and a quotation mark: ' {cell.split(',')[0]}"
        with refused("data.path", expected="commas", got=got, remedy="correct"):
            read_table(path)


@pytest.mark.parametrize("text", ["sep=;\n", "sep=;", "sep=;\n\n", "sep=;\na;b\n"])
def test_only_the_line_of_excel_is_refused(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with refused("data.path", expected="semicolons", got="no rows", remedy="correct the file"):
        read_table(path)


def test_cells_without_a_value_in_excel_are_named(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, "=1/0"], ["#N/A", 2]):
        book.active.append(row)
    book.active["A3"].data_type = "e"
    book.save(tmp_path / "t.xlsx")
    with pytest.warns(UserWarning, match="2 cells read as blank: no value .* in B2, #N/A in A3"):
        table = read_table(tmp_path / "t.xlsx")
    assert table.columns == {"a": ["1", ""], "b": ["", "2"]}


def test_masks_that_overlap_are_refused(tmp_path: Path) -> None:
    arrays = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(9), "y": np.arange(9) % 2}
    masks = {"train_mask": np.arange(9) < 5, "val_mask": np.arange(9) > 3}
    np.savez(tmp_path / "g.npz", **arrays, **masks)
    path = str(tmp_path / "g.npz")
    got = "node 4 in train_mask and val_mask, and 1 such nodes"
    with refused(path, expected="at most one of", got=got, remedy="all masks but one"):
        NodeFiles(nodes=path).load()


def test_negative_numbers_and_bytes_of_arrays_are_kept(tmp_path: Path) -> None:
    arrays = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(30)}
    path = str(tmp_path / "g.npz")
    np.savez(path, **arrays, y=np.arange(30) - 15)
    spec = NodeFiles(nodes=path, task_type="regression")
    targets = spec.load().targets[0]
    assert targets.mean < 0.5
    np.savez(path, **arrays, y=np.array([b"cat", b"dog"] * 15))
    assert NodeFiles(nodes=path).load().preprocessing["labels"] == ["cat", "dog"]
    np.savez(path, **arrays, y=np.array([np.inf, 1.0, 0.0] * 10))
    with refused(path, expected="finite", got="infinity", remedy="replace"):
        NodeFiles(nodes=path).load()


@pytest.mark.parametrize("name", ["y", "ids", "classes"])
def test_bytes_of_arrays_that_are_not_utf_8_are_named(name: str, tmp_path: Path) -> None:
    arrays = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(30), "y": np.arange(30) % 2}
    path = str(tmp_path / "g.npz")
    np.savez(path, **{**arrays, name: np.array([b"caf\xe9", b"dog"] * 15)})
    with refused(path, expected=f"UTF-8 in {name}", got="0xe9", remedy="decode"):
        NodeFiles(nodes=path).load()


@pytest.mark.parametrize("other", ["1", "1.0", "01 "])
def test_another_spelling_of_an_id_is_refused(other: str) -> None:
    ids = [f"{i:02}" for i in range(30)]
    table = pandas.DataFrame({"id": ids, "label": ["a", "b"] * 15, "size": range(30)})
    edges = ring([other if name == "01" else name for name in ids])
    with refused("data.id", expected="same spelling", got=f"{other!r}", remedy="same way"):
        NodeFiles(nodes=table, edges=edges).load()


def test_ids_that_only_the_edges_have_are_counted(notes: pytest.LogCaptureFixture) -> None:
    table = pandas.DataFrame({"id": ["a", "b"] * 15, "label": ["x", "y"] * 15, "size": range(30)})
    table["id"] = [f"n{i}" for i in range(30)]
    NodeFiles(nodes=table, edges=ring([*table["id"], "new"])).load()
    assert "1 id of the edges, such as 'new', are not in the DataFrame" in notes.text


def test_a_long_cell_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, f"text,label\n{'word ' * 40_000},a\nshort,b\n")
    assert [len(text) for text in read_table(path).texts("data.text", "text")] == [200_000, 5]


def test_integers_of_a_categorical_column_may_have_a_gap() -> None:
    frame = pandas.DataFrame({"y": pandas.Categorical([1, None, 3]), "z": [True, None, False]})
    frame["z"] = frame["z"].astype("category")
    table = read_table(FrameSource.of(frame))
    assert table.columns == {"y": ["1", "", "3"], "z": ["True", "", "False"]}


def test_numbers_of_a_column_are_parsed_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgewise.app.files import table as module

    parsed: list[str] = []
    as_numbers = module.as_numbers

    def counting(cells: Any, delimiter: str = ",") -> Any:
        parsed.append(cells.name)
        return as_numbers(cells, delimiter)

    monkeypatch.setattr(module, "as_numbers", counting)
    numbers = {f"f{i}": [str(j) for j in range(30)] for i in range(20)}
    nodes(group=["a", "b"] * 15, **numbers).load()
    assert len(parsed) <= 2 * 22
    parsed.clear()
    frame = pandas.DataFrame({"y": [1.5, 2.5] * 30, **{f"w{i}": ["a"] * 60 for i in range(20)}})
    with pytest.warns(UserWarning, match="can be parsed as dates"):
        TimeSeries(path=frame).load()
    assert len(parsed) <= 2 * 21


def test_descriptors_that_take_long_are_undefined_for_large_molecules() -> None:
    pytest.importorskip("rdkit")
    from rdkit.Chem import Descriptors

    from edgewise.app.kinds.molecules.chem import descriptors, parse

    names = [name for name, _ in Descriptors.descList]
    small, large = (dict(zip(names, descriptors(parse("C" * n)), strict=True)) for n in (60, 310))
    slow = {name for name in names if large[name] == 0 and small[name] != 0}
    assert {"Ipc", "AvgIpc", "BCUT2D_MWHI", "BalabanJ", "BertzCT", "MaxEStateIndex"} <= slow
    assert all(name.endswith("Ipc") or "EState" in name or name[:1] == "B" for name in slow)
    assert large["MolWt"] == pytest.approx(Descriptors.MolWt(parse("C" * 310)))
    assert small["BertzCT"] == pytest.approx(Descriptors.BertzCT(parse("C" * 60)))


@pytest.mark.parametrize("recipe", ["molecules", "texts", "tags", "nodes", "series"])
def test_all_kinds_call_the_target_column_target(recipe: str) -> None:
    base = find(recipe)
    assert runs.with_values(base, {"data.target": "y"}).data.target == "y"
    for other in ("label", "column", "tag", "labels", "targets"):
        with refused(f"data.{other}", expected="data.target", got=other, remedy="data.target"):
            runs.with_values(base, {f"data.{other}": "y"})


def test_a_column_that_is_taken_is_named_with_the_reason(notes: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("rdkit")
    size = [str(i) for i in range(30)]
    text = [f"film number {i} was fine" for i in range(30)]
    tables = {
        "'topic' is predicted, because of its name": nodes(topic=["a", "b"] * 15, size=size),
        "'g' is predicted, the only text column": nodes(g=["a", "b"] * 15, size=size),
        "'stars' is predicted, the only column with few": TextTable(
            path=pandas.DataFrame({"body": text, "stars": ["1", "5"] * 15}), vocab_size=60
        ),
        "'mass' is predicted, the only column of numbers or": MoleculeTable(
            path=pandas.DataFrame({"smiles": ["C" * i for i in range(1, 31)], "mass": size})
        ),
        "'sales' is predicted, the only column of numbers": TimeSeries(
            path=pandas.DataFrame({"sales": [f"{i % 7}.5" for i in range(90)]})
        ),
    }
    for line, spec in tables.items():
        notes.clear()
        spec.load()
        assert f"data.target: column {line}" in notes.text
        named = type(spec)(**{**vars(spec), "target": line.split("'")[1]})
        notes.clear()
        named.load()
        assert "is predicted" not in notes.text


def test_integers_that_may_be_classes_are_named(notes: pytest.LogCaptureFixture) -> None:
    table = read_table(FrameSource.of(pandas.DataFrame({"y": [0, 1, 2] * 5, "z": [0, 1, 1] * 5})))
    TargetColumns(table, ["z"])
    assert not notes.text
    TargetColumns(table, ["y"])
    assert "'y' has 3 different integers and is predicted as numbers" in notes.text
    pairs = FrameSource.of(pandas.DataFrame({"sign": ["-1", "1"] * 5, "code": ["01", "02"] * 5}))
    for name in ("sign", "code"):
        TargetColumns(read_table(pairs), [name])
        assert f"'{name}' has 2 different integers and is predicted as numbers" in notes.text


def test_numbers_are_no_texts() -> None:
    pytest.importorskip("tokenizers")
    frame = pandas.DataFrame({"x": [i / 7 for i in range(40)], "label": [0, 1] * 20})
    with refused("data.text", expected="texts", got="numbers in column 'x'", remedy="--data.text"):
        TextTable(path=frame).load()
    TextTable(path=frame, text="x", vocab_size=60).load()


def test_ratings_without_a_minimum_are_named(notes: pytest.LogCaptureFixture) -> None:
    rows = [(f"u{u}", f"i{(u + i) % 9}", 1 + i % 5) for u in range(9) for i in range(5)]
    frame = pandas.DataFrame(rows, columns=["user", "item", "stars"])
    InteractionFiles(path=frame).load()
    assert "each row counts as a choice, whatever its 'stars'" in notes.text
    notes.clear()
    InteractionFiles(path=frame, min_rating=2).load()
    assert not notes.text


def test_texts_that_are_cut_are_counted(notes: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("tokenizers")
    rows = [(f"film {i} was {word}" + " so" * i, word) for i in range(20) for word in ("a", "b")]
    frame = pandas.DataFrame(rows, columns=["text", "label"])
    TextTable(path=frame, vocab_size=60, max_length=16).load()
    assert "texts of train are longer than 16 tokens, and are cut" in notes.text


def test_lines_of_words_in_a_tsv_file_have_blank_lines(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    sentence = "Dogs\tNOUN\nbark\tVERB\n"
    for header in ("", "word\ttag\n"):
        path = written(tmp_path, header + f"{sentence}\n" * 30, "words.tsv")
        splits = TagFile(path=str(path), vocab_size=40).load()
        assert splits.preprocessing["labels"] == ["NOUN", "VERB"]
        assert splits.train.count + splits.val.count + splits.test.count == 30


def test_commands_print_each_note_once(capsys: pytest.CaptureFixture[str]) -> None:
    with _printed_notes():
        for _ in range(2):
            log.info("data.target: column 'y' is predicted")
    log.info("after the command")
    assert capsys.readouterr().err == "edgewise: data.target: column 'y' is predicted.\n"


def test_a_missing_column_of_inputs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("sentence,word\n1,dogs\n", encoding="utf-8")
    remedy = "add a column 'text', or give this name to the column with the inputs"
    with refused(str(path), expected="a column 'text'", got="sentence, word", remedy=remedy):
        list(read_rows(path, ["text"]))
