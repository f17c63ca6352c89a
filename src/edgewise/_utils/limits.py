"""Limits on what files and values may ask for, the free memory, and the sizes of models.

A file from a stranger may be small and still ask for hours of work or terabytes of memory. Each
limit in :data:`LIMITS` is checked before the work starts. An environment variable changes it.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise._utils.errors import ArgumentError

try:
    import resource
except ImportError:  # Windows has no such module.
    resource = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Limit:
    """Largest size that is accepted."""

    name: str
    default: int
    unit: str
    protects: str

    @property
    def variable(self) -> str:
        """Environment variable that changes the limit."""
        return f"EDGEWISE_MAX_{self.name.upper()}"

    @property
    def value(self) -> int:
        """Limit in force: the default, or the value of the environment variable."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text)):
            raise ArgumentError(
                self.variable,
                expected="a positive integer",
                got=repr(text[:40]),
                remedy=f"unset {self.variable}, or set it to a number of {self.unit}",
            )
        return int(text)

    def check(self, size: float, argument: object, what: str = "") -> None:
        """Raise ArgumentError if a size is above the limit; ``what`` describes the input."""
        if size > self.value:
            of_input = f" {what}" if what else ""
            raise ArgumentError(
                str(argument),
                expected=f"at most {self.value:,} {self.unit}",
                got=f"{size:,}{of_input}",
                remedy=f"if you trust the source, set the environment variable {self.variable} to "
                "a larger number",
            )


LIMITS: dict[str, Limit] = {
    limit.name: limit
    for limit in (
        Limit(
            "unpacked_bytes",
            2**30,
            "bytes of an unpacked file",
            "time and memory for .gz, .bz2, .xz and .zip files",
        ),
        Limit(
            "line_characters",
            2**24,
            "characters in a line or cell of a table",
            "memory for CSV, TSV and JSON lines",
        ),
        Limit(
            "table_cells",
            20_000_000,
            "cells (rows times columns)",
            "time and memory for Parquet, Feather, Excel and SQL",
        ),
        Limit(
            "workbook_bytes",
            2**29,
            "bytes of an unpacked Excel file",
            "time and memory for the XML of .xlsx files",
        ),
        Limit(
            "sheet_rows",
            2**20,
            "rows, the maximum of Excel",
            "time for the rows of .xlsx files",
        ),
        Limit(
            "image_pixels",
            50_000_000,
            "pixels (width times height)",
            "time and memory for decoding images",
        ),
        Limit(
            "sound_bytes",
            2**26,
            "bytes of a WAV file",
            "time and memory for the spectrograms of recordings",
        ),
        Limit(
            "smiles_characters",
            10_000,
            "characters of a SMILES",
            "time and memory of RDKit's parser",
        ),
        Limit(
            "smiles_nesting",
            100,
            "nested branches of a SMILES",
            "memory of RDKit's parser",
        ),
        Limit(
            "molecule_atoms",
            500,
            "atoms (without hydrogens) of a molecule",
            "time for descriptors and scaffolds, which grows with the cube of the atoms",
        ),
        Limit(
            "json_bytes",
            2**26,
            "bytes of a JSON file",
            "memory for recipe.json, config.json, tokenizer.json and other files of a folder",
        ),
        Limit(
            "tokenizer_growth",
            64,
            "characters that the rules of a tokenizer make of one",
            "time and memory for encoding and decoding text",
        ),
        Limit(
            "model_steps",
            1000,
            "layers, hops or other repetitions",
            "time and memory for building and running a model",
        ),
        Limit(
            "graph_degree",
            10_000,
            "sources of a target in a random graph",
            "time for building expander graphs",
        ),
    )
}
"""All limits, by name."""

SAVED_FACTOR = 4
"""A model may have this many times the weights of its file, because some are built and dropped."""
SAVED_SLACK = 2**20  # Number of further weights, for small models.


