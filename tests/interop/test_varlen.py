"""Attention of packed texts, compared with a dense computation of each text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import ArgumentError
from edgewise.interop import varlen
from edgewise.interop.varlen import varlen_attn

torch_varlen = pytest.importorskip("torch.nn.attention.varlen")  # PyTorch 2.10 or later.

HEADS, WIDTH = 4, 8
attention: Callable[..., Any] = varlen_attn
QUERIES, KEYS = [5, 0, 1, 12, 0, 3], [5, 4, 0, 12, 0, 9]


def starts(lengths: list[int]) -> Tensor:
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()


def tensors(queries: list[int], keys: list[int], heads: int = HEADS) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(sum(queries), HEADS, WIDTH), *[(sum(keys), heads, WIDTH)] * 2]
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


def text_by_text(
    nodes: list[Tensor],
    queries: list[int],
    keys: list[int],
    window: tuple[int, int] = (-1, -1),
    scale: float = WIDTH**-0.5,
) -> tuple[Tensor, Tensor]:
    """Return the output ``[T, H, D]`` and the log-sum-exp ``[H, T]``."""
    query, key, value = nodes
    key, value = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in (key, value))
    outs, lses = [], []
    for q, k, v in zip(query.split(queries), key.split(keys), value.split(keys), strict=True):
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        row = torch.arange(len(q))[:, None] + len(k) - len(q)
        column = torch.arange(len(k))
        left, right = (len(k) + len(q) if side < 0 else side for side in window)
        mask = (row - left <= column) & (column <= row + right)
        scores = scores.masked_fill(~mask, -torch.inf)
        lse = scores.logsumexp(-1)
        weights = (scores - lse.masked_fill(lse == -torch.inf, 0)[..., None]).exp()
        outs.append(torch.einsum("hqk,khd->qhd", weights, v))
        lses.append(lse)
    return torch.cat(outs), torch.cat(lses, 1)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (3, 1), (0, -1), (0, 0)])
@pytest.mark.parametrize("keys", [QUERIES, KEYS])
@pytest.mark.parametrize("heads", [HEADS, 2])
def test_each_text_attends_to_itself(window: tuple[int, int], keys: list[int], heads: int) -> None:
    nodes = tensors(QUERIES, keys, heads)
    expected, expected_lse = text_by_text(nodes, QUERIES, keys, window, scale=0.7)
    bounds = starts(QUERIES), starts(keys), max(QUERIES), max(keys)
    options: dict[str, Any] = {"window_size": window, "scale": 0.7, "enable_gqa": heads < HEADS}
    out = attention(*nodes, *bounds, **options)
    aux = torch_varlen.AuxRequest(lse=True)
    with_lse, lse = attention(*nodes, *bounds, return_aux=aux, **options)
    for x, y in ((out, expected), (with_lse, expected), (lse, expected_lse)):
        torch.testing.assert_close(x, y)
    gradient = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(out, nodes, gradient), torch.autograd.grad(expected, nodes, gradient)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_any_dtype(dtype: torch.dtype) -> None:
    nodes = tensors(QUERIES, QUERIES)
    expected, _ = text_by_text(nodes, QUERIES, QUERIES)
    bound = starts(QUERIES)
    out = attention(*[x.to(dtype) for x in nodes], bound, bound, 12, 12)
    assert isinstance(out, Tensor)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=2e-2)


def test_no_tokens_at_all() -> None:
    bound = torch.zeros(3, dtype=torch.long)
    out = attention(*tensors([], []), bound, bound, 0, 0)
    assert isinstance(out, Tensor)
    assert out.shape == (0, HEADS, WIDTH)


def test_keys_that_are_used_and_pages_of_keys() -> None:
    nodes, used = [x.detach() for x in tensors([1, 1, 2], [8, 8, 8])], [3, 0, 7]
    query, key, value = nodes
    short = [torch.cat([x[8 * i : 8 * i + n] for i, n in enumerate(used)]) for x in (key, value)]
    expected, _ = text_by_text([query, *short], [1, 1, 2], used, (-1, 0))
    bounds = starts([1, 1, 2]), starts([8, 8, 8]), 2, 8
    options: dict[str, Any] = {"seqused_k": torch.tensor(used), "window_size": (-1, 0)}
    torch.testing.assert_close(attention(*nodes, *bounds, **options), expected)
    order = torch.tensor([3, 5, 0, 1, 4, 2])  # Page of each quarter of a text.
    pages = [torch.empty(6, 4, HEADS, WIDTH).double() for _ in range(2)]
    for page, x in zip(pages, (key, value), strict=True):
        page[order] = x.view(6, 4, HEADS, WIDTH)
    table = order.view(3, 2).int()
    out = attention(query, *pages, bounds[0], None, 2, 8, block_table=table, **options)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("heads_first", [False, True])
def test_nested_tensors(heads_first: bool) -> None:
    nodes = tensors(QUERIES, QUERIES)
    expected, _ = text_by_text(nodes, QUERIES, QUERIES, (-1, 0))
    nested = [torch.nested.nested_tensor_from_jagged(x, starts(QUERIES).long()) for x in nodes]
    if heads_first:
        nested = [x.transpose(1, 2) for x in nested]
    out = attention(*nested, window_size=(-1, 0))
    assert isinstance(out, Tensor)
    assert out.is_nested
    assert (out.shape[1] == HEADS) == heads_first
    by_text = out.transpose(1, 2) if heads_first else out
    torch.testing.assert_close(by_text.values(), expected)
    gradient = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(by_text.values(), nodes, gradient),
        torch.autograd.grad(expected, nodes, gradient),
    )


def test_the_graph_is_cached_until_a_bound_changes() -> None:
    bound = starts([4, 6])
    nodes = tensors([4, 6], [4, 6])
    out = attention(*nodes, bound, bound, 6, 6)
    entry = varlen._graphs[bound]
    attention(*nodes, bound, bound, 6, 6)
    assert varlen._graphs[bound] is entry
    bound[1] = 5
    changed = attention(*nodes, bound, bound, 6, 6)
    torch.testing.assert_close(changed, text_by_text(nodes, [5, 5], [5, 5])[0])
    assert not torch.equal(out, changed)
    count = len(varlen._graphs)
    del bound
    assert len(varlen._graphs) == count - 1


def test_the_signature_is_that_of_pytorch() -> None:
    ours, expected = (inspect.signature(m.varlen_attn) for m in (varlen, torch_varlen))
    # Older versions of PyTorch have fewer arguments.
    names = {p.name: p.kind for p in ours.parameters.values()}
    assert names.items() >= {(p.name, p.kind) for p in expected.parameters.values()}
    assert list(names)[:7] == list(expected.parameters)[:7]


def call(bound: object, keys: object = None, **options: Any) -> object:
    x = torch.randn(9, HEADS, WIDTH)
    return attention(x, x, x, bound, bound if keys is None else keys, 9, 9, **options)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "another end": (lambda: call(starts([3, 5])), "`cu_seq_q`: .* to 9.* got one from 0 to 8"),
    "another end of keys": (lambda: call(starts([4, 5]), starts([4, 4])), "`cu_seq_k`: .* to 8"),
    "descending": (lambda: call(torch.tensor([0, 6, 4, 9])), "got 6, then 4 at text 1"),
    "not from 0": (lambda: call(torch.tensor([1, 9])), "got one from 1 to 9"),
    "floats": (lambda: call(torch.tensor([0.0, 9.0])), "`cu_seq_q`: expected integers"),
    "none": (lambda: call(None), "`cu_seq_q`: expected integers"),
    "other texts": (
        lambda: call(starts([4, 5]), starts([4, 0, 5])),
        "`cu_seq_k`: expected 2 texts",
    ),
    "used keys": (
        lambda: call(starts([4, 5]), seqused_k=torch.tensor([4, 6])),
        "`seqused_k`: .* 0 to its length",
    ),
    "pages without lengths": (
        lambda: call(starts([4, 5]), block_table=torch.zeros(2, 1)),
        "`seqused_k`: expected the number of keys",
    ),
    "key heads": (
        lambda: attention(*tensors([3], [3], 2), starts([3]), starts([3]), 3, 3),
        "`key`: expected 4 heads.*enable_gqa",
    ),
    "key heads that do not divide": (
        lambda: attention(*tensors([3], [3], 3), starts([3]), starts([3]), 3, 3, enable_gqa=True),
        "`key`: .* a divisor of 4",
    ),
    "four dimensions": (
        lambda: attention(*[torch.randn(1, 3, 2, 4)] * 3, starts([3]), starts([3]), 3, 3),
        "`query`: expected shape",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_a_named_error(name: str) -> None:
    refused, message = REFUSED[name]
    with pytest.raises(ArgumentError, match=message):
        refused()
