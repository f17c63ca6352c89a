"""Words with tags of your own: the three forms of a file, and refusals."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgewise.app.kinds.tags import TagFile
from tests.errors import refused

SENTENCES = [[("Do", "AUX"), ("n't", "PART"), ("!", "PUNCT")], [("Yes", "INTJ")]]


def read(path: Path, **fields: object) -> list[list[tuple[str, str]]]:
    return TagFile(path=str(path), **fields)._read(path)


def test_lines_of_a_word_and_its_tag(tmp_path):
    lines = "Do\tAUX\nn't\tPART\n!\tPUNCT\n\n\nYes\tINTJ\n"
    for name, content in (
        ("tabs.txt", lines),
        ("spaces.conll", "-DOCSTART- -X- O O\n\n" + lines.replace("\t", " NN x ")),
        ("dos.txt", lines.replace("\n", "\r\n")),
    ):
        (tmp_path / name).write_bytes(content.encode())
        assert read(tmp_path / name) == SENTENCES, name
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(lines.encode()))
    assert read(tmp_path / "packed.txt.gz") == SENTENCES


def test_conllu_by_its_ten_columns(tmp_path):
    row = "{}\t{}\tlemma\t{}\t{}\t_\t0\troot\t_\t_"
    rows = [
        [row.format(i, word, tag, tag.lower()) for i, (word, tag) in enumerate(words, 1)]
        for words in SENTENCES
    ]
    text = "# text = Don't!\n" + "\n\n".join("\n".join(each) for each in rows) + "\n\n"
    (tmp_path / "a.txt").write_text(text)
    assert read(tmp_path / "a.txt") == SENTENCES
    assert read(tmp_path / "a.txt", target="xpos")[1] == [("Yes", "intj")]
    with refused("data.target", expected="upos", got="'pos'", remedy="did you mean"):
        read(tmp_path / "a.txt", target="pos")


def test_a_table_with_a_column_of_sentences(tmp_path):
    rows = [f'{n},"{word}",{tag}' for n, words in enumerate(SENTENCES) for word, tag in words]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["sentence_id,token,pos", *rows]))
    assert read(path) == SENTENCES
    path.write_text("\n".join(["n,form,first,second", *(f"{row},x" for row in rows)]))
    with refused(
        "data.target", expected="a.csv", got="'n', 'first', 'second'", remedy="--data.target"
    ):
        read(path)
    assert read(path, target="first", sentence="n") == SENTENCES
    path.write_text("\n".join(["sentence,word,tag", *rows, "3,,X"]))
    with refused(str(path), expected="column 'word'", got="none in line 6", remedy="drop"):
        read(path)


def test_files_without_sentences_or_tags(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Do\tAUX\nn't\n")
    with refused(str(path), expected="its tag in each line", got='"n\'t" in line 2', remedy=""):
        read(path)
    path.write_text("Do\tAUX\nn't\tPART\n")
    with refused(str(path), expected="several sentences", got="of 2 words", remedy="blank line"):
        read(path)
    with refused("data.path", expected="words and tags", got="none", remedy="--data.path"):
        TagFile().load()


def test_sentences_are_dealt_and_the_tags_kept(tmp_path):
    pytest.importorskip("tokenizers")
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"word{i % 7} A\nother B" for i in range(40)))
    splits = TagFile(path=str(path), kind="words", vocab_size=None).load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [33, 3, 4]
    assert splits.preprocessing == {"labels": ["A", "B"]}


def test_one_tag_for_all_words_is_refused(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("Dogs\tX\nbark\tX\n\nCats\tX\nsleep\tX\n\n")
    got = "'X' for all words"
    with refused("data.target", expected="two tags in words.txt", got=got, remedy="--data.target"):
        TagFile(path=str(path)).read_splits()


ORDERS = [("word", "tag", "sentence"), ("sentence", "word", "tag"), ("tag", "sentence_id", "form")]


@pytest.mark.parametrize("names", ORDERS, ids=" ".join)
@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".txt"])
def test_columns_are_found_by_name_in_a_file_with_blank_lines(names, suffix, tmp_path):
    path, delimiter = tmp_path / f"a{suffix}", "," if suffix == ".csv" else "\t"
    lines = [delimiter.join(names)]
    for number, sentence in enumerate(SENTENCES):
        for word, tag in sentence:
            cells = {"tag": tag, "word": word, "form": word}
            lines.append(delimiter.join(cells.get(name, str(number)) for name in names))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    assert read(path) == SENTENCES


@pytest.mark.parametrize("suffix", [".tsv", ".conll"])
def test_a_header_names_the_columns_of_lines(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    rows = [[f"{tag.lower()}\t\t{tag}\t{word}" for word, tag in words] for words in SENTENCES]
    path.write_text(
        "\n# a comment\nxpos\tlemma\tpos\tword\n" + "\n\n".join(map("\n".join, rows)) + "\n"
    )
    assert read(path) == SENTENCES
    assert read(path, target="xpos")[1] == [("Yes", "intj")]
    with refused("data.target", expected="header", got="'depth'", remedy="header"):
        read(path, target="depth")
    path.write_text(path.read_text() + "x\t\tX\n")
    with refused(str(path), expected="its tag", got="line 9", remedy=""):
        read(path)
