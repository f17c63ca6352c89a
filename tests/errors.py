"""Every error names the argument, what was expected, what came, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgewise import ArgumentError


@contextmanager
def case(name: object) -> Iterator[None]:
    """Name the case of a loop in the error of a test."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise


@contextmanager
def refused(
    argument: str, *, expected: str, got: str, remedy: str
) -> Iterator[pytest.ExceptionInfo[ArgumentError]]:
    """An ``ArgumentError`` with these words in its four places, all of them in its message."""
    with pytest.raises(ArgumentError) as caught:
        yield caught
    error = caught.value
    assert error.argument == argument
    for wanted, said in ((expected, error.expected), (got, error.got), (remedy, error.remedy)):
        assert wanted in said
        assert wanted in str(error)
    assert f"`{argument}`" in str(error)
