"""Descriptions of recipe fields, read from docstrings of the classes that define the fields."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
MARKUP = re.compile(r":\w+:`~?(?:\w+\.)*([^`]+)`")
REFERENCE = re.compile(r"[Ss]ee (\w+)[.;]? ?(.*)")


def field_meanings(part: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each argument in the docstrings of a function or class.

    The sections ``Args`` and ``Attributes`` are read. A class inherits the descriptions of its base
    classes. A description ``see :class:`Folds``` is replaced by the description of the same
    argument in the class ``Folds``, which must be a base class or imported in the module.

    Args:
        part: function that builds a model, or class of data, task, optimizer, schedule or trainer
            settings.
    """
    # For a function made by checked_factory, read the docstring of the model class.
    part = inspect.unwrap(part)
    found: dict[str, str] = {}
    for owner in part.__mro__ if isinstance(part, type) else (part,):
        text = inspect.cleandoc(owner.__doc__ or "") + "\n"
        for section in SECTION.findall(text):
            for names, meaning in ENTRY.findall(section):
                for name in names.split(", "):
                    if name not in found:
                        found[name] = _resolved(_plain(meaning), name, owner)
    return found


def _resolved(meaning: str, name: str, owner: Any) -> str:
    """Return a description; ``see :class:`Folds``` is replaced by the description in ``Folds``.

    Args:
        meaning: description, in plain text.
        name: name of the described argument.
        owner: class or function whose docstring contains the description.
    """
    match = REFERENCE.match(meaning)
    if not match:
        return meaning
    other, rest = match.groups()
    bases = {base.__name__: base for base in getattr(owner, "__mro__", ())}
    target = bases.get(other) or getattr(sys.modules[owner.__module__], other, None)
    known = {} if target is None else field_meanings(target)
    described = known.get(name) or known.get(name.removeprefix("split_"))  # Folds has `seed`
    return "; ".join(part for part in (described or f"see {other}", rest) if part)


def _plain(text: str) -> str:
    """Return text from a docstring on one line, without markup."""
    return " ".join(MARKUP.sub(r"\1", text).replace("``", "").split()).rstrip(".")
