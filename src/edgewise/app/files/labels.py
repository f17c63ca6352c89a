"""Labels of classes: each is the text of its cell, without any change."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable
from decimal import Decimal

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.reading import log
from edgewise.app.files.table import is_missing

# A number with a leading 0, such as 007, is a code, not a number.
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")


def distinct_labels(labels: Iterable[str], argument: str, source: str) -> list[str]:
    """Return the distinct labels, sorted: numbers by their value, other labels as text. Raises
    ArgumentError if two labels differ only in white space at their ends, in the spelling of one
    number (7 and 7.0), or in the Unicode form of a character.
    """
    distinct = sorted(set(labels))
    spelling: dict[Hashable, str] = {}
    for label in distinct:
        other = spelling.setdefault(_meaning(label), label)
        if other != label:
            raise ArgumentError(
                argument,
                expected=f"one spelling of each label in {source}",
                got=_shown(other, label),
                remedy="write this label in the same way in all rows",
            )
    for label in distinct:
        if is_missing(label):
            log.info(f"{argument}: {label!r} in {source} is a label, not a missing value")
    if all(map(NUMBER.fullmatch, distinct)):
        distinct.sort(key=Decimal)
    return distinct


def _shown(first: str, second: str) -> str:
    """Return both texts in quotes, with escapes if they look the same."""
    same = unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second)
    show = ascii if same else repr
    return f"{show(first[:60])} and {show(second[:60])}"


def id_meaning(name: str) -> Hashable:
    """Return a key that is equal for two spellings of an id, such as ``01``, ``1`` and ``1.0``."""
    return _meaning(re.sub("^0+(?=[0-9])", "", name.strip()))


def _meaning(label: str) -> Hashable:
    """Return a key that is equal for labels that a reader would take for the same label."""
    text = unicodedata.normalize("NFC", label.strip())
    return Decimal(text) if NUMBER.fullmatch(text) else text
