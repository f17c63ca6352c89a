"""A wheel has all of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]


def test_a_wheel_has_every_file_that_is_read(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    uncompiled = ["--config-settings", "wheel.cmake=false"]
    subprocess.run([*build, *uncompiled, "--wheel-dir", tmp_path, ROOT], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if not name.startswith("edgewise-")}
    source = ROOT / "src"
    files = [*source.rglob("*.py"), *source.rglob("*.json"), source / "edgewise" / "py.typed"]
    assert packed >= {str(file.relative_to(source)) for file in files}
