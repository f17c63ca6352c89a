"""The front of the house: what ``import edgewise as ew`` gives, and which names each room shows."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import types
from pathlib import Path

import pytest

import edgewise as ew
from edgewise import graphs
from tests.imports import blocking, run_code
from tests.public_api import LIST, public_api
from tests.test_architecture import EXTRAS, for_type_checkers

ROOMS = ["decoding", "distributed", "encodings", "explain", "graphs", "interop", "layers", "models"]
FULL = [room for room in ROOMS if room != "interop"]
"""The rooms that have names of their own, not only packages."""
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


def run(code: str) -> str:
    """What the code prints in a fresh process."""
    done = run_code(code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rooms_are_imported_on_first_use_and_need_torch_and_numpy_alone() -> None:
    """Nor does PyTorch load more for what they do."""
    code = f"""
import sys
import edgewise as ew
loaded = [room for room in {ROOMS} if f"edgewise.{{room}}" in sys.modules]
assert loaded == [], loaded
assert "torch" not in sys.modules
import torch, numpy
before = set(sys.modules)
assert ew.models is sys.modules["edgewise.models"]
assert "models" in vars(ew)  # the next use asks nobody
ew.interop
assert not {{"edgewise.interop.huggingface", "edgewise.interop.pyg"}} & set(sys.modules)
assert ew.interop.huggingface is sys.modules["edgewise.interop.huggingface"]
{USE}
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
assert not new & set({EXTRAS!r}), new
# PyTorch's compiler takes longer to import than all the rest, and few compile.
assert "torch._dynamo" not in sys.modules
"""
    run(blocking(EXTRAS) + code)


@pytest.mark.slow
def test_the_rooms_open_without_the_optional_packages() -> None:
    run(f"{blocking(EXTRAS)}\nimport edgewise as ew\nfor room in {ROOMS}: getattr(ew, room)")


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_an_attribute(room: str) -> None:
    assert getattr(ew, room) is importlib.import_module(f"edgewise.{room}")


@pytest.mark.parametrize("module", [ew, ew.interop])
def test_a_name_that_is_not_there(module: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"'{module.__name__}' has no attribute 'modles'"):
        _ = module.modles


INNER = ["edgewise.interop.huggingface", "edgewise.interop.pyg"]


@pytest.mark.parametrize("name", ["edgewise", *(f"edgewise.{room}" for room in ROOMS), *INNER])
def test_completion_shows_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)
    assert not [public for public in dir(module) if public.startswith("_")]


def test_type_checkers_are_told_of_every_room() -> None:
    tree = ast.parse(Path(ew.__file__).read_text())
    (block,) = [node for node in tree.body if for_type_checkers(node)]
    rooms, *others = block.body
    assert [alias.name for alias in rooms.names] == ROOMS
    assert sorted(alias.name for other in others for alias in other.names) == sorted(ew._HOMES)
    homes = {alias.name: other.module for other in others for alias in other.names}
    assert homes == {name: f"edgewise.{home}" for name, home in ew._HOMES.items()}
    assert sorted([*ROOMS, *ew._HOMES]) == ew.__all__


@pytest.mark.slow
def test_a_name_may_be_used_first_in_compiled_code() -> None:
    code = """
import torch
import edgewise as ew
q = torch.ones(4, 1, 2)
graph = ew.graphs.causal().bind(4)
step = torch.compile(lambda q: ew.attend(q, q, q, graph), fullgraph=True, backend="eager")
assert torch.equal(step(q), q)
"""
    run(code)


def test_the_command_says_that_idle_threads_sleep_before_pytorch_asks() -> None:
    code = """
import os, sys
os.environ.pop("OMP_WAIT_POLICY", None)
import edgewise
assert "torch" not in sys.modules
import edgewise.app.cli
assert os.environ["OMP_WAIT_POLICY"] == "passive"
"""
    run(code)


@pytest.mark.parametrize("room", FULL)
def test_a_public_name_never_turns_into_a_module(room: str) -> None:
    """Importing ``edgewise.graphs.window`` must not put the module where the constructor was."""
    package = importlib.import_module(f"edgewise.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"edgewise.{room}.{module.name}")
    for name in package.__all__:
        assert not isinstance(getattr(package, name), types.ModuleType), name


PACKAGES = [
    "edgewise",
    *(m.name for m in pkgutil.walk_packages(ew.__path__, "edgewise.") if m.ispkg),
]
ONE_A_FILE = [
    "edgewise.explain",
    "edgewise.app.explain",
    "edgewise.app.kinds",
    "edgewise.graphs",
    "edgewise.models",
]
"""Rooms of one thing a file, which is named after it."""


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_is_a_module_or_something_else_and_not_both(name: str) -> None:
    """Where a file is named after the one thing that it defines, the name is that thing."""
    package = importlib.import_module(name)
    for file in pkgutil.iter_modules(package.__path__):
        thing = getattr(package, file.name, None)
        if thing is None or isinstance(thing, types.ModuleType):
            continue
        assert name in ONE_A_FILE, f"{name}.{file.name} is a module, too"
        module = importlib.import_module(f"{name}.{file.name}")
        assert thing in vars(module).values()


def test_a_pattern_and_its_module() -> None:
    """A file stem is the public name, so the attribute of a room is the constructor."""
    module = importlib.import_module("edgewise.graphs.hubs")
    assert isinstance(module, types.ModuleType)
    assert graphs.hubs is module.Hubs
    assert pickle.loads(pickle.dumps(graphs.hubs([0]))) == graphs.hubs([0])


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(ew.__file__).parent / "py.typed").read_bytes() == b""


def test_the_public_api_is_as_listed() -> None:
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    listed, current = set(LIST.read_text().splitlines()), set(public_api())
    lines = [f"- {line}" for line in sorted(listed - current)]
    lines += [f"+ {line}" for line in sorted(current - listed)]
    assert not lines, "\n".join(
        [
            "The public API has changed:",
            *lines,
            "If a line begins with -, keep the old form and deprecate it, as "
            "docs/reference/versions.md says. Then write a line in CHANGELOG.md, and the list with "
            "`python -m tests.public_api`.",
        ]
    )
