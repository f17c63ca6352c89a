"""These tests run Triton's kernels in its interpreter, on CPU tensors: a process of its own.

``make gpu-check`` runs all of them, ``tests/engines/test_triton.py`` a few with ``make test``.
Where there is a GPU and no switch for the interpreter, the kernels run there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from edgewise.engines.triton_rows import layout
from tests.triton import INTERPRETED, ON_A_GPU

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for deterministic products
ABLE = INTERPRETED or ON_A_GPU
collect_ignore = [] if ABLE else ["test_interpreted.py", "test_modes.py"]


@pytest.fixture(autouse=True, scope="session")
def _small_pieces() -> Iterator[None]:
    """Rows are short, long and cut into pieces in graphs that an interpreter gets through."""
    saved = layout.SHORT, layout.PIECE
    layout.SHORT, layout.PIECE = 3, 16
    yield
    layout.SHORT, layout.PIECE = saved


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """Memory that a kernel forgets to write holds NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
