"""Small files that ask for much: each is refused by a named error before the work starts."""

from __future__ import annotations

import bz2
import csv
import dataclasses
import gzip
import io
import json
import lzma
import os
import resource
import shutil
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
import torch
from torch import nn

import edgewise._utils.limits
from edgewise import ArgumentError, graphs
from edgewise._utils.errors import EdgewiseError, reading
from edgewise._utils.limits import LIMITS, available_memory, built_within
from edgewise.app.files.edges import read_edges
from edgewise.app.files.read_table import read_table, table_rows
from edgewise.app.files.reading import read_bytes, read_own_text
from edgewise.app.kinds import find
from edgewise.app.kinds.images.data import open_image
from edgewise.app.kinds.molecules.chem import is_smiles, parse
from edgewise.app.kinds.molecules.sdf import read_sdf
from edgewise.app.kinds.nodes import NodeFiles
from edgewise.app.kinds.nodes.files import _npz_arrays
from edgewise.app.predict.rows import write_answers
from edgewise.app.runs.hugging_face import with_hf_model
from edgewise.app.train import RunFolder
from edgewise.app.train.text.tokenizer import _growth, encode_all, parse_tokenizer, train_tokenizer
from edgewise.interop import huggingface
from edgewise.models import gpt
from tests.errors import case, refused

GIB = 2**30


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_a_limit_can_be_raised(limit: edgewise._utils.limits.Limit, monkeypatch: Any) -> None:
    size = limit.default + 1
    limit.check(limit.default, "a")
    with refused(
        "a", expected=f"{limit.default:,} {limit.unit}", got=f"{size:,}", remedy="EDGEWISE"
    ):
        limit.check(size, "a")
    monkeypatch.setenv(limit.variable, str(size))
    limit.check(size, "a")
    for text in ("0", "many", "-1", "9" * 40):
        monkeypatch.setenv(limit.variable, text)
        with refused(limit.variable, expected="positive integer", got=text[:9], remedy="unset"):
            limit.check(1, "a")


def test_the_page_lists_the_limits() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "limits.md").read_text()
    table = [line for line in page.splitlines() if line.startswith("| `EDGEWISE_MAX_")]
    assert table == [
        f"| `{limit.variable}` | {limit.default:,} | {limit.unit} | {limit.protects} |"
        for limit in LIMITS.values()
    ]


# Tables


