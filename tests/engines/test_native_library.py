"""A library that was compiled from other sources than those beside it is named, and not used."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgewise.engines.native import library

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
PROGRAM = textwrap.dedent(
    """
    import torch
    import edgewise as ew
    from edgewise import graphs
    from edgewise.engines.native import library
    print(library.MISSING)
    x, graph = torch.randn(4, 1, 8), graphs.edges(torch.tensor([[0, 1], [1, 2]]), 4)
    print(ew.attend(x, x, x, graph).shape)
    try:
        ew.attend(x, x, x, graph, engine="rows")
    except ew.EdgewiseError as error:
        print(error)
    """
)


def run_with(path: Path) -> tuple[list[str], str]:
    """What a process prints that has this library, and what it warns of."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "EDGEWISE_NATIVE": str(path)},
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not library.HEADER.is_file(), reason="a wheel has no sources")
def test_a_library_of_another_header_is_named_with_the_remedy(tmp_path: Path) -> None:
    """As after a change of ``csrc``, or of the branch, without ``make native``."""
    loaded = library.library()
    assert loaded is not None
    binary, text = Path(loaded._name).read_bytes(), loaded.ew_abi()
    stale = tmp_path / Path(loaded._name).name
    assert binary.count(text) == 1
    stale.write_bytes(binary.replace(text, text.replace(b"node_stride", b"node_pitch_")))
    (why, shape, error), warned = run_with(stale)
    for said in (why, error, warned):
        assert f"{stale} was compiled from another abi.h" in said
        assert "run `make native`" in said
    assert "[4, 1, 8]" in shape, "the other engines serve"


@pytest.mark.slow
def test_a_library_that_is_none_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "libedgewise_native.so"
    damaged.write_bytes(b"no library")
    (why, shape, error), _warned = run_with(damaged)
    assert f"{damaged} does not load" in why
    assert f"{damaged} does not load" in error
    assert "[4, 1, 8]" in shape


def test_kernels_that_were_not_built_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip hides the output of a build that succeeds, so the first use has to say it."""
    monkeypatch.setattr(library, "_candidates", lambda: iter(()))
    with pytest.warns(UserWarning, match=r"native kernels: they were not built \(install a C\+\+"):
        loaded, why = library._loaded.__wrapped__()
    assert loaded is None
    assert "reinstall edgewise" in why


def test_a_library_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_NATIVE", str(tmp_path / "absent.so"))
    with pytest.warns(
        UserWarning, match=r"cannot use its native kernels: .*absent\.so does not load"
    ):
        loaded, why = library._loaded.__wrapped__()
    assert loaded is None
    assert f"{tmp_path / 'absent.so'} does not load" in why


@pytest.mark.slow
def test_a_library_that_does_not_load_is_warned_of_once(tmp_path: Path) -> None:
    (_, shape, error), warned = run_with(tmp_path / "absent.so")
    assert "[4, 1, 8]" in shape
    assert "does not load" in error
    assert warned.count("cannot use its native kernels") == 1
