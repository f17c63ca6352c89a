"""The merge law by hand; over every union in ``test_cases.py``."""

from __future__ import annotations

import torch

import edgewise as ew
from edgewise import graphs


def test_graphs_with_projections_of_their_own() -> None:
    """Longformer's hubs have keys of their own: the softmax runs over both kinds of edges."""
    near, far = graphs.window(1).bind(6), (graphs.hubs([0]) - graphs.window(1)).bind(6)
    query, value = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    keys = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    parts = [ew.attend_with_lse(query, k, value, g) for k, g in zip(keys, (near, far), strict=True)]
    scores = torch.full((6, 6, 2), -torch.inf, dtype=torch.float64)
    for key, graph in zip(keys, (near, far), strict=True):
        source, target = graph.edge_index
        scores[target, source] = ew.edge_scores(query, key, graph)
    expected = torch.einsum("ijh,jhd->ihd", scores.softmax(1), value)
    out, lse = ew.merge_attention(parts)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(lse, scores.logsumexp(1), rtol=0, atol=1e-14)


def test_the_output_has_the_type_of_the_outputs() -> None:
    half = torch.ones(2, 1, 3, dtype=torch.bfloat16), torch.zeros(2, 1)
    out, lse = ew.merge_attention([half, half])
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)


def test_merging_empty_parts() -> None:
    nothing = (torch.zeros(2, 1, 3, requires_grad=True), torch.full((2, 1), -torch.inf))
    out, lse = ew.merge_attention([nothing, nothing])
    assert (out == 0).all()
    assert (lse == -torch.inf).all()
    (gradient,) = torch.autograd.grad(out.sum(), nothing[0])
    assert gradient.isfinite().all()
    only = (torch.randn(2, 1, 3), torch.randn(2, 1))
    for out, lse in (ew.merge_attention([only, nothing]), ew.merge_attention([only])):
        torch.testing.assert_close(out, only[0])
        torch.testing.assert_close(lse, only[1])