def workbook(path: Path, rows: str) -> Path:
    """Write an Excel file with this XML as the rows of its sheet."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" '
        f'Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>'
        '<sheet name="a" sheetId="1" r:id="a"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="a" Type="{relations}/worksheet" Target="sheet1.xml"/></Relationships>',
        "xl/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def cell(place: str, value: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


HEADER = row(1, cell("A1", "a"), cell("B1", "b")) + row(2, cell("A2", "x"), cell("B2", "y"))


def test_a_sheet_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    frame = pandas.DataFrame(
        {
            "n": [1, 2.0, 2.5, None],
            "text": ["x", "", "007", "NA"],
            "date": [pandas.Timestamp(2024, 1, day, hour) for day, hour in [(1, 0), (2, 3)] * 2],
            "flag": [True, False, None, True],
        }
    )
    frame.to_excel(path, index=False)
    table = read_table(path)
    assert table.columns == {
        "n": ["1", "2", "2.5", ""],
        "text": ["x", "", "007", "NA"],
        "date": ["2024-01-01", "2024-01-02 03:00:00"] * 2,
        "flag": ["True", "False", "", "True"],
    }
    assert table.lines == [2, 3, 4, 5]
    errors = '<c r="A3" t="e"><v>#N/A</v></c>' + cell("B3", "z")
    path = workbook(path, HEADER + row(3, errors) + row(6, cell("B6", "w")))
    with pytest.warns(UserWarning, match="#N/A in A3"):
        table = read_table(path)
    assert table.columns == {"a": ["x", "", ""], "b": ["y", "z", "w"]}
    assert table.lines == [2, 3, 6]


def test_a_sheet_with_a_far_cell_is_refused(tmp_path: Path) -> None:
    far = row(20_000, cell("XFD20000", "x"))
    path = workbook(tmp_path / "a.xlsx", HEADER + far)
    assert path.stat().st_size < 5000
    with refused(str(path), expected="20,000,000 cells", got="327,680,000", remedy="TABLE_CELLS"):
        read_table(path)


def test_a_sheet_with_many_rows_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("EDGEWISE_MAX_SHEET_ROWS", "5000")
    path = workbook(tmp_path / "a.xlsx", HEADER + row(10**9, cell("A1000000000", "x")))
    with refused(str(path), expected="5,000 rows", got="5,001", remedy="EDGEWISE_MAX_SHEET_ROWS"):
        read_table(path)
    path = workbook(tmp_path / "a.xlsx", HEADER + "<row/>" * 6000)
    with refused(str(path), expected="5,000 rows", got="6,002", remedy="EDGEWISE_MAX_SHEET_ROWS"):
        read_table(path)


def test_a_sheet_with_a_huge_cell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    workbook(path, HEADER)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"a")
    # The directory of an archive says how large a file is; a cell of 1.5 GB would take seconds.
    content = path.read_bytes()
    entry = content.rindex(b"xl/sharedStrings.xml") - 46
    path.write_bytes(
        content[: entry + 24] + (3 * GIB // 2).to_bytes(4, "little") + content[entry + 28 :]
    )
    with refused(str(path), expected="536,870,912 bytes", got="1,610,6", remedy="WORKBOOK_BYTES"):
        read_table(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_millions_of_equal_cells_are_refused(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / name
    frame = pandas.DataFrame({"a": [1], "b": [2]}).loc[[0] * 300_000].reset_index(drop=True)
    frame.to_parquet(path) if name == "a.parquet" else frame.to_feather(path)
    assert path.stat().st_size < 200_000
    monkeypatch.setenv("EDGEWISE_MAX_TABLE_CELLS", "500000")
    with refused(str(path), expected="500,000 cells", got="600,000", remedy="TABLE_CELLS"):
        read_table(path)
    monkeypatch.setenv("EDGEWISE_MAX_TABLE_CELLS", "600000")
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 2**25)
    with refused(str(path), expected="0.0 GiB, the free memory", got=name, remedy="fewer rows"):
        read_table(path)


def test_a_list_in_a_cell_is_counted(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "a.parquet"
    pandas.DataFrame({"a": [[0] * 1000, [1]]}).to_parquet(path)
    monkeypatch.setenv("EDGEWISE_MAX_TABLE_CELLS", "1000")
    with refused(str(path), expected="1,000 cells", got="1,001", remedy="TABLE_CELLS"):
        read_table(path)


READERS: dict[str, Callable[[Path], object]] = {
    "a.csv.gz": read_table,
    "a.csv.bz2": lambda path: list(table_rows(path)),
    "a.jsonl.xz": read_table,
    "a.txt.gz": read_edges,
}

PACK: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("name", READERS)
def test_a_long_line_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    # Compress once; the line is as long as many copies.
    block = b"a" * 2**20
    pack: Any = PACK[path.suffix]
    path.write_bytes(pack(b"a,b\n1,2\n") + 17 * pack(block))
    assert path.stat().st_size < 50_000
    with refused(
        str(path), expected="16,777,216 characters", got="line 3", remedy="LINE_CHARACTERS"
    ):
        READERS[name](path)


def test_lines_below_the_limit_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("EDGEWISE_MAX_LINE_CHARACTERS", str(2**21))
    path = tmp_path / "a.csv"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(f"a,b{end}".encode() + f"{'x' * 700_000},1{end}".encode() * 4)
        assert len(read_table(path)) == 4


def test_what_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("EDGEWISE_MAX_UNPACKED_BYTES", "100000")
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a b\n" * 50_000))
    for read in (read_bytes, read_own_text, read_edges, read_table):
        with refused(str(path), expected="100,000 bytes", got="", remedy="EDGEWISE_MAX_UNPACKED"):
            read(path)
    (tmp_path / "a.txt").write_bytes(b"a b\n" * 50_000)  # The user sees the size of this file.
    assert len(read_bytes(tmp_path / "a.txt")) == 200_000


def test_bytes_that_memory_cannot_hold_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 2**20)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(2**21)))
    with refused(str(path), expected="the free memory", got="a.gz", remedy="a part of the file"):
        read_bytes(path)


def test_the_memory_of_a_table_is_checked_before_it_is_read(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 100_000)
    monkeypatch.setattr(pandas, "read_csv", None)
    with refused("data.path", expected="the free memory", got="a.csv", remedy="a part of the rows"):
        read_table(path)


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_header_longer_than_pythons_limit_of_a_cell_is_read(
    delimiter: str, tmp_path: Path
) -> None:
    names = [f"ENSG{number:011}" + "x" * 300 for number in range(500)]
    path = tmp_path / "genes.csv"
    lines = [names, *[[str(number) for number in range(500)]] * 2]
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    assert len(path.read_text().split("\n")[0]) > 131_072
    table = read_table(path)
    assert list(table.frame.columns) == names
    assert table.delimiter == delimiter
    assert len(list(table_rows(path))) == 2


def test_a_long_cell_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "word " * 40_000
    path.write_text(f'text,label\n"{text}",1\nshort,0\n')
    assert read_table(path).columns["text"] == [text, "short"]


# Images


def png(path: Path, width: int, height: int) -> Path:
    """Write a white PNG of one bit per pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + checksum

    sizes = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    line = b"\0" + b"\xff" * ((width + 7) // 8)
    packer = zlib.compressobj(9)
    content = b"".join(packer.compress(line) for _ in range(height)) + packer.flush()
    chunks = [(b"IHDR", sizes + b"\1\0\0\0\0"), (b"IDAT", content), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks))
    return path


