"""The public names and their signatures: ``python -m tests.public_api`` writes the list again."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "public_api.txt"


def public_api() -> list[str]:
    """The objects of the API reference, one a line, with their methods and properties."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    generated = runpy.run_path(str(ROOT / "docs" / "_ext" / "generated_pages.py"))
    objects = {name: value for name, (_, value) in generated["homes"]().items()}
    classes = {value for value in objects.values() if inspect.isclass(value)}
    lines = []
    for name, value in objects.items():
        if not inspect.isclass(value):
            lines.append(name + (arguments(value) if inspect.isroutine(value) else ""))
            continue
        constructor = is_ours(value, "__init__") or is_ours(value, "__new__")
        lines.append(name + (arguments(value) if constructor else ""))
        lines += [f"{name}.{member}" for member in members(value, classes)]
    return sorted(set(lines))


def members(value: type, classes: set[type]) -> Iterator[str]:
    """Those of the class, and of base classes that are not in the list themselves."""
    for base in value.__mro__:
        if not base.__module__.startswith("edgewise") or (base is not value and base in classes):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or inspect.isclass(member):
                continue
            if isinstance(member, staticmethod | classmethod):
                yield name + arguments(getattr(value, name))
            elif inspect.isfunction(member):
                yield name + arguments(member).replace("(self, ", "(").replace("(self)", "()")
            elif hasattr(member, "__get__"):  # properties
                yield name


def is_ours(value: type, method: str) -> bool:
    """Whether Edgewise defines the method, not Python or another library, in some version."""
    owner = next(base for base in value.__mro__ if method in vars(base))
    return owner.__module__.startswith("edgewise")


def arguments(value: Any) -> str:
    """Names, kinds and defaults of the arguments: a wider type breaks no caller."""
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return re.sub(r" at 0x[0-9a-f]+", "", str(plain))


if __name__ == "__main__":
    LIST.write_text("\n".join(public_api()) + "\n")
