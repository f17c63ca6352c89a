"""Exceptions of Edgewise, and the texts of their messages."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

SHOWN = 12
"""Maximum number of names that an error lists in addition to the most similar one."""
MANY = 60
"""Maximum number of names that an error lists if none is similar."""


LONGEST = 1000
"""Maximum number of characters of a text in an error message."""
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters, except tab and line feed, and characters that reverse the direction of text.
They could change what a terminal shows, its title or the clipboard."""


def printable(text: object) -> str:
    r"""Return a text, which may come from a file, with control characters escaped."""
    text = str(text).replace("\r\n", "\n")
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_line(text: object) -> str:
    """Return :func:`printable` with spaces in place of tabs and line ends."""
    return printable(" ".join(str(text).splitlines()).replace("\t", " "))


def shortened(text: str) -> str:
    """Return a text of at most :data:`LONGEST` characters, cut in the middle."""
    cut = len(text) > LONGEST
    return f"{text[: LONGEST * 3 // 4]} … {text[-LONGEST // 4 + 3 :]}" if cut else text


class EdgewiseError(Exception):
    """Base class of the errors that Edgewise raises. Control characters are escaped in messages.

    Example:
        >>> import edgewise
        >>> try:
        ...     edgewise.graphs.window(-1)
        ... except edgewise.EdgewiseError as error:
        ...     print(type(error).__name__)
        ArgumentError
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ArgumentError(EdgewiseError, ValueError):
    """Error: an argument is invalid. The message states what to do about it.

    Args:
        argument: name of the argument, as the caller wrote it.
        expected: values that are accepted.
        got: value that the caller passed.
        remedy: instruction to the user.

    Example:
        >>> import edgewise
        >>> try:
        ...     edgewise.graphs.blocks(0)
        ... except edgewise.ArgumentError as error:
        ...     print(str(error).split("; ")[0])
        `size`: expected an integer of at least 1
    """

    def __init__(self, argument: str, *, expected: str, got: str, remedy: str) -> None:
        self.argument, self.expected, self.got, self.remedy = argument, expected, got, remedy
        end = "" if remedy.endswith("?") else "."
        argument, expected, got, remedy = map(shortened, (argument, expected, got, remedy))
        super().__init__(f"`{argument}`: expected {expected}; got {got}. Remedy: {remedy}{end}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are sent between processes.
        fields = {name: getattr(self, name) for name in ("expected", "got", "remedy")}
        return partial(type(self), self.argument, **fields), (), vars(self)


class MissingDataError(EdgewiseError, FileNotFoundError):
    """Error: a data file, or the folder of a trained model, does not exist."""


class RunExistsError(EdgewiseError, FileExistsError):
    """Error: the output folder holds a model of an earlier training, which is not overwritten."""


class WriteError(EdgewiseError, OSError):
    """Error: a file or folder cannot be written, for example because the disk is full."""

    def __init__(self, path: Path, cause: OSError, *, resumable: bool = False) -> None:
        resume = "; --resume continues the run" if resumable else ""
        super().__init__(
            f"{path}: cannot be written ({cause.strerror or cause}). Remedy: free disk space, fix "
            f"the permissions, or choose another folder{resume}."
        )


class ProcessError(EdgewiseError, RuntimeError):
    """Error: another process of the group has ended, or has not answered in time.

    Example:
        >>> from edgewise.distributed import ProcessError
        >>> issubclass(ProcessError, RuntimeError)
        True
    """


class Interrupted(Exception):  # noqa: N818 - an interruption is not an error
    """Raised when Ctrl-C or SIGTERM has stopped a run that can be resumed.

    Attributes:
        signal: number of the signal.

    Example:
        >>> import signal
        >>> from edgewise.app.train import Interrupted
        >>> print(Interrupted(signal.SIGTERM))
        interrupted by SIGTERM
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"interrupted by {signal.Signals(number).name}")


class MissingExtraError(EdgewiseError, ImportError):
    """Error: an optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package `{package}`, which is not installed. "
            f"Remedy: {how_to_install(extra)}."
        )


def is_failure(error: BaseException) -> bool:
    """Return whether an error is a failure, and not a request to stop such as Ctrl-C."""
    # Libraries in Rust raise PanicException, which is not an Exception.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextmanager
def reading(
    path: Path | str, *, expected: str, remedy: str = "copy or download this file again"
) -> Iterator[None]:
    """In a ``with`` block, replace any error of a parser by an ArgumentError that names the file.

    Errors of Edgewise and a lack of permission are unchanged.
    """
    try:
        yield
    except (EdgewiseError, PermissionError):
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        got = " ".join(str(error).split())[:200] or type(error).__name__
        raise ArgumentError(str(path), expected=expected, got=got, remedy=remedy) from error


def how_to_install(extra: str) -> str:
    """Return the pip command that adds an extra to the installed Edgewise.

    It depends on how Edgewise was installed: from PyPI, the URL of a repository, or a clone.
    """
    # These modules take a third of the time in which the command starts.
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = metadata.distribution("edgewise").read_text("direct_url.json")
    # Edgewise was imported from sys.path without being installed.
    except metadata.PackageNotFoundError:
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
    """Import and return an optional package; call it in the function that uses the package.

    Example: ``scipy = require("scipy", extra="graphs", purpose="reading X")``.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(error.name or package, extra, purpose) from error


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> ArgumentError:
    """Return an error for a name that is not a choice; it suggests the most similar choice."""
    choices = sorted(choices)
    lowered = {choice.lower(): choice for choice in choices}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
    if not choices:
        expected, remedy = "no value", f"omit {kind}"
    elif not matches:
        unlisted = len(choices) - MANY
        names = f"{', '.join(choices[:MANY])}{f' or {unlisted} more' if unlisted > 0 else ''}"
        expected, remedy = f"one of {names}", "choose one of the expected names"
    else:
        nearest = lowered[matches[0]]
        others = [choice for choice in choices if choice != nearest]
        if len(others) > SHOWN:
            expected = f"{nearest} or one of {len(others)} other names"
        else:
            expected = f"one of {', '.join([nearest, *others])}" if others else nearest
        remedy = f"did you mean {nearest!r}?"
    return ArgumentError(kind, expected=expected, got=repr(name), remedy=remedy)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 column" or "2 columns", for an error message."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def in_one_line(error: Exception) -> str:
    """Return the one-line message that a program prints before it exits with an error.

    If the environment variable EDGEWISE_TRACEBACK is set, unexpected errors are raised instead.
    """
    if os.environ.get("EDGEWISE_TRACEBACK") and not isinstance(error, EdgewiseError):
        raise error
    return message_of(error)


def message_of(error: BaseException) -> str:
    """Return the one-line message of an error, with a remedy unless it was interrupted."""
    if isinstance(error, EdgewiseError):
        return printable_line(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        return (
            f"{printable_line(shortened(str(error)))}. Remedy: free disk space, fix the "
            "permissions, or choose another file or folder."
        )
    message = printable_line(shortened(" ".join(f"{type(error).__name__}: {error}".split())))
    return (
        f"unexpected error ({message}). Remedy: set the environment variable "
        "EDGEWISE_TRACEBACK=1, repeat the command, and report the error with its output."
    )