@pytest.mark.parametrize("side", [8_000, 13_000])
def test_an_image_of_many_pixels_is_refused(side: int, tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", side, side)
    assert path.stat().st_size < 50_000
    with pytest.raises(ArgumentError, match=r"a\.png"):
        open_image(path)


def test_an_image_within_the_limit_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    path = png(tmp_path / "a.png", 200, 100)
    assert open_image(path).size == (200, 100)
    monkeypatch.setenv("EDGEWISE_MAX_IMAGE_PIXELS", "19999")
    with refused(str(path), expected="19,999 pixels", got="20,000", remedy="IMAGE_PIXELS"):
        open_image(path)
    monkeypatch.delenv("EDGEWISE_MAX_IMAGE_PIXELS")
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 300_000)
    with refused(str(path), expected="the free memory", got="a.png", remedy="size of this image"):
        open_image(path)


# Molecules


def test_smiles_above_the_limits_are_refused(tmp_path: Path) -> None:
    deep = "C(" * 101 + "C" + ")" * 101
    for smiles, unit in (("C" * 20_000, "characters"), (deep, "nested"), ("C" * 501, "atoms")):
        with refused("smiles", expected=unit, got=repr(smiles[:40]), remedy="EDGEWISE_MAX_"):
            parse(smiles)
        assert not is_smiles(smiles)
    assert parse("[H]" + "C" * 500 + "[H]").GetNumAtoms() == 500
    path = tmp_path / "a.sdf"
    from rdkit import Chem

    path.write_text(Chem.MolToMolBlock(Chem.MolFromSmiles("C" * 501)) + "$$$$\n")
    with (
        pytest.warns(UserWarning, match="500 atoms .*record 1 of"),
        refused(str(path), expected="records", got="1 that RDKit cannot read", remedy=""),
    ):
        read_sdf(path)


# Graphs and models


def test_a_power_ends_when_all_walks_are_found() -> None:
    chain = graphs.window(1) - graphs.window(0)
    assert chain.power(10**9).bind(6).num_edges == 36
    line = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), 5)
    assert line.power(10**9).num_edges == 6


