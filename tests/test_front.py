"""The front of the house: what ``import edgewise as ew`` gives, and which names each room shows."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import edgewise as ew
from edgewise import graphs
from tests.test_architecture import BLOCKED, for_type_checkers

ROOMS = [
    "data",
    "decoding",
    "encodings",
    "graphs",
    "interop",
    "layers",
    "models",
    "recipes",
    "runs",
    "tasks",
    "training",
]
FULL = [room for room in ROOMS if room != "interop"]
"""The rooms that have names of their own, not only packages."""


def run(code: str) -> str:
    """What the code prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rooms_and_packages_of_interop_are_imported_when_they_are_first_used() -> None:
    code = f"""
import sys
import edgewise as ew
loaded = [room for room in {ROOMS} if f"edgewise.{{room}}" in sys.modules]
assert loaded == ["graphs"], loaded
assert ew.models is sys.modules["edgewise.models"]
assert "models" in vars(ew)  # the next use asks nobody
ew.interop
assert not {{"edgewise.interop.huggingface", "edgewise.interop.pyg"}} & set(sys.modules)
assert ew.interop.huggingface.load
"""
    run(code)


def test_the_rooms_open_without_the_optional_packages() -> None:
    assert run(f"{BLOCKED}\nimport edgewise as ew\nfor room in {ROOMS}: getattr(ew, room)") == ""


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_an_attribute(room: str) -> None:
    assert getattr(ew, room) is importlib.import_module(f"edgewise.{room}")


@pytest.mark.parametrize("module", [ew, ew.interop])
def test_a_name_that_is_not_there(module: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"'{module.__name__}' has no attribute 'modles'"):
        _ = module.modles


@pytest.mark.parametrize("name", ["edgewise", *(f"edgewise.{room}" for room in ROOMS)])
def test_completion_shows_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)
    assert not [public for public in dir(module) if public.startswith("_")]


def test_type_checkers_are_told_of_every_room() -> None:
    tree = ast.parse(Path(ew.__file__).read_text())
    (block,) = [node for node in tree.body if for_type_checkers(node)]
    (statement,) = block.body
    assert [alias.name for alias in statement.names] == [r for r in ROOMS if r != "graphs"]


@pytest.mark.parametrize("room", FULL)
def test_a_public_name_never_turns_into_a_module(room: str) -> None:
    """Importing ``edgewise.graphs.window`` must not put the module where the constructor was."""
    package = importlib.import_module(f"edgewise.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"edgewise.{room}.{module.name}")
    for name in package.__all__:
        assert not isinstance(getattr(package, name), types.ModuleType), name


@pytest.mark.parametrize("room", ["decoding", "encodings", "graphs", "models", "tasks", "training"])
def test_a_file_named_like_something_public_is_where_that_is_defined(room: str) -> None:
    package = importlib.import_module(f"edgewise.{room}")
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for name in files & set(package.__all__):
        assert getattr(package, name).__module__ == f"edgewise.{room}.{name}"


def test_a_pattern_and_its_module() -> None:
    """A file stem is the public name, so the attribute of a room is the constructor."""
    module = importlib.import_module("edgewise.graphs.window")
    assert isinstance(module, types.ModuleType)
    assert graphs.window is module.Window
    assert pickle.loads(pickle.dumps(graphs.window(2))) == graphs.window(2)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(ew.__file__).parent / "py.typed").read_bytes() == b""
