"""Every link of docs/lectures/formulas.md leads to the lines and the test that it names.

And the formulas that no other test holds, computed from the lecture's letters.
"""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import edgewise as ew
from edgewise import graphs
from edgewise.layers import MessagePassing

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/lectures/formulas.md"
LINK = re.compile(r"\[`(\w+)`\]\(([^)]+)\)")
ROWS = [
    line.strip("|").split(" | ")
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "---" not in line and "| implemented by |" not in line
]
DRY_RUN: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "scripts" / "dry_run.py"))


def names(path: Path) -> set[str]:
    """Functions, classes and variables of a file, at its top."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    body = ast.parse(path.read_text()).body
    assigned = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
    return {node.name for node in body if isinstance(node, kinds)} | {
        target.id for target in assigned if isinstance(target, ast.Name)
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:60])
def test_a_formula_has_its_lines_and_its_test(row: list[str]) -> None:
    assert len(row) == 3, "formula, code, test"
    _, code, test = row
    for cell, folders in ((code, ("src", "examples")), (test, ("tests",))):
        links = LINK.findall(cell)
        assert links, cell
        for name, target in links:
            path = (PAGE.parent / target).resolve()
            assert path.is_file(), target
            assert path.relative_to(ROOT).parts[0] in folders
            assert name in names(path), f"{name} is not in {target}"
            if folders == ("tests",):
                assert name.startswith("test_")


def test_every_part_of_the_lectures_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    parts = ["Attention", "Energy functions", "Heads", "Residual", "Where a token is", "Masks"]
    parts += ["Graph networks", "Where a node is", "in the language of graphs", "Multi-hop"]
    parts += ["Sparse patterns", "Trees, memories and no attention"]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    for part in parts:
        assert any(part in heading for heading in headings), part
    assert len(ROWS) > 50


def test_each_test_of_the_lectures_is_on_the_page() -> None:
    tests = "tests/models/test_lectures.py"
    linked = {name for name, target in LINK.findall(PAGE.read_text()) if target == f"../../{tests}"}
    assert linked == {name for name in names(ROOT / tests) if name.startswith("test_")}


def attention(scores: Tensor, value: Tensor) -> Tensor:
    """softmax(scores [H, N, N]) V, for values ``[N, H, D]``."""
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), value)


def dots(query: Tensor, key: Tensor) -> Tensor:
    return torch.einsum("ihd,jhd->hij", query, key) / query.shape[-1] ** 0.5


def test_the_mean_of_the_neighbours_is_a_matrix_product() -> None:
    matrix = (torch.rand(7, 7, dtype=torch.double) < 0.5).double()
    matrix[:, 0] = 1  # none without a neighbour
    degree = matrix.sum(1).diag()
    x, layer = torch.randn(7, 3, dtype=torch.double), MessagePassing(3, 2, reduce="mean").double()
    expected = degree.inverse() @ matrix @ x @ layer.message.weight.T
    expected = expected + x @ layer.own.weight.T + layer.own.bias
    torch.testing.assert_close(layer(x, graphs.from_dense(matrix.bool())), expected)


def test_the_product_with_the_adjacency_matrix_to_the_letter() -> None:
    query, key, value = torch.randn(3, 6, 2, 4, dtype=torch.double)
    graph = (graphs.window(1) | graphs.hubs([2])).bind(6)
    weight = torch.rand(graph.num_edges, dtype=torch.double) + 0.5
    product = torch.zeros(6, 6, dtype=torch.double)
    product[graph.target, graph.source] = weight  # A ⊙ W_E E
    scores = dots(query, key) * product
    literal = attention(scores, value)
    gain = product.flatten()[:, None]  # complete() lists its edges as the matrix has them
    torch.testing.assert_close(ew.attend(query, key, value, graphs.complete(), gain=gain), literal)
    # Ours reads neighbours alone, and so another thing.
    masked = attention(scores.masked_fill(product == 0, -torch.inf), value)
    on_edges = ew.attend(query, key, value, graph, gain=weight[:, None])
    torch.testing.assert_close(on_edges, masked)
    assert (literal - masked).abs().max() > 0.1
    assert scores.softmax(-1)[:, product == 0].min() > 0, "strangers are read, too"


def test_reformer_reads_the_buckets_of_its_hashes() -> None:
    nodes, width = DRY_RUN["N"], DRY_RUN["D"]
    torch.manual_seed(7)
    out = DRY_RUN["reformer"]()
    torch.manual_seed(7)  # and draw the same again
    query, value = DRY_RUN["features"](), DRY_RUN["features"]()
    key = normalize(query, dim=-1)
    together = torch.zeros(nodes, nodes, dtype=torch.bool)
    for _ in range(2):
        turn = torch.randn(width, 2)
        hashes = []
        for x in key[:, 0]:
            both = torch.cat([x @ turn, -(x @ turn)])
            hashes.append(int(both.argmax()))
        together |= torch.tensor([[a == b for b in hashes] for a in hashes])
    assert 0 < together.float().mean() < 1
    expected = attention(dots(query, key).masked_fill(~together, -torch.inf), value)
    torch.testing.assert_close(out, expected)