def test_an_expander_of_a_large_degree_is_refused() -> None:
    with refused("degree", expected="10,000 sources", got="1,000,000,000", remedy="GRAPH_DEGREE"):
        graphs.expander(10**9)


def test_a_model_of_many_layers_is_refused() -> None:
    with refused("depth", expected="1,000 layers", got="1,000,000,000", remedy="MODEL_STEPS"):
        gpt(10, width=8, depth=10**9, heads=2)


def test_a_model_much_larger_than_its_file_is_not_built() -> None:
    with (
        refused("a", expected="100 weights of its file", got="more than", remedy="configuration"),
        built_within("a", 100),
    ):
        nn.Linear(1200, 1000)
    with built_within("a", 100):
        nn.Linear(10, 10)


@pytest.mark.parametrize("width", [10**9, 10**30, 10**18], ids=str)
def test_a_model_that_memory_cannot_hold_is_named(width: int) -> None:
    with refused("a", expected="free memory", got="", remedy="smaller sizes"), built_within("a"):
        nn.Linear(width, width)


def test_hooks_on_weights_are_removed() -> None:
    hooks = torch.nn.modules.module._global_parameter_registration_hooks
    with pytest.raises(ArgumentError), built_within("a", 0):
        nn.Linear(2000, 2000)
    assert not hooks


def test_an_array_of_nodes_without_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    numpy.savez(path, x=numpy.empty((10**12, 0)), edge_index=numpy.empty((2, 0), int))
    with refused(str(path), expected="free memory", got="1,000,000,000,000 nodes", remedy="disk"):
        NodeFiles()._read_npz(path, labelled=False)


def test_an_array_that_memory_cannot_hold_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = io.BytesIO()
        shape = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**4)}
        numpy.lib.format.write_array_header_1_0(header, shape)
        archive.writestr("x.npy", header.getvalue())
    with refused(str(path), expected="plain arrays", got="", remedy="numpy.savez"):
        _npz_arrays(path)


def test_a_long_id_in_quotes_is_read_from_an_edge_list(tmp_path: Path) -> None:
    limit = csv.field_size_limit(131_072)
    try:
        path = tmp_path / "edges.csv"
        path.write_text(f'"{"a" * 200_000}",b\nb,c\n')
        assert read_edges(path).pairs.shape == (2, 2)
    finally:
        csv.field_size_limit(limit)


# Run folders


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "recipe.json")
    folder = RunFolder(tmp_path)
    path = str(tmp_path / "recipe.json")
    with refused(path, expected="a regular file", got="a named pipe", remedy="a file"):
        folder.read_json("recipe.json")
    (tmp_path / "recipe.json").unlink()
    (tmp_path / "recipe.json").symlink_to("/dev/zero")
    with refused(path, expected="a regular file", got="a link", remedy="copy"):
        folder.read_json("recipe.json")


def test_a_json_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    with path.open("wb") as file:
        file.truncate(2**26 + 1)  # The file has no blocks on the disk.
    with refused(str(path), expected="67,108,864 bytes", got="67,108,865", remedy="JSON_BYTES"):
        RunFolder(tmp_path).read_json("recipe.json")


def test_runs_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.json").write_text("{}")
    for target in ("a", "b"):
        (tmp_path / "a" / "seed-0").symlink_to(tmp_path / target)
        path = str(tmp_path / "a" / "seed-0")
        with refused(path, expected="inside the run folder", got="a link", remedy="copy"):
            RunFolder(tmp_path / "a").runs()
        (tmp_path / "a" / "seed-0").unlink()


# Tokenizers


