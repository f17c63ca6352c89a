"""Wheels: which files they hold, and builds without a working compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from edgewise import __version__
from edgewise.engines.torch_version import NEWEST, OLDEST

ROOT = Path(__file__).parents[1]
PIP_WHEEL = [
    *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
    *("--disable-pip-version-check", ROOT),
]
NO_COMPILER = {**os.environ, "CXX": "/bin/false"}
NO_COMPILER.pop("PIP_BUILD_TRACKER", None)


def test_a_wheel_has_every_file_that_is_read(tmp_path: Path) -> None:
    uncompiled = ["--config-settings", "wheel.cmake=false"]
    subprocess.run([*PIP_WHEEL, *uncompiled, "--wheel-dir", tmp_path], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if not name.startswith("edgewise-")}
    source = ROOT / "src"
    files = [file for kind in ("*.py", "*.json", "*.html", "*.txt") for file in source.rglob(kind)]
    files += [source / "edgewise" / "py.typed"]
    assert packed >= {str(file.relative_to(source)) for file in files}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/bin/false").exists(), reason="needs a compiler that fails")
def test_pip_without_a_compiler_builds_a_wheel_that_no_index_accepts(tmp_path: Path) -> None:
    """Package indexes refuse local versions, and pip prints the version after installing it."""
    folder = ["--config-settings", f"build-dir={tmp_path / 'build'}", "--wheel-dir", tmp_path]
    subprocess.run([*PIP_WHEEL, *folder], check=True, timeout=300, env=NO_COMPILER)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"edgewise-{__version__}+without.kernels-")
    assert not [name for name in ZipFile(wheel).namelist() if "libedgewise" in name]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/bin/false").exists(), reason="needs a compiler that fails")
def test_a_release_build_without_a_compiler_fails(tmp_path: Path) -> None:
    """`python -m build` calls the build backend directly, without pip."""
    options = {"build-dir": str(tmp_path / "build")}
    code = (
        "from scikit_build_core import build; "
        f"build.build_wheel({str(tmp_path)!r}, config_settings={options!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=ROOT,
        env=NO_COMPILER,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "The native kernels were not built: a C++17 compiler" in done.stdout + done.stderr
    assert not [*tmp_path.glob("*.whl")]


def test_the_metadata_has_no_upper_bound_of_torch() -> None:
    """The bound that keeps the install of CI small is in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"][0] == "torch>=" + ".".join(map(str, OLDEST))
    (bound,) = [
        line.removeprefix("torch<")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.startswith("torch")
    ]
    assert OLDEST < tuple(map(int, bound.split("."))) <= NEWEST
    assert "--constraint constraints.txt" in (ROOT / "Makefile").read_text()


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_newest_python_is_the_same_in_all_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    newest = project["classifiers"][-3].rpartition(" ")[2]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert f'python: ["{oldest}", "{newest}"]' in workflow
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    torch = [".".join(map(str, version)) for version in (OLDEST, NEWEST)]
    assert f"Python {oldest} to {newest} and PyTorch {torch[0]} to {torch[1]}" in page
