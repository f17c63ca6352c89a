"""Attention of packed texts with the signature of ``torch.nn.attention.varlen``.

PyTorch's function runs on CUDA in 16 bits only; this one on every device and in every dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise._utils.arguments import describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import boundaries, runs_and_positions
from edgewise._utils.torch_internals import version_of
from edgewise.attention.attend import attend, attend_with_lse
from edgewise.attention.scores import Dot
from edgewise.graphs import Graph, Intervals
from edgewise.interop.torch_arguments import check_dims, check_gqa

if TYPE_CHECKING:
    from torch.nn.attention.varlen import AuxRequest

__all__ = ["varlen_attn"]

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)

_graphs = WeakTensorKeyDictionary()


def varlen_attn(  # noqa: PLR0917 - the signature of PyTorch
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor | None = None,
    cu_seq_k: Tensor | None = None,
    max_q: int | None = None,  # noqa: ARG001
    max_k: int | None = None,  # noqa: ARG001
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,  # noqa: ARG001
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Compute attention within each text of a packed batch, as PyTorch's ``varlen_attn``.

    With Lq queries and Lk keys of a text, query i attends to keys from :math:`i + Lk - Lq -
    \mathrm{left}` to :math:`i + Lk - Lq + \mathrm{right}`: the last query is aligned with the last
    key. Texts may be empty; a query without keys gets zeros. The graph of the texts is cached.

    Args:
        query: ``[T_q, H, D]``, all texts one after the other; or a nested tensor in the jagged
            layout, ``[B, texts, H, D]`` or ``[B, H, texts, D]``, without ``cu_seq_q`` and
            ``cu_seq_k``. The output is then nested too.
        key: ``[T_k, Hkv, D]``; with ``block_table``, pages ``[pages, page size, Hkv, D]``.
        value: in the form of the key, with any width of a head.
        cu_seq_q: ``[N + 1]`` integers, first query of each text, then T_q.
        cu_seq_k: ``[N + 1]`` integers, first key of each text, then T_k. Not used with
            ``block_table``.
        max_q: ignored.
        max_k: ignored.
        return_aux: whether to return the log-sum-exp, ``AuxRequest(lse=True)``.
        scale: factor of the scores, by default 1/√D.
        window_size: ``(left, right)``; -1 means all. ``(-1, 0)`` is causal attention.
        enable_gqa: whether several query heads may share a key head.
        seqused_k: ``[N]`` integers, number of keys that are used of each text.
        block_table: ``[N, pages of a text]`` integers, pages of the keys of each text; needs
            ``seqused_k``.
        num_splits: ignored.

    Returns:
        ``[T_q, H, Dv]``; with ``return_aux``, a pair with the log-sum-exp ``[H, T_q]``, as the
        kernels of PyTorch return it.

    Raises:
        ArgumentError: a ``cu_seq`` does not start at 0, descends, does not end at the number of
            tokens, or is not of integers; or heads, shapes or dtypes do not match.

    References:
        Dao, FlashAttention-2: faster attention with better parallelism and work partitioning,
        2023.

    Example:
        >>> import torch
        >>> from edgewise.interop.varlen import varlen_attn
        >>> query = key = value = torch.randn(9, 4, 16, requires_grad=True)  # 9 tokens
        >>> starts = torch.tensor([0, 3, 3, 9])  # texts of 3, 0 and 6 tokens
        >>> varlen_attn(query, key, value, starts, starts, 6, 6, window_size=(-1, 0)).shape
        torch.Size([9, 4, 16])
    """
    nested = query if isinstance(query, Tensor) and query.is_nested else None
    if nested is not None:
        query, cu_seq_q = _unpacked("query", query)
        key, cu_seq_k = _unpacked("key", key)
        value, _ = _unpacked("value", value)
    if block_table is not None:
        key, value, cu_seq_k = _paged(key, value, block_table, seqused_k)
        seqused_k = None
    _check(query, key, value, enable_gqa=enable_gqa)
    sizes = query.shape[0], key.shape[0]
    graph = _graph(sizes, query.device, (cu_seq_q, cu_seq_k), seqused_k, window_size)
    if return_aux is None or not return_aux.lse:
        out = attend(query, key, value, graph, score=Dot(scale), layout="NHD")
        return out if nested is None else _packed_as(nested, out)
    out, lse = attend_with_lse(query, key, value, graph, score=Dot(scale))
    return (out if nested is None else _packed_as(nested, out)), lse.T