@pytest.mark.parametrize("name", ["normalizer", "pre_tokenizer", "decoder"])
def test_a_tokenizer_that_grows_text_is_refused(name: str) -> None:
    text = train_tokenizer(["a b"], "bytes", 300).to_str()
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    lists = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
    rule = bytes_ if name == "pre_tokenizer" else double
    rules = json.loads(text) | {name: {"type": "Sequence", lists[name]: [rule] * 40}}
    got = f"{2**40:,} by its {name}"
    with refused("tokenizer.json", expected="64 characters", got=got, remedy="TOKENIZER_GROWTH"):
        parse_tokenizer(json.dumps(rules))


def test_ordinary_tokenizers_do_not_grow_text() -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    tokenizer = train_tokenizer(["a b"], "bytes", 300)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Prepend("▁"),
            normalizers.BertNormalizer(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.ByteLevel()]
    )
    encode_all(parse_tokenizer(tokenizer.to_str()), ["a"])


URL, USER = r"https?://\S+|www\.\S+", r"@\w+"


def growth_of(pattern: str, content: str) -> int:
    return _growth({"type": "Replace", "pattern": {"Regex": pattern}, "content": content})


@pytest.mark.parametrize("place", ["vocab", "added_tokens"])
def test_ids_far_above_the_number_of_tokens_are_refused(place: str) -> None:
    tokenizer = json.loads(train_tokenizer(["a b c"] * 9, kind="words", vocab_size=9).to_str())
    if place == "vocab":
        tokenizer["model"]["vocab"]["a"] = 10**9
    else:
        tokenizer["added_tokens"][0]["id"] = 10**9
    with refused("tokenizer.json", expected="ids up to", got="1000000000", remedy="restore"):
        parse_tokenizer(json.dumps(tokenizer))


def test_normalizers_of_social_media_do_not_grow_text_much() -> None:
    from tokenizers import Regex, normalizers

    tokenizer = train_tokenizer(["a b"], "bytes", 300)
    rules = [(URL, " <url_placeholder_token> "), (USER, "<anonymous user>"), (r"\d+", "<num>")]
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(pattern), content) for pattern, content in rules[:2]]
    )
    encode_all(parse_tokenizer(tokenizer.to_str()), ["a"])
    assert [growth_of(*rule) for rule in rules] == [5, 8, 5]


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a*", "a?", "a??", "a?+", "a{0,9}", "a{5}?", "(?=a)", "(a|)b?", r"\b", "^", "$"),
        *("a|b|", "[[a]]*", "[a[b]]*", "[a&&b]", "(?x) a *", "(?i)a", "(?#a)", r"\Ga*", r"\K"),
        *("[^]a]", "(a", "a{b"),
    ],
)
def test_a_regex_that_may_match_nothing_counts_at_each_character(pattern: str) -> None:
    assert growth_of(pattern, "x" * 9) >= 9


@pytest.mark.parametrize(
    ("pattern", "width"),
    [("abc", 3), (r"[a\]b]{2}c+d", 2), (r"(?:ab)+cd", 2), (r"\p{L}\s+", 2), (r"\ba\b", 1)],
)
def test_the_least_length_of_a_match_is_a_lower_bound(pattern: str, width: int) -> None:
    assert growth_of(pattern, "x" * 12) == 12 // width


class PanicException(BaseException):
    """As the errors of libraries in Rust, which do not derive from Exception."""


def test_a_panic_of_a_library_is_a_named_error() -> None:
    class Panics:
        def encode_batch_fast(self, *_: Any, **__: Any) -> Any:
            raise PanicException("called unwrap() on None")

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

        normalizer = None

    with refused("texts", expected="Unicode", got="unwrap()", remedy="encoding"):
        encode_all(Panics(), ["a"])  # type: ignore[arg-type]
    with (
        refused("f", expected="x", got="PanicException", remedy="again"),
        reading("f", expected="x"),
    ):
        raise PanicException
    with pytest.raises(KeyboardInterrupt), reading("f", expected="x"):
        raise KeyboardInterrupt


# Hugging Face folders

BERT = {
    "vocab_size": 23,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
}


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    transformers.BertModel(transformers.BertConfig(**BERT)).save_pretrained(folder)
    return folder


