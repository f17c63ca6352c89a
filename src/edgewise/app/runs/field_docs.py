"""Descriptions of recipe fields, read from docstrings of the classes that define the fields."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
MARKUP = re.compile(r":\w+:`~?(?:\w+\.)*([^`]+)`")
REFERENCE = re.compile(r"[Ss]ee (\w+)[.;]? ?(.*)")


@cache
def field_meanings(owner: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each argument in the docstrings of a function or class.

    A class inherits the descriptions of its base classes. A description ``see :class:`Folds``` is
    replaced by that of the same argument in the class ``Folds``, which must be a base class or
    imported in the module.
    """
    # For a function made by checked_factory, read the docstring of the model class.
    owner = inspect.unwrap(owner)
    meanings: dict[str, str] = {}
    for documented in owner.__mro__ if isinstance(owner, type) else (owner,):
        text = inspect.cleandoc(documented.__doc__ or "") + "\n"
        for section in SECTION.findall(text):
            for names, markup in ENTRY.findall(section):
                meaning = " ".join(MARKUP.sub(r"\1", markup).replace("``", "").split()).rstrip(".")
                for name in names.split(", "):
                    if name not in meanings:
                        meanings[name] = _resolved(meaning, name, documented)
    return meanings


def _resolved(meaning: str, name: str, owner: Any) -> str:
    """Replace "see Folds" by the description of ``name`` in the class ``Folds``."""
    match = REFERENCE.match(meaning)
    if not match:
        return meaning
    class_name, remainder = match.groups()
    bases = {base.__name__: base for base in getattr(owner, "__mro__", ())}
    target = bases.get(class_name) or getattr(sys.modules[owner.__module__], class_name, None)
    meanings = {} if target is None else field_meanings(target)
    described = meanings.get(name) or meanings.get(name.removeprefix("split_"))  # Folds has `seed`
    return "; ".join(filter(None, (described or f"see {class_name}", remainder)))
