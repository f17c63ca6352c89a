"""Errors that name the argument, what was expected, what came, and the remedy."""

from __future__ import annotations

import difflib
import importlib
import json
import os
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

SHOWN = 12
"""Names that an error lists beside the nearest one before it only counts them."""


class EdgewiseError(Exception):
    """Base of every error that Edgewise raises on purpose."""


class ArgumentError(EdgewiseError, ValueError):
    """An argument cannot be used as it is.

    Args:
        argument: the name as the caller wrote it.
        expected: what would have been accepted.
        got: what came instead.
        remedy: what to change.

    """

    def __init__(self, argument: str, *, expected: str, got: str, remedy: str) -> None:
        self.argument, self.expected, self.got, self.remedy = argument, expected, got, remedy
        end = "" if remedy.endswith("?") else "."
        super().__init__(f"`{argument}`: expected {expected}; got {got}. Remedy: {remedy}{end}")


class MissingDataError(EdgewiseError, FileNotFoundError):
    """A data file or run folder is not where it was looked for."""


class RunExistsError(EdgewiseError, FileExistsError):
    """A run folder already holds a run, which is never overwritten."""


class WriteError(EdgewiseError, OSError):
    """A file or folder could not be written: the disk is full, or it may not be.

    Args:
        path: what was to be written.
        cause: what the system said.

    """

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(
            f"{path}: cannot be written ({cause.strerror or cause}). Remedy: make room or allow "
            "it, or name another folder with --out; --resume continues a run that has begun."
        )


class MissingExtraError(EdgewiseError, ImportError):
    """An optional package is needed for this and is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package `{package}`, which is not installed. "
            f"Remedy: {how_to_install(extra)}."
        )


def how_to_install(extra: str) -> str:
    """The command that adds an extra to Edgewise, from where this copy was installed.

    A clone is named by its folder, so that the command works from any other.
    """
    try:
        text = metadata.distribution("edgewise").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from a folder on the path
        return f'pip install -e ".[{extra}]" in a clone of Edgewise'
    if text is None:
        return f"pip install 'edgewise[{extra}]'"
    origin = json.loads(text)
    url = str(origin["url"])
    if "dir_info" in origin:
        folder = url2pathname(urlsplit(url).path)
        option = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {option}'{folder}[{extra}]'"
    vcs = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f"pip install 'edgewise[{extra}] @ {vcs}{url}'"


def require(package: str, *, extra: str, purpose: str) -> Any:
    """Import an optional package, as ``require("scipy", extra="graphs", purpose="reading X")``.

    Called where the package is used, before the imports from it.

    Args:
        package: its name in an import statement.
        extra: the extra of Edgewise that installs it.
        purpose: what it is needed for; the error begins with this.

    Returns:
        The package.

    Raises:
        MissingExtraError: it cannot be imported.

    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, extra, purpose) from error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a name that is not listed; it begins with the nearest one that is."""
    choices = sorted(known)
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
    if not near:
        expected, remedy = f"one of {', '.join(choices)}", "choose one of them"
    else:
        nearest = lowered[near[0]]
        others = [choice for choice in choices if choice != nearest]
        listed = ", ".join(others) if len(others) <= SHOWN else f"{len(others)} names"
        expected = f"{nearest}, or another of {listed}" if others else nearest
        remedy = f"did you mean {nearest!r}?"
    return ArgumentError(kind, expected=expected, got=repr(name), remedy=remedy)


def in_one_line(error: Exception) -> str:
    """What a program says of an error before it ends; what was not expected asks for a report.

    The environment variable EDGEWISE_TRACEBACK shows where it came from: the error is raised again.
    """
    if isinstance(error, EdgewiseError):
        return str(error)
    if os.environ.get("EDGEWISE_TRACEBACK"):
        raise error
    if isinstance(error, OSError):
        return f"{error}. Remedy: make room, or allow it, or name another file or folder."
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"this should not have happened ({said}). Remedy: report it, please, with what it says "
        "where the environment has EDGEWISE_TRACEBACK=1."
    )