def _unpacked(name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens ``[T, H, D]`` of a nested tensor, and the first token of each text."""
    if not x.is_nested or x.layout != torch.jagged or x.dim() != 4:
        raise ArgumentError(
            name,
            expected="a nested tensor [B, texts, H, D] or [B, H, texts, D] in the jagged layout",
            got=describe(x),
            remedy="create query, key and value with torch.nested.nested_tensor(..., "
            "layout=torch.jagged)",
        )
    x = x.transpose(1, 2) if _heads_first(x) else x
    offsets: Tensor = x.offsets()  # type: ignore[attr-defined]
    return x.values(), offsets


def _packed_as(nested: Tensor, out: Tensor) -> Tensor:
    """Return tokens ``[T, H, D]`` as a nested tensor in the form of another one."""
    _, offsets = _unpacked("query", nested)
    # The lengths are those of the query: its symbol for them allows sums with it.
    packed = torch.nested.nested_tensor_from_jagged(out, offsets)
    return packed.transpose(1, 2) if _heads_first(nested) else packed


def _heads_first(nested: Tensor) -> bool:
    return isinstance(nested.shape[1], int)


def _paged(
    key: Tensor, value: Tensor, block_table: Tensor, seqused_k: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys and values ``[T_k, Hkv, D]`` of all texts, and the first key of each text."""
    if seqused_k is None:
        raise ArgumentError(
            "seqused_k",
            expected="the number of keys of each text, with block_table",
            got="None",
            remedy="pass seqused_k, integers of shape [N]",
        )
    size = key.shape[1]
    text, position = runs_and_positions(seqused_k.long())
    page = block_table.long()[text, position // size]
    index = page * size + position % size
    key, value = (x.flatten(0, 1).index_select(0, index) for x in (key, value))
    return key, value, boundaries(seqused_k.long())


def _check(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool) -> None:
    expected = "shape [tokens, heads, width of a head]"
    remedy = "concatenate the texts along the first axis"
    check_dims(3, expected, remedy, query=query, key=key, value=value)
    check_gqa(query.shape[1], key.shape[1], enable_gqa=enable_gqa)


def _graph(
    sizes: tuple[int, int],
    device: torch.device,
    cu_seq: Sequence[Tensor | None],
    seqused_k: Tensor | None,
    window_size: tuple[int, int],
) -> Graph:
    """Return the graph of the texts, cached on ``cu_seq_q``."""
    for name, x in zip(("cu_seq_q", "cu_seq_k"), cu_seq, strict=True):
        if not isinstance(x, Tensor) or x.dtype not in INTEGERS or x.dim() != 1 or not len(x):
            raise ArgumentError(
                name,
                expected="integers of shape [N + 1], the first token of each text, then their "
                "number",
                got=describe(x),
                remedy=f"compute {name} with torch.nn.functional.pad(lengths.cumsum(0), (1, 0))",
            )
    tensors = [x for x in (*cu_seq, seqused_k) if x is not None]
    state = [window_size, sizes, device, *map(version_of, tensors)]
    entry: tuple[list[Any], list[Any], Graph] | None = _graphs.get(tensors[0])
    if (
        entry is not None
        and entry[0] == state
        and all(r() is x for r, x in zip(entry[1], tensors, strict=True))
    ):
        return entry[2]
    with disable_modes(device):
        graph = _texts(sizes, tensors, window_size).to(device)
    _graphs[tensors[0]] = state, [ref(x) for x in tensors], graph
    return graph


def _texts(sizes: tuple[int, int], tensors: Sequence[Tensor], window: tuple[int, int]) -> Graph:
    """Return the graph in which each query attends to a range of keys of its text."""
    bounds = [x.long().cpu() for x in tensors]
    for name, bound, size in zip(("cu_seq_q", "cu_seq_k"), bounds, sizes, strict=False):
        _check_bounds(name, bound, size)
    if len(bounds[0]) != len(bounds[1]):
        raise ArgumentError(
            "cu_seq_k",
            expected=f"{counted(len(bounds[0]) - 1, 'text')}, as in cu_seq_q",
            got=str(len(bounds[1]) - 1),
            remedy="list a text without keys too: its end is its start",
        )
    queries, keys = (x.diff() for x in bounds[:2])
    used = bounds[2] if len(bounds) > 2 else keys
    if used.shape != keys.shape or bool(((used < 0) | (used > keys)).any()):
        raise ArgumentError(
            "seqused_k",
            expected="a number of keys from 0 to its length for each text",
            got=str(used.tolist()),
            remedy="pass integers of shape [N]",
        )
    text, position = runs_and_positions(queries)
    position += (used - queries)[text]
    stop = used[text]
    left, right = window
    start = (position - left).clamp(min=0) if left >= 0 else torch.zeros_like(position)
    stop = torch.minimum(stop, (position + right + 1).clamp(min=0)) if right >= 0 else stop
    first = bounds[1][text]
    return Intervals(
        first + torch.minimum(start, stop), first + stop, sizes[1], segments=(queries, keys)
    )


def _check_bounds(name: str, bound: Tensor, size: int) -> None:
    steps = bound.diff()
    if int(bound[0]) == 0 and int(bound[-1]) == size and bool((steps >= 0).all()):
        return
    got = f"one from {int(bound[0])} to {int(bound[-1])}"
    if bool((steps < 0).any()):
        text = int((steps < 0).nonzero()[0, 0])
        got = f"{int(bound[text])}, then {int(bound[text + 1])} at text {text}"
    raise ArgumentError(
        name,
        expected=f"ascending integers from 0 to {size}, the number of tokens",
        got=got,
        remedy=f"compute {name} with torch.nn.functional.pad(lengths.cumsum(0), (1, 0))",
    )
