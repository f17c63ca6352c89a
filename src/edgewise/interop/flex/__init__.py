"""FlexAttention of PyTorch on Edgewise's engines, which train on a CPU too.

``flex_attention`` and ``create_block_mask`` have the signatures of
``torch.nn.attention.flex_attention`` and use its ``BlockMask``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import AttendOptions, attend, attend_with_lse
from edgewise.attention.biases import EdgeTerm, OffsetBias, Offsets
from edgewise.attention.checks import in_autocast_dtype
from edgewise.attention.scores import Dot
from edgewise.attention.steps import edge_scores
from edgewise.engines.call import ACCUMULATORS, without_autocast
from edgewise.interop.flex.blocks import attend_by_blocks
from edgewise.interop.flex.masks import (
    EMPTY,
    FULL,
    PARTIAL,
    Mask,
    Sizes,
    block_kinds,
    cached,
    check_block_mask,
    create_block_mask,
    mask_of,
)
from edgewise.interop.flex.pairs import Indices, PairFunction, on_pairs, state_of
from edgewise.interop.flex.score_mods import ScoreMod, Terms, recognise
from edgewise.interop.torch_arguments import check_dims, check_gqa

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask

__all__ = ["create_block_mask", "flex_attention"]

MOST_EDGE_TERMS = 1 << 26
"""Maximum number of biases of edges; for more, the score_mod is evaluated block by block."""
SPARSE = 16
"""Factor by which blocks must have more pairs than edges for scores to be computed by edges."""


def flex_attention(  # noqa: PLR0917 - the signature of PyTorch
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,  # noqa: ARG001
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor | AuxOutput]:
    r"""Compute attention with modified scores, as PyTorch's ``flex_attention``, with gradients.

    .. math::
        s_{ij} = \mathrm{score\_mod}(\mathrm{scale} \cdot q_i^\top k_j, b, h, i, j), \qquad
        o_i = \sum_j \mathrm{softmax}_j(s_{ij}) v_j

    The mask becomes a graph, cached on the BlockMask. A ``score_mod`` that adds a term depending on
    ``q_idx - kv_idx`` becomes an :class:`~edgewise.OffsetBias`; another term that is added, a bias
    of the edges; one that scales, a gain; ``torch.where(condition, score, -inf)``, a mask. Any
    other function is evaluated on the scores, some rows at a time.

    Args:
        query: ``[B, H, L, E]``.
        key: ``[B, Hkv, S, E]``; with ``enable_gqa``, Hkv may be a divisor of H.
        value: ``[B, Hkv, S, Ev]``.
        score_mod: function of scalar tensors ``(score, b, h, q_idx, kv_idx)`` that returns the
            modified score. Tensors that it reads get gradients.
        block_mask: mask of ``create_block_mask``, of Edgewise or of PyTorch.
        scale: factor of the scores, by default 1/√E.
        enable_gqa: whether several query heads may share a key head.
        return_lse: whether to return the log-sum-exp ``[B, H, L]`` too.
        kernel_options: ignored.
        return_aux: auxiliary outputs to return, ``AuxRequest(lse=..., max_scores=...)``.

    Returns:
        ``[B, H, L, Ev]``, zero for queries without allowed keys; with ``return_lse``, a pair with
        the log-sum-exp; with ``return_aux``, a pair with an ``AuxOutput``.

    Raises:
        ArgumentError: shapes, heads, dtypes or devices do not match, or ``block_mask`` has another
            size.

    References:
        Dong et al., Flex Attention: a programming model for generating optimized attention
        kernels, 2024.

    Example:
        >>> import torch
        >>> from edgewise.interop.flex import create_block_mask, flex_attention
        >>> query = key = value = torch.randn(1, 4, 256, 16, requires_grad=True)
        >>> causal = lambda b, h, q_idx, kv_idx: q_idx >= kv_idx
        >>> mask = create_block_mask(causal, None, None, 256, 256, device="cpu")
        >>> out = flex_attention(query, key, value, block_mask=mask)
        >>> out.sum().backward()
    """
    if torch.compiler.is_dynamo_compiling():  # Graphs are made of values, outside of the compiler.
        eager: Callable[..., Tensor] = torch.compiler.disable(flex_attention)
        options = scale, enable_gqa, return_lse
        return eager(query, key, value, score_mod, block_mask, *options, return_aux=return_aux)
    _check(query, key, value, enable_gqa=enable_gqa)
    if return_lse and return_aux is not None:
        raise ArgumentError(
            "return_lse",
            expected="one of return_lse and return_aux",
            got="both",
            remedy="pass return_aux=AuxRequest(lse=True) alone",
        )
    query, key, value = in_autocast_dtype(query, key, value)
    aux = {"with_lse": return_lse, "with_max": False}
    if return_aux is not None:
        aux = {"with_lse": return_aux.lse, "with_max": return_aux.max_scores}
    with without_autocast(query.device):
        mask, terms = _mask_and_terms(query, key, score_mod, block_mask)
        nodes = query, key, value
        out, lse, largest = _attention(nodes, mask, score_mod, terms, Dot(scale), **aux)
    if return_aux is not None:
        from torch.nn.attention.flex_attention import AuxOutput

        return out, AuxOutput(lse, largest)
    return out if lse is None else (out, lse)


def _check(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool) -> None:
    nodes = {"query": query, "key": key, "value": value}
    expected = "shape [B, H, N, D] (batch, heads, tokens, width of a head)"
    check_dims(4, expected, "add the missing axes with unsqueeze", **nodes)
    for name, x in nodes.items():
        if x.shape[0] not in (1, query.shape[0]):
            raise ArgumentError(
                name,
                expected=f"a batch of {query.shape[0]}, as in query, or 1",
                got=str(x.shape[0]),
                remedy="pass as many keys and values as queries",
            )
    heads, key_heads = query.shape[1], key.shape[1]
    check_gqa(heads, key_heads, enable_gqa=enable_gqa)
    if heads != key_heads and not (key_heads and heads % key_heads == 0):
        raise ArgumentError(
            "key",
            expected=f"a number of heads that divides {heads}, the heads of query",
            got=str(key_heads),
            remedy="project to another number of key heads",
        )


def _mask_and_terms(
    query: Tensor, key: Tensor, score_mod: ScoreMod | None, block_mask: BlockMask | None
) -> tuple[Mask, Terms | None]:
    """Return the mask, also of ``score_mod``, and the terms of ``score_mod`` if it is linear."""
    sizes = *query.shape[:2], query.shape[2], key.shape[2]
    terms = (
        None if score_mod is None else recognise(score_mod, ACCUMULATORS[query.dtype], query.device)
    )
    if score_mod is not None and terms is not None and terms.allowed is not None:
        block_mask = _with_mask_of(score_mod, terms.allowed, block_mask, sizes, query.device)
    return mask_of(block_mask, sizes, query.device), terms


def _attention(
    nodes: tuple[Tensor, Tensor, Tensor],
    mask: Mask,
    score_mod: ScoreMod | None,
    terms: Terms | None,
    score: Dot,
    *,
    with_lse: bool,
    with_max: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the output, and the log-sum-exp and the largest scores if they are requested."""
    query, key, value = nodes
    fused: tuple[Tensor, Tensor, AttendOptions] | None = query, key, {"score": score}
    if score_mod is not None:
        fused = None if terms is None else _fused(terms, mask, query, key, score)
    if with_max or (fused is None and not _is_sparse(mask)):
        out, lse, largest = attend_by_blocks(nodes, mask, score_mod, score)
        return out, lse if with_lse else None, largest if with_max else None
    batch, heads = query.shape[:2]
    query, key, options = fused or (query, key, {"score": score})
    rows = [_folded(x, mask, batch, heads) for x in (query, key, value)]
    if fused is None:
        assert score_mod is not None
        scores = edge_scores(rows[0], rows[1], mask.graph, score=score)
        bias = _on_edges(score_mod, mask, (batch, heads), scores)
        options = {"score": None, "bias": bias}
    if not with_lse:
        out = attend(rows[0], rows[1], rows[2], mask.graph, layout="NHD", **options)
        return _unfolded(out, mask, batch, heads), None, None
    out, lse = attend_with_lse(rows[0], rows[1], rows[2], mask.graph, **options)
    lse = _unfolded(lse[..., None], mask, batch, heads)[..., 0]
    return _unfolded(out, mask, batch, heads), lse, None