@contextmanager
def built_within(argument: str, saved: int | None = None) -> Iterator[None]:
    """In a ``with`` block, stop building a model that is too large.

    Weights are counted when modules register them, before they are initialised. ArgumentError is
    raised if the model has many more weights than ``saved``, the number in its file, or exceeds
    free memory.
    """
    from torch import Tensor, nn
    from torch.nn.modules import module as hooks

    weights = num_bytes = 0
    free = available_memory()
    largest = math.inf if saved is None else SAVED_FACTOR * saved + SAVED_SLACK

    def count(_module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        nonlocal weights, num_bytes
        if tensor is None or tensor.is_meta or isinstance(tensor, nn.UninitializedParameter):
            return
        weights += tensor.numel()
        num_bytes += tensor.nbytes
        if weights > largest:
            raise ArgumentError(
                argument,
                expected=f"sizes of a model with the {saved:,} weights of its file",
                got=f"a model with more than {weights:,} weights",
                remedy="use the configuration that was saved with these weights",
            )
        if num_bytes > free:
            raise _too_large(argument, f"more than {weights:,} weights")

    handles = [
        hooks.register_module_parameter_registration_hook(count),
        hooks.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    except (MemoryError, OverflowError, RecursionError) as error:
        raise _too_large(argument, f"{type(error).__name__}: {error}") from error
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError) or not ALLOCATION.search(str(error)):
            raise
        raise _too_large(argument, str(error).splitlines()[0][:120]) from error
    finally:
        for handle in handles:
            handle.remove()


ALLOCATION = re.compile("allocate memory|[Oo]verflow|out of memory|exceeds")
"""Words in PyTorch's errors about tensors that are too large."""


def _too_large(argument: str, got: str) -> ArgumentError:
    return ArgumentError(
        argument,
        expected=f"a model that fits in {available_memory() / 2**30:.1f} GiB, the free memory",
        got=got,
        remedy="choose smaller sizes, or a machine with more memory",
    )


def check_memory(argument: str, needed: float, what: str, remedy: str) -> None:
    """Raise ArgumentError if ``what`` needs more bytes than the free memory."""
    available = available_memory()
    if needed > available:
        raise ArgumentError(
            argument,
            expected=f"at most {available / 2**30:.1f} GiB, the free memory",
            got=f"{what}, which needs about {needed / 2**30:.1f} GiB",
            remedy=remedy,
        )


def available_memory() -> float:
    """Return the bytes that this process can still use; infinity if it is unknown."""
    return max(0.0, min(_machine_memory(), _process_memory(), _group_memory()))


def _machine_memory() -> float:
    try:
        fields = Path("/proc/meminfo").read_text().split()
        return float(fields[fields.index("MemAvailable:") + 1]) * 1024
    except (OSError, ValueError):
        try:
            return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return math.inf


def _process_memory() -> float:
    """Return the address space that the resource limits of this process leave."""
    if resource is None:
        return math.inf
    try:
        pages = [int(count) for count in Path("/proc/self/statm").read_text().split()]
    except (OSError, ValueError):
        pages = [0] * 7
    page = resource.getpagesize()
    free = math.inf
    # The columns of statm: all pages, and the pages of data and stack.
    for kind, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        largest, _ = resource.getrlimit(kind)
        if largest != resource.RLIM_INFINITY:
            free = min(free, largest - used * page)
    return free


GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of limit and use of a control group, and the entry of ``memory.stat`` that the kernel can
free: version 2, then version 1."""


def _group_memory(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float:
    """Return the memory that the control groups (containers) of this process leave."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return math.inf
    free = math.inf
    for _, controllers, name in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        # A container may see its own group as the root, so every ancestor is read, too.
        folder = base / name.lstrip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(base):
                break
            free = min(free, _free_in(group))
    return free


def _free_in(group: Path) -> float:
    for largest, used, freeable in GROUP_FILES:
        try:
            size = int((group / largest).read_text())
            in_use = int((group / used).read_text())
        except (OSError, ValueError):  # There is no such file, or it contains "max".
            continue
        try:
            fields = (group / "memory.stat").read_text().split()
            in_use -= int(fields[fields.index(freeable) + 1])
        except (OSError, ValueError):
            pass
        return size - in_use
    return math.inf


def check_regular(path: Path) -> None:
    """Raise ArgumentError unless a path is a regular file: reading a pipe may never end."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return
    kinds = {"a folder": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    raise ArgumentError(
        str(path),
        expected="a regular file",
        got=next((kind for kind, is_kind in kinds.items() if is_kind(mode)), "a device"),
        remedy="give the path of a file",
    )


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object; use it in a ``with reading(...)`` block."""
    check_regular(path)
    LIMITS["json_bytes"].check(path.stat().st_size, path)
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}")
    return value
