"""On a device that is not the CPU: ``tests/device`` needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason=f"PyTorch {torch.__version__} cannot simulate a device in Python; 2.10 and later can",
)
def test_on_a_simulated_device() -> None:
    options = ("-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/device"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "EDGEWISE_SIMULATED": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
