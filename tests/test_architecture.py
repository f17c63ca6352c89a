"""The house: which module may import which, and what an import needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgewise
from tests.imports import blocking, run_code
from tests.sources import nodes_of

ROOT = Path(edgewise.__file__).parent
FILES = sorted({*ROOT.rglob("*.py")} - {ROOT / "__main__.py"})  # which is the command

LADDER: list[set[str]] = [
    {"_utils"},
    {"attention.terms"},
    {"graphs", "engines"},
    {"attention"},
    {"__init__"},
    {"distributed"},
    {"layers", "encodings"},
    {"decoding"},
    {"models"},
    {"interop"},
    {"explain"},
    {"app.files"},
    {"app.train"},
    {"app.predict"},
    {"app.kinds"},
    {"app.runs"},
    {"app.explain"},
    {"app.cli"},
    {"app"},
]
"""From the bottom: each may import what stands below it."""
RUNG = {name: height for height, rung in enumerate(LADDER) for name in rung}
TOGETHER = [{"layers", "encodings"}, {"graphs", "engines"}]
"""Rungs whose packages may know each other: engines build layouts from graphs."""
TERMS = {"scores", "biases", "normalisers", "hooks"}
"""Modules of ``attention`` that describe a call, which engines read."""
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
    (chart,) = re.findall(r"```text\n(app.*?)```", text, re.DOTALL)
    shown = [set(re.findall(r"[\w.]+", rung)) for rung in chart.split("->")]
    assert shown == [rung for rung in reversed(LADDER) if rung != {"__init__"}]


def package_of(module: str) -> str:
    """The rung of a module, given without ``edgewise.``."""
    first, second, *_ = [*module.split("."), "", ""]
    if first == "app":
        return f"app.{second}" if second else "app"
    if first == "attention" and second in TERMS:
        return "attention.terms"
    return first if first in RUNG else "__init__"


def part(path: Path) -> str:
    """The rung that a file belongs to."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return package_of(".".join(name for name in names if name != "__init__"))


def for_type_checkers(node: ast.AST) -> bool:
    """An ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and part of every import of the package's own, at any depth of the file."""
    nodes = nodes_of(path)
    if path == ROOT / "__init__.py":  # the rooms it imports on first use, named for type checkers
        hidden = {n for node in nodes if for_type_checkers(node) for n in ast.walk(node)}
        nodes = [node for node in nodes if node not in hidden]
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            whole = module in ("edgewise", "edgewise.app")  # from edgewise import graphs
            names = [f"{module}.{a.name}" for a in node.names] if whole else [module]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "edgewise":
                yield node.lineno, package_of(name.partition(".")[2])


def allowed(importer: str, imported: str) -> bool:
    if importer in (imported, "__main__"):
        return True
    if any({importer, imported} <= rung for rung in TOGETHER):
        return True
    return RUNG[imported] < RUNG[importer]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_part_of_the_house_has_a_place() -> None:
    assert {part(path) for path in FILES} <= set(RUNG)


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
        ("graphs", "attention"),
        ("layers", "models"),
        ("models", "app.files"),
        ("app.files", "app.train"),
        ("app.train", "app.kinds"),
        ("app.kinds", "app.runs"),
        ("decoding", "models"),
        ("models", "interop"),
        ("app.runs", "app.cli"),
        ("explain", "app.kinds"),
        ("explain", "app"),
        ("interop", "app.runs"),
        ("_utils", "attention.terms"),
        ("attention", "__init__"),
        ("models", "explain"),
        ("attention", "distributed"),
        ("distributed", "layers"),
    ],
)
def test_the_ladder_has_no_way_up(importer: str, imported: str) -> None:
    assert not allowed(importer, imported)


def runtime_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file imports, within functions as well.

    Imports for type checkers alone do not count.
    """
    found: set[str] = set()
    todo = nodes_of(path)[:1]
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


def test_a_kind_knows_nothing_of_another_kind() -> None:
    kinds = ROOT / "app/kinds"
    for path in kinds.glob("*/*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(KIND):
                name = str(node.module).removeprefix(KIND).split(".")[0]
                assert name in (path.parent.name, "kind"), f"{path}:{node.lineno}: {name}"


KIND = "edgewise.app.kinds."


LIBRARY = """
import importlib, sys
import torch
import edgewise as ew
from edgewise import graphs, layers, models
for name in MODULES:
    importlib.import_module(name)
ids = torch.randint(9, (2, 5))
gpt = models.gpt(9, width=8, heads=2, depth=1, ffn_dim=16)
gpt.logits(gpt(ids)).sum().backward()
edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
gat = models.gat(4, 3, heads=2)
gat(torch.randn(3, 4), graphs.edges(edge_index, 3)).sum().backward()
from edgewise.interop.pyg import GATConv
GATConv(4, 3)(torch.randn(3, 4), edge_index).sum().backward()
assert not [name for name in sys.modules if name.startswith("edgewise.app")]
"""


@pytest.mark.slow
def test_the_library_works_without_the_application_and_every_extra() -> None:
    # The drop-ins for PyG and the backend for Transformers need these two.
    extras = [name for name in EXTRAS if name not in ("torch_geometric", "transformers")]
    blocked = blocking([*extras, "edgewise.app"])
    files = [path.relative_to(ROOT.parent).with_suffix("") for path in FILES]
    names = [".".join(file.parts) for file in files if file.name != "__main__"]
    kernels = "edgewise.engines.triton_rows.kernels"  # which needs Triton
    modules = [n for n in names if not n.startswith(("edgewise.app.", kernels))]
    assert "edgewise.models.gat" in modules
    done = run_code(f"{blocked}\nMODULES = {modules}\n{LIBRARY}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_block_blocks() -> None:
    for name in EXTRAS:
        assert "which is optional" in run_code(f"{blocking(EXTRAS)}\nimport {name}").stderr
