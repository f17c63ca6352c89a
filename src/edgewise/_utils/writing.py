"""Files that are written completely or not at all, also in folders that others can write to."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

try:
    import fcntl
except ImportError:  # Windows has no locks of this kind, so stale folders stay there.
    fcntl = None  # type: ignore[assignment]

TEMPORARY = ".edgewise-*.part"
"""Names of temporary folders: * is random."""
DPI = 150


def write_file(path: Path, fill: Callable[[Path], object], *, replace: bool = True) -> Path:
    """Write a file atomically by ``fill``, which writes to a temporary path, and return its path.

    An existing file keeps its permissions. A link is replaced; the file that it names is not
    changed. Without ``replace``, an existing file raises FileExistsError.
    """
    with temporary_folder(path.parent) as folder:
        temporary = folder / path.name
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE(temporary.stat().st_mode)
        with suppress(FileNotFoundError):
            status = path.lstat()
            mode = stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else mode
        fill(temporary)
        # Some libraries write another file with mode 0600 in its place.
        temporary.chmod(mode)
        if replace:
            temporary.replace(path)
            return path
        try:
            os.link(temporary, path)  # This is atomic, and fails if the file exists.
        except FileExistsError:
            raise
        except OSError:  # The file system has no hard links.
            with path.open("xb") as file:
                file.write(temporary.read_bytes())
    return path


def write_figure(path: Path | str, figure: Figure) -> None:
    """Write a figure to an image file in the format of its suffix, which is added if missing."""
    path = Path(path)
    if not path.suffix:
        path = path.with_name(f"{path.name}.{figure.canvas.get_default_filetype()}")
    form = path.suffix[1:].lower()
    write_file(path, lambda file: figure.savefig(file, dpi=DPI, format=form))


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in ``parent``, which only this user can read, and delete it afterwards.

    Folders that killed processes have left are deleted, too: a process locks its folder, and the
    lock ends with the process.
    """
    remove_stale(parent)
    # The name is known before the folder exists, so that an interrupt at any time deletes it.
    folder = parent / TEMPORARY.replace("*", token_hex(8))
    descriptor: int | None = None
    try:
        while not folder.is_dir():  # Another process may delete the folder before it is locked.
            if descriptor is not None:
                os.close(descriptor)
            folder.mkdir(0o700)
            descriptor = _lock(folder, wait=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def remove_stale(parent: Path) -> None:
    """Delete the temporary folders in ``parent`` that killed processes of this user have left."""
    for folder in list(parent.glob(TEMPORARY)):
        descriptor = _lock(folder, wait=False)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Return a descriptor that locks a folder of this user; None if it cannot be locked."""
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return descriptor
    except OSError:
        pass
    if descriptor is not None:
        os.close(descriptor)
    return None
