"""N-Triples, a text format of knowledge graphs: one line ``subject relation object .`` per edge."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TextIO

from edgewise._utils.errors import reading
from edgewise.app.files.files import unreadable

SUFFIXES = (".nt", ".nt.gz")
ADDRESS = r'<(?:[^<>"{}|^`\\\s]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>'
LITERAL = r'"(?:[^"\\\n\r]|\\.)*+"(?:@[A-Za-z0-9-]++|\^\^<[^<>"\s]*+>)?'
TERM = rf'({ADDRESS}|_:[^\s<>"]++|{LITERAL})'  # Possessive, so that a wrong line fails at once.
TRIPLE = re.compile(rf"\s*{TERM}\s*{TERM}\s*{TERM}\s*\.\s*(?:#.*)?")

Triple = tuple[str, str, str]


def is_triples(path: object) -> bool:
    """Return whether a path names a file of N-Triples."""
    return isinstance(path, Path) and path.name.endswith(SUFFIXES)


def read_triples(path: Path) -> list[Triple]:
    """Return the triples (subject, relation, object) of a file; addresses without ``<>``.

    Literals keep their quotation marks and types, such as ``"1999"^^<...#integer>``.

    Raises:
        ArgumentError: a line is not a triple.
    """
    remedy = "write the file again, in UTF-8"
    triples = []
    with (
        reading(path, expected="a text file in UTF-8", remedy=remedy),
        opened_triples(path) as file,
    ):
        for number, line in enumerate(file, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            triple = TRIPLE.fullmatch(line.rstrip("\n"))
            if triple is None:
                raise unreadable(
                    path,
                    expected="lines `<subject> <relation> <object> .`",
                    got=repr(line[:60]),
                    line=number,
                    remedy="correct this line, or convert the file, for example with rdflib",
                )
            subject, relation, target = (term.strip("<>") if term[0] == "<" else term
                                         for term in triple.groups())  # fmt: skip
            triples.append((subject, relation, target))
    return triples


def opened_triples(path: Path) -> TextIO:
    """Open a file of N-Triples, which may be compressed."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def short_name(relation: str) -> str:
    """Return the last part of an address, such as ``author`` of ``http://example.org/#author``."""
    return re.split(r"[#/]", relation.rstrip("#/"))[-1] or relation
