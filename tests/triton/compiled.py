"""Compile the kernels ahead of time, for machines that are not here.

    python -m tests.triton.compiled [--short] [--json kernels.json]

What is compiled is what calls of the primitive would launch (``launch.recorded``). NVIDIA's
assembler says how many registers a kernel takes and whether it keeps some of them in memory
(spills), AMD's compiler writes the same into its assembly. Vector widths are counted in the PTX.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

os.environ["EDGEWISE_TRITON"] = "1"  # calls on the CPU are then for these kernels

import edgewise as ew
from edgewise import graphs
from edgewise.engines.triton_rows import layout
from edgewise.engines.triton_rows.launch import Launch, recorded
from edgewise.graphs import Graph

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
REGISTERS, WARPS, PROGRAMS = 65536, 64, 32
"""Of a multiprocessor of either NVIDIA target: what it has, and the most that it runs at once."""
SHARED = {"sm_80": 164 << 10, "sm_90": 228 << 10}
RESERVED = 1 << 10
"""Bytes of it that each program takes besides its own."""
MOST_SPILLS = 8
"""Allowed bytes of spilled registers, stores and loads together: one register of 32 bits.

NVIDIA's assembler spills one if more programs fit on a multiprocessor then.
"""
WAVE_REGISTERS, WAVES, UNITS = 512, 8, 4
"""Of a compute unit of gfx942: registers and waves of each of its four SIMD units."""
TYPES = {
    **{torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16"},
    **{torch.float16: "fp16", torch.int32: "i32", torch.int64: "i64"},
}


def graph() -> Graph:
    """Rows of every kind, on both sides."""
    long = torch.arange(2 * layout.PIECE) % 40
    source = torch.cat([torch.zeros_like(long), long, torch.arange(40).repeat(20)])
    target = torch.cat([long, torch.zeros_like(long), torch.arange(800) % 100])
    return graphs.edges(torch.stack([source, target]), 100)


Run = Callable[[Graph], None]


def attention(
    heads: int = 8,
    width: int = 16,
    dtype: torch.dtype = torch.float32,
    score: Any = "dot",
    **given: str,
) -> Run:
    """A call of ``attend``, forward and backward; terms as in ``tests/engines/cases.py``."""

    def run(over: Graph) -> None:
        value_width = 8 if width == 1 else width
        widths = (width, width, value_width)
        nodes = [
            torch.randn(over.num_targets, heads, n, dtype=dtype, requires_grad=True) for n in widths
        ]
        options: dict[str, Any] = {}
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        edges = over.num_edges

        def leaf(*shape: int, kind: torch.dtype = wide) -> torch.Tensor:
            return torch.randn(shape, dtype=kind, requires_grad=True)

        if score == "none":
            options["score"] = None
        elif score != "dot":
            weight = None if width == 1 else leaf(heads, width)
            options["score"] = ew.Additive(score, weight)
        for name in ("bias", "gain"):
            if given.get(name) == "table":
                options[name] = ew.TableBias(torch.zeros(edges, dtype=torch.long), leaf(5, heads))
            elif name in given:
                options[name] = leaf(edges, heads)
        for name, size in (("edge_key", width), ("edge_value", value_width)):
            if given.get(name) == "projected":
                options[name] = ew.Projected(leaf(edges, 16), leaf(heads, size, 16))
            elif name in given:
                options[name] = leaf(edges, heads, size, kind=dtype)
        if "dropout" in given:
            options["dropout"] = float(given["dropout"])
        if given.get("operation") == "weights":
            ew.attention_weights(*nodes[:2], over, **options).sum().backward()
        else:
            out, lse = ew.attend_with_lse(*nodes, over, engine="rows", **options)
            (out.sum() + lse.sum()).backward()

    return run


def aggregation(
    reduce: str, weight: bool = False, heads: int = 8, dtype: torch.dtype = torch.float32
) -> Run:
    """A call of ``aggregate``, forward and backward."""

    def run(over: Graph) -> None:
        value = torch.randn(over.num_targets, heads, 16, dtype=dtype, requires_grad=True)
        given = torch.randn(over.num_edges, heads, requires_grad=True) if weight else None
        out = ew.aggregate(value, over, weight=given, reduce=reduce, engine="rows")  # type: ignore[arg-type]
        out.sum().backward()

    return run


VARIANTS: dict[str, Run] = {
    "dot 8×16 float32": attention(),
    "dot 8×16 bfloat16": attention(dtype=torch.bfloat16),
    "dot 4×64 float16": attention(4, 64, torch.float16),
    "dot 1×1024 float32": attention(1, 1024),
    "dot 8×16 float64": attention(dtype=torch.float64),
    "dot, table, gain, dropout": attention(bias="table", gain="head", dropout="0.1"),
    "dot, edge vectors bfloat16": attention(
        dtype=torch.bfloat16, edge_key="full", edge_value="full"
    ),
    "dot, projected": attention(edge_key="projected", edge_value="projected"),
    "bias alone": attention(score="none", bias="head"),
    "GAT 8×1, dropout": attention(8, 1, score="leaky_relu", dropout="0.6"),
    "GATv2 8×16": attention(score="leaky_relu"),
    "GATv2 8×16 bfloat16, projected": attention(
        score="leaky_relu", dtype=torch.bfloat16, edge_key="projected", edge_value="projected"
    ),
    "tanh 5×7": attention(5, 7, score="tanh"),
    "gelu 8×16, edge vectors": attention(score="gelu", edge_key="full"),
    "silu 8×32": attention(8, 32, score="silu"),
    "weights of edges": attention(operation="weights", gain="head"),
    "sum": aggregation("sum"),
    "mean, weights bfloat16": aggregation("mean", weight=True, dtype=torch.bfloat16),
    "max, weights": aggregation("max", weight=True),
}
SHORT = ("GAT 8×1, dropout", "max, weights")
"""For ``make test``."""


@dataclass(frozen=True)
class Compiled:
    """What a compiler says of a kernel."""

    variant: str
    kernel: str
    tile: str
    warps: int
    target: str
    registers: int
    spills: int
    shared: int
    widest: int

    @property
    def occupancy(self) -> float:
        """The share of the warps that can run at once for which registers and memory have room."""
        granted = -(-self.registers // 8) * 8
        if self.target not in SHARED:
            waves = min(WAVE_REGISTERS // granted, WAVES) * UNITS
            return waves // self.warps * self.warps / (WAVES * UNITS)
        held = SHARED[self.target] // (self.shared + RESERVED)
        programs = min(REGISTERS // (granted * 32 * self.warps), held, PROGRAMS)
        return programs * self.warps / WARPS

    def __str__(self) -> str:
        return (
            f"{self.variant:<31} {self.kernel:<26} {self.tile:>5} {self.warps} {self.target:<6} "
            f"{self.registers:9} {self.spills:6} {self.shared:6} {self.occupancy:9.0%} "
            f"{self.widest or '':>6}"
        )


HEADER = (
    f"{'variant':<31} {'kernel':<26} {'tile':>5} w {'target':<6} registers spills shared "
    "occupancy widest"
)


class Source(NamedTuple):
    """What a compiler gets: types of arguments, what is compiled in, and what is aligned."""

    variant: str
    kernel: str
    warps: int
    types: dict[str, str]
    constants: dict[str, Any]
    aligned: dict[Any, Any]

    @property
    def tile(self) -> str:
        """Rows and edges of a program at a time; empty where it has neither."""
        return f"{self.constants['R']}×{self.constants['E']}" if "R" in self.constants else ""


def sources(variants: list[str]) -> Iterator[Source]:
    """Every launch of the variants, but for those that are compiled alike."""
    seen = set()
    over = graph()
    for variant in variants:
        with recorded() as found:
            VARIANTS[variant](over)
        for launch in found:
            source = source_of(variant, launch)
            if repr(source[1:]) not in seen:
                seen.add(repr(source[1:]))
                yield source


def source_of(variant: str, launch: Launch) -> Source:
    """Of one launch."""
    from edgewise.engines.triton_rows import kernels

    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned: dict[Any, Any] = {}
    for place, parameter in enumerate(getattr(kernels, launch.kernel).params):
        name = parameter.name
        x = launch.arguments[name]
        if parameter.is_constexpr or x is None:
            types[name], constants[name] = "constexpr", x
        elif isinstance(x, torch.Tensor):
            types[name] = f"*{TYPES[x.dtype]}"
            aligned[(place,)] = [["tt.divisibility", 16]]
        else:
            types[name] = parameter.annotation_type
    return Source(variant, launch.kernel, launch.warps, types, constants, aligned)


def compile_for(source: Source, target: str) -> Compiled:
    """One kernel for one machine."""
    warnings.simplefilter("ignore")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from edgewise.engines.triton_rows import kernels

    variant, kernel, warps, types, constants, aligned = source
    made = triton.compile(
        ASTSource(getattr(kernels, kernel), types, constants, aligned),
        target=GPUTarget(*TARGETS[target]),
        options={"num_warps": warps},
    )
    measure = _nvidia if target.startswith("sm") else _amd
    registers, spills, widest = measure(made.asm, target)
    shared = made.metadata.shared
    return Compiled(variant, kernel, source.tile, warps, target, registers, spills, shared, widest)


def _nvidia(asm: Any, target: str) -> tuple[int, int, int]:
    """By the assembler; the widest load of a float in bits."""
    from triton.backends.nvidia.compiler import get_ptxas

    number = int(target.removeprefix("sm_"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(asm["ptx"])
        name = f"--gpu-name={target}{'a' if number >= 90 else ''}"
        command = [get_ptxas(number).path, "-v", name, str(file), "-o", f"{folder}/kernel.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = done.stderr
    found = re.findall(r"ld\.global[\w:.]*?(?:\.v(\d))?\.[bfus](\d+)", asm["ptx"])
    widest = max((int(count or 1) * int(bits) for count, bits in found), default=0)
    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))
    return int(re.findall(r"Used (\d+) registers", said)[0]), spills, widest


def _amd(asm: Any, _target: str) -> tuple[int, int, int]:
    """As the compiler notes beside the code.

    A scalar register too many is kept in a lane of a vector register: no memory is touched.
    """
    text = asm["amdgcn"]
    notes = {
        name: int(re.findall(rf"\.{name}:\s+(\d+)", text)[0])
        for name in ("vgpr_count", "vgpr_spill_count")
    }
    widths = {"dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128}
    found = re.findall(r"(?:global|buffer)_load_(\w+)", text)
    widest = max((widths.get(name, 16) for name in found), default=0)
    spills = 2 * 4 * notes["vgpr_spill_count"]  # A store and a load of 4 bytes each.
    return notes["vgpr_count"], spills, widest


def compile_all(found: list[Source], targets: list[str], workers: int) -> Iterator[Compiled]:
    """All of these kernels, as they are done."""
    jobs = [(source, target) for target in targets for source in found]
    if workers == 1:
        yield from (compile_for(*job) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        yield from pool.map(compile_for, *zip(*jobs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a few kernels, for one machine")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="what was compiled, for tests.triton.table")
    options = parser.parse_args()
    names = list(SHORT) if options.short else list(VARIANTS)
    targets = ["sm_90"] if options.short else list(TARGETS)
    chosen = [source for source in sources(names) if options.only in source.variant]
    print(HEADER)
    found = []
    for made in compile_all(chosen, targets, options.workers):
        print(made, flush=True)
        found.append(made)
    spilling = sum(made.spills > MOST_SPILLS for made in found)
    print(f"{len(found)} kernels compiled, {spilling} with spills of over {MOST_SPILLS} bytes")
    if options.json:
        options.json.write_text(json.dumps([asdict(made) for made in found]))
    sys.exit(spilling > 0 or not found)


if __name__ == "__main__":
    main()
