"""A few of the tests of the GPU's kernels, without a GPU; ``make gpu-check`` runs them all.

Triton decides when it is imported whether it interprets, hence the processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.triton.mutations import MUTATIONS, PACKAGE

ROOT = Path(__file__).parents[2]
CASES = (
    "test_every_call[plain]",
    "test_every_call[gatv2]",
    "test_every_call[everything]",
    "test_every_call[dropout]",
    "test_every_aggregation[max-head]",
    "test_softmax_over_edges[3]",
    "test_the_graphs_have_rows_of_every_kind",
    "test_a_table_index_out_of_range_is_refused",
)


def run(*arguments: str, **environment: str) -> str:
    """What a process of Python's says that must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_kernels_give_what_the_formula_gives_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    cases = [f"tests/triton/test_interpreted.py::{case}" for case in CASES]
    options = ("-p", "no:cacheprovider", "-p", "no:xdist")
    said = run("-m", "pytest", *options, *cases, TRITON_INTERPRET="1", EDGEWISE_TRITON="1")
    assert f"{len(CASES)} passed" in said


@pytest.mark.slow
def test_kernels_compile_for_a_gpu() -> None:
    """Triton 3.8 keeps 8 registers of one kernel in memory."""
    pytest.importorskip("triton", minversion="3.9")
    said = run("-W", "ignore", "-m", "tests.triton.compiled", "--short")
    assert " 0 with spills of over 8 bytes" in said


@pytest.mark.slow
def test_the_table_of_kernels_has_those_of_the_code() -> None:
    """``python -m tests.triton.table`` writes it."""
    pytest.importorskip("triton")
    run("-W", "ignore", "-m", "tests.triton.table", "--check")


@pytest.mark.slow
def test_the_lines_of_mutations_are_still_there() -> None:
    """``make gpu-mutations`` changes each, and must see red."""
    for mutation in MUTATIONS:
        before, after = (PACKAGE / mutation.file).read_text(), mutation.source()
        compile(after, mutation.file, "exec")
        assert after != before
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


WITHOUT = """
import sys
sys.modules["triton"] = None  # as if it were not there
import importlib.util
importlib.util.find_spec = lambda name, package=None, find=importlib.util.find_spec: (
    None if name == "triton" else find(name, package)
)
import torch
import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES, triton_rows
from edgewise.attention.attend import _problem
from edgewise.attention.attend import checked_call

x = torch.randn(4, 2, 8)
graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
print(ew.attend(x, x, x, graph, engine="rows").shape)
call, bound = checked_call(x, x, x, graph)
problem = _problem(call, bound)._replace(device=torch.device("cuda"))
assert not triton_rows.serves(problem.device)
print(*ENGINES["rows"].refuses(problem), sep="; ")
"""


@pytest.mark.slow
def test_without_triton_everything_else_works_and_a_gpu_is_told_what_is_missing() -> None:
    said = run("-c", WITHOUT)
    assert "torch.Size([4, 2, 8])" in said
    assert "pip install" in said
    assert "[gpu]" in said
