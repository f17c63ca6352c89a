"""Errors that name the argument, what was expected, what came, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
        super().__init__(f"`{argument}`: expected {expected}; got {got}. Remedy: {remedy}.")


class MissingDataError(EdgewiseError, FileNotFoundError):
    """A data file or run folder is not where it was looked for."""


class RunExistsError(EdgewiseError, FileExistsError):
    """A run folder already holds a run, which is never overwritten."""


class MissingExtraError(EdgewiseError, ImportError):
    """An optional package is needed for this and is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package `{package}`, which is not installed. "
            f"Remedy: pip install 'edgewise[{extra}]'."
        )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a name that is not listed, with the nearest one that is."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.4)
    remedy = f"did you mean {near[0]!r}?" if near else "choose one of them"
    return ArgumentError(
        kind, expected=f"one of {', '.join(choices)}", got=repr(name), remedy=remedy
    )
