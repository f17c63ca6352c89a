"""Labels of every reader: each comes back as its file writes it, or an error names two of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise import ArgumentError
from edgewise.app.files.labels import distinct_labels
from edgewise.app.kinds.graphs import TU
from edgewise.app.kinds.images import ImageFolder
from edgewise.app.kinds.items import InteractionFiles
from edgewise.app.kinds.links import EdgeList
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.nodes import NodeFiles
from edgewise.app.kinds.tags import TagFile
from edgewise.app.kinds.texts import TextTable
from tests.errors import case, refused

pandas = pytest.importorskip("pandas")
pytest.importorskip("tokenizers")

PLAIN = ("other", "third")
LABELS = (
    *("NA", "Na", "nan", "None", "null", "N/A", "007", "7", "7.0", "1e3", "True", "TRUE", " a"),
    *(
        "a ",
        "\u00e9",
        "e\u0301",
        "日本",
        "-1",
        "+1",
        "1_0",
        "0x1F",
        "inf",
        "5%",
        "a|b",
        "a;b",
        "sep",
    ),
)
PAIRS = (
    *(("7", "007"), ("7", "7.0"), ("1e3", "1000"), ("True", "TRUE"), ("a", " a"), ("a", "a ")),
    *(("\u00e9", "e\u0301"), ("NA", "Na"), ("nan", "NaN"), ("None", "null"), ("N/A", "n/a")),
    *(("1", "+1"), ("0", "-0"), ("10", "2"), ("12345678901234567890", "12345678901234567891")),
)
REFUSED = re.compile("one spelling of each|integers")
DISTINCT = {("7", "007"), ("True", "TRUE"), ("NA", "Na"), ("nan", "NaN"), ("10", "2")}


def table(labels: Sequence[str], **columns: Callable[[int], Any]) -> Any:
    cells = {name: [make(i) for i in range(len(labels))] for name, make in columns.items()}
    return pandas.DataFrame({**cells, "label": list(labels)}, dtype=str)


def nodes(folder: Path, labels: Sequence[str]) -> list[str]:
    table(labels, id=lambda i: f"n{i}", size=str).to_csv(folder / "nodes.csv", index=False)
    ids = [f"n{i}" for i in range(len(labels))]
    ring = pandas.DataFrame({"source": ids, "target": [*ids[1:], ids[0]]})
    files = {"nodes": str(folder / "nodes.csv"), "edges": ring}
    return classes(NodeFiles(**files, target="label", task_type="classification"))


def node_arrays(folder: Path, labels: Sequence[str]) -> list[str]:
    count = len(labels)
    edges = np.stack([np.arange(count), (np.arange(count) + 1) % count])
    np.savez(folder / "g.npz", edge_index=edges, x=np.eye(count), y=np.array(labels))
    return classes(NodeFiles(nodes=str(folder / "g.npz"), task_type="classification"))


def molecules(folder: Path, labels: Sequence[str]) -> list[str]:
    pytest.importorskip("rdkit")
    table(labels, smiles=lambda i: "C" * (i % 6 + 1)).to_csv(folder / "m.csv", index=False)
    fields = {"target": "label", "task_type": "classification"}
    spec = MoleculeTable(path=str(folder / "m.csv"), **fields)
    return list(spec.load().targets[0].classes)


def texts(suffix: str) -> Callable[[Path, Sequence[str]], list[str]]:
    def read(folder: Path, labels: Sequence[str]) -> list[str]:
        frame, path = table(labels, text=lambda i: f"the film number {i}"), folder / f"t{suffix}"
        if suffix == ".jsonl":
            lines = (json.dumps(row) for row in frame.to_dict("records"))
            path.write_text("".join(f"{line}\n" for line in lines))
        elif suffix == ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        elif suffix:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        source = str(path) if suffix else frame
        return classes(TextTable(path=source, separator="none", vocab_size=60))

    return read


def lists_of_labels(folder: Path, labels: Sequence[str]) -> list[str]:
    pairs = zip(labels, [*labels[1:], labels[0]], strict=True)
    cells = [json.dumps(pair if i % 3 else pair[:1]) for i, pair in enumerate(pairs)]
    frame = table(cells, text=lambda i: f"the film number {i}")
    frame.to_csv(folder / "t.csv", index=False)
    spec = TextTable(path=str(folder / "t.csv"), target="label", vocab_size=60)
    return [target.name for target in spec.load().targets]


def tags(folder: Path, labels: Sequence[str]) -> list[str]:
    frame = table(labels, word=lambda i: f"w{i}", sentence=lambda i: str(i // 3))
    frame.to_csv(folder / "t.csv", index=False)
    return classes(TagFile(path=str(folder / "t.csv"), target="label", vocab_size=60))


def tags_of_lines(folder: Path, labels: Sequence[str]) -> list[str]:
    lines = [f"w{i}\t{label}\n" + "\n" * (i % 3 == 2) for i, label in enumerate(labels)]
    (folder / "t.tsv").write_text("".join(lines))
    return classes(TagFile(path=str(folder / "t.tsv"), vocab_size=60))


def images(folder: Path, labels: Sequence[str]) -> list[str]:
    image = pytest.importorskip("PIL.Image")
    names = {label.replace("/", "-"): label for label in labels}  # A folder has no slash.
    for i, name in enumerate(names):
        (folder / name).mkdir()
        for number in range(9):
            image.new("L", (4, 4), 9 * i + number).save(folder / name / f"{number}.png")
    return [names[name] for name in classes(ImageFolder(str(folder), image_size=4))]


def links(folder: Path, labels: Sequence[str]) -> list[str]:
    others = [f"n{i}" for i in range(len(labels))]
    frame = pandas.DataFrame({"source": others, "target": list(labels)})
    lines = (json.dumps(row) for row in frame.to_dict("records"))
    (folder / "e.jsonl").write_text("".join(f"{line}\n" for line in lines))
    ids = EdgeList(path=str(folder / "e.jsonl")).load().preprocessing["ids"]
    return [name for name in ids if name not in others]


def items(folder: Path, labels: Sequence[str]) -> list[str]:
    pytest.importorskip("pyarrow")
    others = [f"item {i}" for i in range(4)]
    rows = [(f"u{i}", item) for i, label in enumerate(labels) for item in (label, *others)]
    pandas.DataFrame(rows, columns=["user", "item"]).to_parquet(folder / "e.parquet")
    read = InteractionFiles(path=str(folder / "e.parquet")).load().preprocessing["items"]
    return [item for item in read if item not in others]


def graphs(folder: Path, labels: Sequence[str]) -> list[str]:
    raw = folder / "MINE" / "raw"
    raw.mkdir(parents=True)
    count = len(labels)
    pairs = "".join(f"{2 * i + 1},{2 * i + 2}\n{2 * i + 2},{2 * i + 1}\n" for i in range(count))
    (raw / "MINE_A.txt").write_text(pairs)
    indicator = "".join(f"{i}\n{i}\n" for i in range(1, count + 1))
    (raw / "MINE_graph_indicator.txt").write_text(indicator)
    (raw / "MINE_graph_labels.txt").write_text("".join(f"{label}\n" for label in labels))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(folder))
        return classes(TU(name="MINE", folds=3))


def classes(spec: Any) -> list[str]:
    return list(spec.load().preprocessing["labels"])


READERS: dict[str, Callable[[Path, Sequence[str]], list[str]]] = {
    "nodes": nodes,
    "node_arrays": node_arrays,
    "molecules": molecules,
    **{f"texts{suffix}": texts(suffix) for suffix in ("", ".csv", ".tsv", ".jsonl", ".parquet")},
    "lists_of_labels": lists_of_labels,
    "tags": tags,
    "tags_of_lines": tags_of_lines,
    "images": images,
    "links": links,
    "items": items,
    "graphs": graphs,
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("reader", READERS)
def test_each_label_comes_back_unchanged_or_is_named_in_an_error(
    reader: str, tmp_path: Path
) -> None:
    for number, labels in enumerate([*((label, *PLAIN) for label in LABELS), *PAIRS]):
        written = [labels[i % len(labels)] for i in range(36)]
        folder = tmp_path / str(number)
        folder.mkdir()
        with case(labels):
            try:
                read = READERS[reader](folder, written)
            except ArgumentError as error:
                assert REFUSED.search(str(error)), error  # noqa: PT017 - an error is no failure
                assert labels not in DISTINCT or reader == "graphs"
                continue
            assert sorted(read) == sorted(labels)


@given(st.lists(st.text("Aa 0.17+e\u00e9\u0301", min_size=1, max_size=4), max_size=6))
def test_distinct_labels_are_all_labels_or_an_error_names_two(labels: list[str]) -> None:
    try:
        distinct = distinct_labels(labels, "data.target", "t.csv")
    except ArgumentError as error:
        assert "one spelling of each label" in str(error)  # noqa: PT017 - an error is no failure
        return
    assert sorted(distinct) == sorted(set(labels))


def test_labels_are_sorted_as_numbers_or_as_texts() -> None:
    assert distinct_labels(["10", "9", "-1", "2.5"], "y", "t.csv") == ["-1", "2.5", "9", "10"]
    assert distinct_labels(["b", "10", "9"], "y", "t.csv") == ["10", "9", "b"]
    for labels, got in (
        (["e\u0301", "\u00e9"], "'e\\u0301' and '\\xe9'"),
        (["7", "7.0"], "'7' and '7.0'"),
    ):
        with refused("y", expected="t.csv", got=got, remedy="same way"):
            distinct_labels(labels, "y", "t.csv")