def _with_mask_of(
    score_mod: ScoreMod,
    allowed: PairFunction,
    block_mask: BlockMask | None,
    sizes: Sizes,
    device: torch.device,
) -> BlockMask:
    """Return the mask of the pairs that ``score_mod`` and ``block_mask`` allow, cached."""
    state = [sizes, device, block_mask, *state_of(score_mod)]
    mask_mod = allowed
    if block_mask is not None:
        check_block_mask(block_mask, sizes, device)
        kinds, block, inner = block_kinds(block_mask), block_mask.BLOCK_SIZE, block_mask.mask_mod
        members, heads = kinds.shape[:2]
        state += state_of(inner)

        def mask_mod(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
            group = b if members > 1 else 0, h if heads > 1 else 0
            kind = kinds[*group, q // block[0], kv // block[1]]
            in_mask: Tensor = (kind == FULL) | ((kind == PARTIAL) & inner(b, h, q, kv))
            return in_mask.logical_and(allowed(b, h, q, kv))

    attributes = vars(score_mod) if isinstance(score_mod, FunctionType | partial) else {}
    return cached(attributes, state, lambda: create_block_mask(mask_mod, *sizes, device))


def _is_sparse(mask: Mask) -> bool:
    pairs = int((mask.kinds != EMPTY).sum()) * mask.block[0] * mask.block[1]
    return pairs > SPARSE * mask.graph.num_edges


def _fused(
    terms: Terms, mask: Mask, query: Tensor, key: Tensor, score: Dot
) -> tuple[Tensor, Tensor, AttendOptions] | None:
    """Return query, key and options of ``attend`` with these terms, or None if it has no such."""
    if terms.gain is not None:
        of_query, of_key = (set(terms.gain_axes) <= set(axes) for axes in ("bhq", "bk"))
        if not (of_query or of_key):
            return None
        gain = _of_nodes(terms.gain, terms.gain_axes, query, key)
        if not terms.gain_axes and not gain.requires_grad:
            score = Dot(score.scale_for(query.shape[-1]) * float(gain))
        elif of_query:
            query = (query * gain).to(query.dtype)
        else:
            key = (key * gain.transpose(2, 3)).to(key.dtype)
    if terms.bias is None:
        return query, key, {"score": score}
    axes = terms.bias_axes
    if terms.is_relative and "b" not in axes and not mask.by_head:
        bias: EdgeTerm = _by_offset(terms.bias, axes, mask, query.shape[1])
    else:
        members, heads = (
            n if axis in axes else 1 for axis, n in zip("bh", query.shape[:2], strict=True)
        )
        if members * heads * mask.graph.num_edges > MOST_EDGE_TERMS:
            return None
        bias = _on_edges(terms.bias, mask, (members, heads))
    return query, key, {"score": score, "bias": bias}


def _of_nodes(function: PairFunction, axes: str, query: Tensor, key: Tensor) -> Tensor:
    """Return ``[B, H, L, S]``, of size 1 along axes on which the function does not depend."""
    sizes = zip("bhqk", (*query.shape[:3], key.shape[2]), strict=True)
    b, h, q, kv = (torch.arange(n if x in axes else 1, device=query.device) for x, n in sizes)
    values: Tensor = on_pairs(function, Indices(b, h, q[None], kv[None]))
    return values[:, :, 0]


def _by_offset(function: PairFunction, axes: str, mask: Mask, heads: int) -> OffsetBias:
    """Return the bias of each difference of query and key index, and of each head."""
    offsets: Offsets = mask.graph.cached("offsets of flex_attention", mask.offsets)
    # Class c is the difference kv - q = c - (L - 1).
    difference = mask.queries - 1 - offsets.classes
    h = torch.arange(heads if "h" in axes else 1, device=difference.device)
    zero = h[:1]
    bias = on_pairs(function, Indices(zero, h, difference[None], zero[None]))
    return OffsetBias(offsets, bias[0, :, 0, :, 0].T)


def _on_edges(
    function: PairFunction,
    mask: Mask,
    sizes: tuple[int, int],
    scores: Tensor | None = None,
) -> Tensor:
    """Evaluate a function on the edges, ``[B, E, H]``, or ``[E, H]`` if the batch is packed."""
    source, target = mask.graph.edge_index
    group = target // max(mask.queries, 1)
    b, h = (torch.arange(size, device=target.device) for size in sizes)
    b = group // mask.kinds.shape[1] if mask.by_batch else b
    h = group % mask.kinds.shape[1] if mask.by_head else h
    q, kv = target % max(mask.queries, 1), source % max(mask.keys, 1)
    if scores is not None:  # Each edge is a block of one pair.
        scores = scores[..., 0] if mask.by_head else scores.transpose(-1, -2)
        scores = scores[..., None, None]
    indices = Indices(b, h, q[:, None], kv[:, None])
    values: Tensor = on_pairs(
        function, indices, scores, by_batch=mask.by_batch, by_head=mask.by_head
    )[..., 0, 0]
    return values.unsqueeze(-1) if mask.by_head else values.transpose(-1, -2)


def _folded(x: Tensor, mask: Mask, batch: int, heads: int) -> Tensor:
    """Return ``[B, H, N, D]`` with nodes before heads, and the groups of the mask as nodes."""
    if mask.by_head:
        x = x.repeat_interleave(heads // x.shape[1], 1).flatten(1, 2)[:, :, None]
    else:
        x = x.transpose(1, 2)
    return x.expand(batch, -1, -1, -1).flatten(0, 1) if mask.by_batch else x


def _unfolded(x: Tensor, mask: Mask, batch: int, heads: int) -> Tensor:
    """Undo :func:`_folded`."""
    x = x.unflatten(0, (batch, -1)) if mask.by_batch else x
    return x[:, :, 0].unflatten(1, (heads, -1)) if mask.by_head else x.transpose(1, 2)