def copied(folder: Path, copy: Path, **changes: Any) -> Path:
    """Copy a checkpoint, with changes of its configuration."""
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    file = copy / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return copy


def test_more_layers_than_tensors_are_refused(bert_folder: Path, tmp_path: Path) -> None:
    folder = copied(bert_folder, tmp_path, num_hidden_layers=10**9)
    got = "1000000000"
    with refused("config.num_hidden_layers", expected="23", got=got, remedy="config.json"):
        huggingface.load(folder)
    with pytest.raises(ArgumentError, match=got):
        with_hf_model(dataclasses.replace(find("texts"), start=str(folder)))


VALUES = [10**9, 10**30, -1, 0, 1.5, float("nan"), None, "x", [], {}, True, [[]] * 3]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", [*BERT, "hidden_act", "id2label", "model_type", "pad_token_id"])
def test_a_damaged_configuration_is_named(name: str, bert_folder: Path, tmp_path: Path) -> None:
    for value in VALUES:
        folder = copied(bert_folder, tmp_path, **{name: value})
        with case(value), suppress(EdgewiseError):
            huggingface.load(folder)


DAMAGED = {
    "config.json": [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"model_type": []}'],
    "model.safetensors": [b"", b"\xff" * 8, b"\2\0\0\0\0\0\0\0{}", b"\xff" * 7 + b"\x7f{}"],
    "model.safetensors.index.json": [
        b"[]",
        b"{}",
        b'{"weight_map": 3}',
        b'{"weight_map": {"a": 3}}',
    ],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_of_a_checkpoint_is_named(
    name: str, bert_folder: Path, tmp_path: Path
) -> None:
    for content in DAMAGED[name]:
        folder = copied(bert_folder, tmp_path)
        (folder / name).write_bytes(content)
        with case(content[:20]), pytest.raises(EdgewiseError):
            huggingface.load(folder)


# Formulas


@pytest.mark.parametrize("quote", [False, True])
def test_formulas_are_quoted_on_request(quote: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    texts = ["=cmd|'/C calc'!A0", "+1", "@x", "-2+3", "\tx", " =1", "-1.5", "a=b", ""]
    answers = [{"input": text, "=label": -2.5} for text in texts]
    write_answers(path, answers, quote_formulas=quote)
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    mark = "'" if quote else ""
    assert names == ["input", f"{mark}=label"]
    assert [row[0] for row in rows] == [mark + text for text in texts[:6]] + texts[6:]
    assert {row[1] for row in rows} == {"-2.5"}


# Memory


def test_memory_is_limited_by_control_groups(tmp_path: Path) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    new, old = root / "pod" / "job", root / "memory" / "pod"
    for folder in (new, old):
        folder.mkdir(parents=True)
    (new / "memory.max").write_text("max\n")
    (new / "memory.current").write_text("7000\n")
    (root / "pod" / "memory.max").write_text("10000\n")
    (root / "pod" / "memory.current").write_text("9000\n")
    (root / "pod" / "memory.stat").write_text("anon 1\ninactive_file 500\n")
    groups.write_text("0::/pod/job\n")
    assert edgewise._utils.limits._group_memory(groups, root) == 1500
    (old / "memory.limit_in_bytes").write_text("5000\n")
    (old / "memory.usage_in_bytes").write_text("4000\n")
    groups.write_text("4:memory:/pod\n1:cpu:/\n")
    assert edgewise._utils.limits._group_memory(groups, root) == 1000
    groups.write_text("4:memory:/elsewhere\n")  # Inside a container, its group is the root.
    (root / "memory" / "memory.limit_in_bytes").write_text("3000\n")
    (root / "memory" / "memory.usage_in_bytes").write_text("1000\n")
    assert edgewise._utils.limits._group_memory(groups, root) == 2000
    assert edgewise._utils.limits._group_memory(tmp_path / "missing", root) == float("inf")


def test_memory_is_limited_by_the_process() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GIB, hard))
    try:
        assert GIB / 2 < available_memory() <= GIB
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
