"""Offsets of the fields of the kernels' C structures, parsed from the header that declares them.

The library contains the text of ``abi.h``, so the structures are not declared again in Python.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import cached_property

FORMATS = {"int32_t": "i", "int64_t": "q", "uint64_t": "Q", "double": "d"}
"""Format characters of :mod:`struct` for C types; a pointer is ``P``."""


@dataclass(frozen=True)
class Structure:
    """C structure: its size in bytes, and offset and format of its fields by (dotted) name."""

    size: int
    fields: dict[str, tuple[int, str]]

    @cached_property
    def zeros(self) -> dict[str, int]:
        """All fields by name with value 0 (null), except ``size``."""
        zeros = dict.fromkeys(self.fields, 0)
        return {**zeros, "size": self.size} if "size" in zeros else zeros

    @cached_property
    def packed(self) -> struct.Struct:
        """Packer of the values of all fields, in order."""
        letters = "".join([letter for _, letter in self.fields.values()])
        packed = struct.Struct(f"@{letters}0q")  # 0q aligns the end as in C
        offset, letter = list(self.fields.values())[-1]
        last = struct.calcsize("@" + letters) - struct.calcsize(letter)
        assert (packed.size, last) == (self.size, offset)
        return packed


def parse(header: str) -> dict[str, Structure]:
    """Parse the structures of a C header: ``typedef struct { type name, name; } title;``."""
    code = re.sub(r"//[^\n]*", "", header)
    structures: dict[str, Structure] = {}
    for body, title in re.findall(r"typedef struct \{(.*?)\} (\w+);", code, re.DOTALL):
        fields: dict[str, tuple[int, str]] = {}
        end = 0
        for base, names in re.findall(r"(?:const )?(\w+)([^;]+);", body):
            pointer = "*" in names
            for name in re.findall(r"\w+", names):
                if base in structures and not pointer:
                    inner = structures[base]
                    end = _aligned(end, 8)
                    for field, (offset, letter) in inner.fields.items():
                        fields[f"{name}.{field}"] = end + offset, letter
                    end += inner.size
                else:
                    letter = "P" if pointer else FORMATS[base]
                    width = struct.calcsize(letter)
                    end = _aligned(end, width)
                    fields[name] = end, letter
                    end += width
        structures[title] = Structure(_aligned(end, 8), fields)
    return structures


def _aligned(offset: int, width: int) -> int:
    return -(-offset // width) * width
