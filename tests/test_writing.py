"""Files are complete or absent, have the right permissions, and never follow a link."""

from __future__ import annotations

import ast
import os
import signal
import stat
import time
from pathlib import Path

import pytest

import edgewise
from edgewise._utils.writing import remove_stale, temporary_folder, write_file
from edgewise.app.train import RunFolder
from tests.sources import nodes_of


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)

    def fill(file: Path) -> None:
        file.unlink()  # as libraries do that write another file in its place
        file.touch(mode=0o600)

    write_file(path, fill)
    assert mode_of(path) == mode


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", Path.touch)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o640


def test_links_in_a_shared_folder_are_not_followed(tmp_path: Path) -> None:
    """Neither of the file, nor of any name that a temporary file might have."""
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    shared.mkdir()
    outside.write_text("precious")
    names = ["out.csv", f".part-{os.getpid()}-out.csv", "out.csv.part", ".edgewise-1.part"]
    for name in names:
        (shared / name).symlink_to(outside)

    def fill(file: Path) -> None:
        assert mode_of(file.parent) == 0o700, "others cannot plant links there"
        assert not file.is_symlink()
        file.write_text("written")

    RunFolder(shared).write("out.csv", fill)
    assert outside.read_text() == "precious"
    assert (shared / "out.csv").read_text() == "written"
    assert not (shared / "out.csv").is_symlink()
    assert sorted(path.name for path in shared.iterdir()) == sorted(names)


def test_the_next_write_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    """Also with ``predict --out``, which streams; a process that still writes is left alone."""

    def fill(file: Path) -> None:
        (file.with_suffix(".rows")).write_text("half")
        (tmp_path / "begun").touch()
        time.sleep(60)

    child = os.fork()
    if child == 0:
        write_file(tmp_path / "out.csv", fill)
        os._exit(1)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    (tmp_path / "begun").unlink()
    write_file(tmp_path / "out.csv", lambda file: file.write_text("whole"))
    (left,) = (path for path in tmp_path.iterdir() if path.name != "out.csv")
    assert (left / "out.rows").read_text() == "half"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert left.is_dir()
    write_file(tmp_path / "out.csv", lambda file: file.write_text("again"))
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")

    def fail(file: Path) -> None:
        file.write_text("new")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_file(tmp_path / "file", fail)
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_was_deleted_before_it_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, created = Path.mkdir, []

    def mkdir(folder: Path, mode: int) -> None:
        create(folder, mode)
        created.append(folder)
        if len(created) == 1:
            remove_stale(tmp_path)  # by another process

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with temporary_folder(tmp_path) as folder:
        assert folder.is_dir()
    assert len(created) == 2
    assert not list(tmp_path.iterdir())


def test_an_interrupt_before_the_lock_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(folder: Path, **_: bool) -> None:
        assert folder.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr("edgewise._utils.writing._lock", lock)
    with pytest.raises(KeyboardInterrupt), temporary_folder(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


WRITES = {"write_text", "write_bytes", "savefig", "save_file", "dump", "save"}


def test_only_the_shared_helper_opens_files_for_writing() -> None:
    """Functions that write are given the temporary path; their name says so."""
    root = Path(edgewise.__file__).parent
    bad = []
    for path in sorted(root.rglob("*.py")):
        for node in nodes_of(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            opens = node.func.attr == "open" and any(
                isinstance(arg, ast.Constant) and str(arg.value)[:1] in ("w", "a")
                for arg in node.args
            )
            if not opens and node.func.attr not in WRITES:
                continue
            call = ast.unparse(node)
            if not any(word in call for word in ("temporary", "file", "folder /")):
                bad.append(f"{path.relative_to(root)}:{node.lineno}: {call}")
    assert not bad, "\n".join(bad)
