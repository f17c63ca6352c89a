"""The house: which module may import which, and what an import needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgewise
from tests.imports import blocking, run_code

ROOT = Path(edgewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

LADDER: list[set[str]] = [
    {"errors", "torch_internals"},
    {"limits"},
    {
        "arguments",
        "digits",
        "plugins",
        "ragged",
        "targets",
        "dispatch_modes",
        "interception",
        "writing",
    },
    {"scores", "biases", "normalisers", "batches", "base_task"},
    {"graphs", "engines"},
    {"checks", "layouts"},
    {"attention"},
    {"edge_steps"},
    {"__init__"},
    {"layers", "encodings"},
    {"decoding"},
    {"models", "data", "tasks", "training"},
    {"recipes", "interop"},
    {"runs"},
    {"inference", "baselines"},
    {"cli"},
]
"""From the bottom: each may import what stands below it."""
RUNG = {name: height for height, rung in enumerate(LADDER) for name in rung}
TOGETHER = [{"layers", "encodings"}]
"""Rungs whose parts may know each other; those of other rungs may not."""
LEAVES = {"explain"}
"""They may import anything below ``cli``; only ``cli`` and tests import them."""
PARTS = set(RUNG) | LEAVES
EXTRAS = [
    "PIL",
    "lightning",
    "matplotlib",
    "networkx",
    "openpyxl",
    "pandas",
    "polars",
    "pyarrow",
    "rdkit",
    "rich",
    "sacrebleu",
    "safetensors",
    "scipy",
    "sklearn",
    "statsmodels",
    "tokenizers",
    "torch_geometric",
    "torchmetrics",
    "transformers",
    "triton",
]


def test_the_layout_in_contributing_is_the_ladder() -> None:
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text()
    (chart,) = re.findall(r"```text\n(cli.*?)```", text, re.DOTALL)
    shown = [set(re.findall(r"\w+", rung)) for rung in chart.split("->")]
    rungs = [rung for rung in reversed(LADDER) if rung != {"__init__"}]
    assert shown == [rungs[0], LEAVES, *rungs[1:]]


def part(path: Path) -> str:
    """The part of the house that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def for_type_checkers(node: ast.stmt) -> bool:
    """An ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and part of every import of the package's own, at any depth of the file."""
    tree = ast.parse(path.read_text())
    if path == ROOT / "__init__.py":  # the rooms it imports on first use, named for type checkers
        tree.body = [node for node in tree.body if not for_type_checkers(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            whole = module == "edgewise"  # from edgewise import graphs
            names = [f"{module}.{a.name}" for a in node.names] if whole else [module]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "edgewise":
                inner = [*name.split("."), ""][1]
                yield node.lineno, inner if inner in PARTS else "__init__"


def allowed(importer: str, imported: str) -> bool:
    if importer in (imported, "__main__"):
        return True
    if imported in LEAVES:
        return importer == "cli"
    if importer in LEAVES:
        return imported != "cli"
    if any({importer, imported} <= rung for rung in TOGETHER):
        return True
    return RUNG[imported] < RUNG[importer]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_part_of_the_house_has_a_place() -> None:
    assert {part(path) for path in FILES} <= PARTS | {"__main__"}


def test_imports_go_down_the_ladder() -> None:
    assert not [
        f"{name_of(path)}:{line} imports {imported}"
        for path in FILES
        for line, imported in imports(path)
        if not allowed(part(path), imported)
    ]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("engines", "graphs"),
        ("graphs", "engines"),
        ("graphs", "attention"),
        ("layers", "models"),
        ("models", "data"),
        ("data", "tasks"),
        ("tasks", "data"),
        ("training", "tasks"),
        ("decoding", "models"),
        ("models", "recipes"),
        ("recipes", "runs"),
        ("runs", "inference"),
        ("inference", "cli"),
        ("recipes", "interop"),
        ("models", "explain"),
        ("interop", "cli"),
        ("interop", "runs"),
        ("models", "interop"),
        ("errors", "scores"),
        ("attention", "__init__"),
    ],
)
def test_the_ladder_has_no_way_up(importer: str, imported: str) -> None:
    assert not allowed(importer, imported)


def runtime_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file imports, within functions as well.

    Imports for type checkers alone do not count.
    """
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and for_type_checkers(node):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in modules else str(node.module))
        todo.extend(ast.iter_child_nodes(node))
    return found & modules.keys()


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of an import cycle, or an empty list."""
    rest = {name: set(imported) for name, imported in graph.items()}
    while rest:
        leaves = {name for name, imported in rest.items() if not imported & rest.keys()}
        if not leaves:  # every remaining module leads into a cycle
            path = [next(iter(sorted(rest)))]
            while path[-1] not in path[:-1]:
                path.append(min(rest[path[-1]] & rest.keys()))
            return path[path.index(path[-1]) :]
        rest = {name: imported for name, imported in rest.items() if name not in leaves}
    return []


def test_no_modules_import_each_other_in_a_cycle() -> None:
    modules = {}
    for path in FILES:
        parts = ("edgewise", *path.relative_to(ROOT).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph = {name: runtime_imports(path, modules) - {name} for name, path in modules.items()}
    assert not cycle(graph)


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]


USE = """
import torch
import edgewise as ew
from edgewise import graphs
x = torch.randn(6, 2, 4, requires_grad=True)
for graph in (graphs.complete(), graphs.window(1) | graphs.hubs([0])):
    ew.attend(x, x, x, graph).sum().backward()
ew.aggregate(x, graphs.from_dense(torch.ones(6, 6, dtype=torch.bool)))
try:
    graphs.complete().draw(nodes=3)
except ImportError as error:
    assert "pip install" in str(error) and "[plot]" in str(error), error
else:
    raise SystemExit("drew without matplotlib")
"""


def test_import_and_use_need_torch_and_numpy_alone() -> None:
    """Nor does PyTorch load more for what they do."""
    code = f"""
import sys, torch, numpy
before = set(sys.modules)
{USE}
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
assert not new & set({EXTRAS!r}), new
# PyTorch's compiler takes longer to import than all the rest, and few compile.
assert "torch._dynamo" not in sys.modules
"""
    done = run_code(blocking(EXTRAS) + code)
    assert done.returncode == 0, done.stderr


def test_the_block_blocks() -> None:
    for name in EXTRAS:
        assert "which is optional" in run_code(f"{blocking(EXTRAS)}\nimport {name}").stderr
