"""A newer PyTorch than the tested ones gives one warning, and no refusal."""

from __future__ import annotations

import warnings

import pytest
import torch

from edgewise.engines.torch_version import NEWEST, OLDEST, warn_if_untested
from tests.imports import run_code

USE = """
import torch
torch.__version__ = "{version}"
import edgewise as ew
from edgewise import graphs
x = torch.randn(4, 1, 8)
for _ in range(2):
    print(ew.attend(x, x, x, graphs.complete()).shape)
"""


@pytest.mark.slow
def test_a_newer_version_warns_once_and_runs() -> None:
    done = run_code(USE.format(version=f"{NEWEST[0]}.{NEWEST[1] + 1}.0"))
    assert done.returncode == 0
    assert done.stdout.count("[4, 1, 8]") == 2
    assert done.stderr.count("Edgewise is tested with PyTorch 2.9 to 2.") == 1


@pytest.mark.parametrize(
    "version",
    [
        "{}.{}.0".format(*OLDEST),
        "{}.{}.7+cu130".format(*NEWEST),
        "{}.{}.0a0".format(*OLDEST),
        "git",
    ],
)
def test_tested_and_unnumbered_versions_do_not_warn(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_untested()


def test_this_version_is_tested() -> None:
    """Raise ``NEWEST`` once all tests pass on a newer PyTorch."""
    assert tuple(map(int, torch.__version__.split(".")[:2])) <= NEWEST
