"""Parser of the C header ``abi.h``, which finds the offset of each field in the C structures.

The compiled library contains the text of this header, so Python does not declare the structures
again.
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
    """C structure: its size in bytes, and ``(offset, format)`` of each field."""

    size: int
    fields: dict[str, tuple[int, str]]

    @cached_property
    def zeros(self) -> dict[str, int]:
        """Dict from all field names to 0; only the field ``size``, if present, is the size."""
        zeros = dict.fromkeys(self.fields, 0)
        return {**zeros, "size": self.size} if "size" in zeros else zeros

    @cached_property
    def packed(self) -> struct.Struct:
        """``struct.Struct`` that packs the values of all fields, in the order of the structure."""
        letters = "".join([letter for _, letter in self.fields.values()])
        packed = struct.Struct(f"@{letters}0q")  # 0q aligns the end as in C
        offset, letter = list(self.fields.values())[-1]
        last = struct.calcsize("@" + letters) - struct.calcsize(letter)
        assert (packed.size, last) == (self.size, offset)
        return packed


def parse(header: str) -> dict[str, Structure]:
    """Return the structures that a C header declares, by name.

    Declarations have the form ``typedef struct { type name, name; } title;``.
    """
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
