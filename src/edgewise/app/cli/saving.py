"""Figure that the option ``--draw`` of a command saves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.app.cli.output import say
from edgewise.app.train.folder import RunFolder, refuse_run_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(path: Path, figure: Figure) -> None:
    """Write a figure to the file that ``--draw`` names, and print the path."""
    refuse_run_file("--draw", path)
    folder = RunFolder(path.parent)
    folder.make()
    folder.write_figure(path.name, figure)
    say(path)
