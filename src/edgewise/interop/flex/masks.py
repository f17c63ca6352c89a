"""Masks of FlexAttention as graphs.

A block mask lists the blocks of queries and keys with allowed pairs, and the full ones among them.
The mask function is evaluated only in blocks that are neither empty nor full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import version_of
from edgewise.attention.biases import Offsets
from edgewise.graphs import Edges, Graph, complete
from edgewise.graphs.graph import graph_of_runs
from edgewise.graphs.run_lists import RunList, runs_of_keys
from edgewise.interop.flex.pairs import Indices, PairFunction, axes_of, on_pairs, probe, state_of
from edgewise.interop.flex.ranges import truth_of_blocks

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

T = TypeVar("T")

BLOCK = 128
"""Default number of queries and of keys in a block, as in PyTorch."""
AT_ONCE = 1 << 22
"""Maximum number of pairs for which a mask function is evaluated at once."""
LEAST_RUN = 2
"""Minimum mean length of the ranges of keys of a graph; for shorter ones, edges are listed."""
CACHE = "edgewise_mask"
"""Attribute of a BlockMask or a score_mod that holds its mask."""
EMPTY, PARTIAL, FULL = 0, 1, 2
"""Kinds of blocks."""

Sizes = tuple[int, int, int, int]
"""Batch size, number of query heads, of queries and of keys."""


@dataclass(frozen=True, eq=False)
class Mask:
    """Mask of FlexAttention, as a graph and as blocks.

    Attributes:
        graph: graph of the allowed pairs. If the mask depends on the batch index or the head, its
            nodes are those of all groups, one after the other.
        kinds: kind of each block, ``[groups over batch, groups over heads, rows, columns]``.
        block: numbers of queries and of keys in a block.
        mask_mod: function of the allowed pairs in blocks that are neither empty nor full.
        by_batch: whether the mask depends on the batch index.
        by_head: whether the mask depends on the head.
    """

    graph: Graph
    kinds: Tensor
    block: tuple[int, int]
    mask_mod: PairFunction
    by_batch: bool = False
    by_head: bool = False

    @property
    def queries(self) -> int:
        """Number of queries of a group."""
        return self.graph.num_targets // self.kinds.shape[:2].numel()

    @property
    def keys(self) -> int:
        """Number of keys of a group."""
        return self.graph.num_sources // self.kinds.shape[:2].numel()

    def offsets(self) -> Offsets:
        """Return the classes of the edges by ``kv_idx - q_idx + queries - 1``."""
        graph = self.graph
        target = torch.arange(graph.num_targets, device=graph.device) % max(self.queries, 1)
        source = torch.arange(graph.num_sources, device=graph.device) % max(self.keys, 1)
        count = max(self.queries + self.keys - 1, 0)
        classes = torch.arange(count, device=graph.device)
        return Offsets(target - (self.queries - 1), source, classes, graph)


def create_block_mask(  # noqa: PLR0917 - the signature of PyTorch
    mask_mod: PairFunction,
    B: int | None,  # noqa: N803 - the names of PyTorch
    H: int | None,  # noqa: N803
    Q_LEN: int,  # noqa: N803
    KV_LEN: int,  # noqa: N803
    device: torch.device | str | None = None,
    BLOCK_SIZE: int | tuple[int, int] = BLOCK,  # noqa: N803
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,  # noqa: ARG001
    dq_kv_order: bool = True,  # noqa: ARG001
) -> BlockMask:
    """Return the ``BlockMask`` that ``torch.nn.attention.flex_attention.create_block_mask`` makes.

    The mask is evaluated a few blocks at a time, so memory does not grow with the number of pairs,
    and once for all batch indices and heads if it does not depend on them.

    Args:
        mask_mod: function of scalar tensors ``(b, h, q_idx, kv_idx)`` that returns whether the
            query may attend to the key.
        B: batch size; None if the mask does not depend on the batch index.
        H: number of query heads; None if the mask does not depend on the head.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: device of the mask; by default the accelerator of this machine, or the CPU.
        BLOCK_SIZE: number of queries and keys in a block, or a pair of both.
        separate_full_blocks: whether blocks without masked pairs are listed separately.
        _compile: ignored.
        compute_dq_write_order: ignored.
        dq_kv_order: ignored.

    Raises:
        ArgumentError: a size is negative, or the mask does not return booleans.

    Example:
        >>> from edgewise.interop.flex import create_block_mask
        >>> causal = lambda b, h, q_idx, kv_idx: q_idx >= kv_idx
        >>> create_block_mask(causal, None, None, 512, 512, device="cpu").sparsity()
        37.5
    """
    from torch.nn.attention.flex_attention import BlockMask

    for name, size, least in (("B", B, 1), ("H", H, 1), ("Q_LEN", Q_LEN, 0), ("KV_LEN", KV_LEN, 0)):
        if size is not None:
            check_range(name, size, "pass the size of query and key", least=least, integer=True)
    device = torch.device(device or torch.accelerator.current_accelerator() or "cpu")
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    members, heads = B or 1, H or 1
    with disable_modes(device):
        by_batch, by_head = _groups(mask_mod, members, heads, device)
        grid = members if by_batch else 1, heads if by_head else 1
        sizes = Q_LEN, KV_LEN
        kinds = _kinds(mask_mod, grid, block, sizes, device)
        kinds = kinds.expand(members, heads, -1, -1)
        partial = kinds == PARTIAL if separate_full_blocks else kinds > EMPTY
        count, column = _listed(partial)
        full_count, full_column = _listed(kinds == FULL) if separate_full_blocks else (None, None)
        return BlockMask.from_kv_blocks(
            count,
            column,
            full_count,
            full_column,
            BLOCK_SIZE=block,
            mask_mod=mask_mod,
            seq_lengths=sizes,
        )


def _kinds(
    mask_mod: PairFunction,
    grid: tuple[int, int],
    block: tuple[int, int],
    sizes: tuple[int, int],
    device: torch.device,
) -> Tensor:
    """Return the kind of each block, ``[batch, heads, rows, columns]``."""
    first = [torch.arange(0, n, step, device=device) for n, step in zip(sizes, block, strict=True)]
    after = [x + step for x, step in zip(first, block, strict=True)]
    last = [(x - 1).clamp(max=n - 1) for x, n in zip(after, sizes, strict=True)]
    # As in PyTorch, a block that is cut off at the end is not full.
    inside = (after[0] <= sizes[0])[:, None] & (after[1] <= sizes[1])
    kinds = torch.full((*grid, *inside.shape), PARTIAL, device=device)
    unknown = torch.ones_like(kinds, dtype=torch.bool)
    for group in product(range(grid[0]), range(grid[1])) if kinds.numel() else ():
        truth = truth_of_blocks(mask_mod, group, (first[0], first[1]), (last[0], last[1]))
        if truth is not None:
            kinds[group] = truth.some.long() + (truth.every & inside)
            unknown[group] = truth.some & ~truth.every
    for some, allowed in _evaluated(mask_mod, unknown.nonzero(), block, sizes):
        pairs = allowed.flatten(1)
        kinds[some.unbind(1)] = pairs.any(1).long() + pairs.all(1)
    return kinds


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of true columns in each row, and all columns, the true ones first."""
    order = torch.argsort(blocks.int(), dim=-1, descending=True, stable=True)
    return blocks.sum(-1).int().contiguous(), order.int().contiguous()


def mask_of(block_mask: BlockMask | None, sizes: Sizes, device: torch.device) -> Mask:
    """Return the graph and the blocks of a mask, cached on the BlockMask."""
    if block_mask is None:
        kinds = torch.full((1, 1, *(-(-size // BLOCK) for size in sizes[2:])), FULL, device=device)
        return Mask(complete().bind(*sizes[2:]).to(device), kinds, (BLOCK, BLOCK), _allow_all)
    check_block_mask(block_mask, sizes, device)
    listed = version_of(block_mask.kv_num_blocks), version_of(block_mask.kv_indices)
    state = [block_mask.mask_mod, sizes, listed, *state_of(block_mask.mask_mod)]
    return cached(vars(block_mask), state, lambda: _mask(block_mask, sizes))


def _allow_all(b: Tensor, *_: Tensor) -> Tensor:
    return b.new_ones((), dtype=torch.bool)


def cached(attributes: dict[str, Any], state: Any, make: Callable[[], T]) -> T:
    """Return ``make()``, stored in the attributes of an object, and computed again if the state
    changes.
    """
    # A table with weak keys would never free a mask that refers to its key.
    entry: tuple[Any, T] | None = attributes.get(CACHE)
    if entry is None or entry[0] != state:
        entry = attributes[CACHE] = state, make()
    return entry[1]


def check_block_mask(block_mask: BlockMask, sizes: Sizes, device: torch.device) -> None:
    """Raise ArgumentError unless the mask fits these sizes and is on this device."""
    members, heads, *lengths = sizes
    if not hasattr(block_mask, "kv_num_blocks"):
        raise ArgumentError(
            "block_mask",
            expected="a BlockMask",
            got=describe(block_mask),
            remedy="create it with create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN)",
        )
    if list(block_mask.seq_lengths) != lengths:
        raise ArgumentError(
            "block_mask",
            expected=f"a mask of {lengths[0]} queries and {lengths[1]} keys, as in query and key",
            got=f"one of {block_mask.seq_lengths[0]} queries and {block_mask.seq_lengths[1]} keys",
            remedy=f"create it with Q_LEN={lengths[0]} and KV_LEN={lengths[1]}",
        )
    rows = block_mask.kv_num_blocks.shape[:-1]
    if len(rows) != 2 or rows[0] not in (1, members) or rows[1] not in (1, heads):
        raise ArgumentError(
            "block_mask",
            expected=f"a batch of 1 or {members} and 1 or {heads} heads, as in query",
            got=f"shape {list(rows)}",
            remedy="create it with the B and H of the query, or None",
        )
    if block_mask.kv_num_blocks.device != device:
        raise ArgumentError(
            "block_mask",
            expected=f"a mask on {device}, the device of query",
            got=f"one on {block_mask.kv_num_blocks.device}",
            remedy=f"move it with .to({str(device)!r})",
        )


def _mask(block_mask: BlockMask, sizes: Sizes) -> Mask:
    members, heads, *lengths = sizes
    device = block_mask.kv_num_blocks.device
    block: tuple[int, int] = block_mask.BLOCK_SIZE
    with disable_modes(device):
        kinds = block_kinds(block_mask)
        by_batch, by_head = _groups(block_mask.mask_mod, members, heads, device)
        by_batch |= bool((kinds != kinds[:1]).any())
        by_head |= bool((kinds != kinds[:, :1]).any())
        grid = members if by_batch else 1, heads if by_head else 1
        kinds = kinds[: grid[0], : grid[1]].expand(*grid, -1, -1)
        graph = _graph(block_mask.mask_mod, kinds, block, (lengths[0], lengths[1]))
    return Mask(graph, kinds, block, block_mask.mask_mod, by_batch, by_head)


def block_kinds(block_mask: BlockMask) -> Tensor:
    """Return the kind of each block, ``[B, H, rows, columns]``."""
    columns = -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    rows = block_mask.kv_num_blocks.shape
    kinds = torch.zeros(*rows, columns + 1, dtype=torch.long, device=block_mask.kv_indices.device)
    for kind, count, column in (
        (PARTIAL, block_mask.kv_num_blocks, block_mask.kv_indices),
        (FULL, block_mask.full_kv_num_blocks, block_mask.full_kv_indices),
    ):
        if count is not None and column is not None:
            # Entries after the first ``count`` are undefined.
            is_listed = torch.arange(column.shape[-1], device=column.device) < count[..., None]
            kinds.scatter_(-1, column.long().masked_fill(~is_listed, columns), kind)
    return kinds[..., :columns]


def _groups(
    mask_mod: PairFunction, members: int, heads: int, device: torch.device
) -> tuple[bool, bool]:
    """Return whether a mask depends on the batch index, and whether it depends on the head."""
    allowed = probe(mask_mod, device)
    if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
        raise ArgumentError(
            "mask_mod",
            expected="a function (b, h, q_idx, kv_idx) that returns a boolean tensor",
            got=describe(allowed),
            remedy="compare the indices, as in q_idx >= kv_idx",
        )
    axes = axes_of(allowed)
    return members > 1 and "b" in axes, heads > 1 and "h" in axes


def _evaluated(
    mask_mod: PairFunction, blocks: Tensor, block: tuple[int, int], sizes: tuple[int, int]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks ``[n, 4]`` and which of their pairs are allowed, ``[n, queries, keys]``."""
    rows, columns = (torch.arange(size, device=blocks.device) for size in block)
    for some in blocks.split(max(AT_ONCE // (block[0] * block[1]), 1)):
        b, h, row, column = some.unbind(1)
        q, kv = row[:, None] * block[0] + rows, column[:, None] * block[1] + columns
        indices = Indices(b, h, q.clamp(max=sizes[0] - 1), kv.clamp(max=sizes[1] - 1))
        allowed = on_pairs(mask_mod, indices, by_batch=True, by_head=True)
        inside = (q < sizes[0])[:, :, None] & (kv < sizes[1])[:, None]
        yield some, allowed & inside


def _graph(
    mask_mod: PairFunction, kinds: Tensor, block: tuple[int, int], sizes: tuple[int, int]
) -> Graph:
    """Return the packed graph of all groups of a mask."""
    queries, keys = sizes
    groups = kinds.shape[0] * kinds.shape[1]
    # Consecutive full blocks are one run of each of their rows.
    flat = kinds.reshape(-1, kinds.shape[-1]) if kinds.numel() else kinds.new_zeros(0, 1)
    full = runs_of_keys((flat.flatten() == FULL).nonzero()[:, 0], flat.shape[1])
    group, row = full.row // max(kinds.shape[2], 1), full.row % max(kinds.shape[2], 1)
    q = row[:, None] * block[0] + torch.arange(block[0], device=kinds.device)
    inside = q < queries
    start = group * keys + full.start * block[1]
    stop = group * keys + (full.stop * block[1]).clamp(max=keys)
    bounds = [x[:, None].expand_as(q)[inside] for x in (start, stop)]
    runs = [torch.stack([(group[:, None] * queries + q)[inside], *bounds])]
    for some, allowed in _evaluated(mask_mod, (kinds == PARTIAL).nonzero(), block, sizes):
        padded = F.pad(allowed, (1, 1))
        # The first pair of each run, and the first pair after it, in turn.
        changes = (padded[..., 1:] != padded[..., :-1]).nonzero()
        (number, row, first), last = changes[::2].unbind(1), changes[1::2, 2]
        b, h, block_row, block_column = some[number].unbind(1)
        group = b * kinds.shape[1] + h
        ahead = group * keys + block_column * block[1]
        target = group * queries + block_row * block[0] + row
        runs.append(torch.stack([target, ahead + first, ahead + last]))
    listed = _joined(torch.cat(runs, 1), groups * keys)
    nodes = groups * queries, groups * keys
    segments = None
    if groups > 1:
        ones = torch.ones(groups, dtype=torch.long, device=kinds.device)
        segments = ones * queries, ones * keys
    if listed.row.numel() and float(listed.lengths().double().mean()) < LEAST_RUN:
        edges = graph_of_runs(listed, *nodes).edge_index
        return Edges(edges, *nodes, segments)
    return graph_of_runs(listed, *nodes, segments)


def _joined(runs: Tensor, num_sources: int) -> RunList:
    """Join adjacent runs ``[3, R]`` (row, start, stop) of a row, also with a common step."""
    runs = runs[:, (runs[0] * (num_sources + 1) + runs[1]).argsort()]
    row, start, stop = runs
    continues = (row[1:] == row[:-1]) & (start[1:] == stop[:-1])
    row, start, stop = _merged(row, start, stop, continues)
    same_row = row[1:] == row[:-1]
    steps = (start[1:] - start[:-1])[same_row]
    if steps.numel() and bool((steps == steps[0]).all()) and bool((stop - start == 1).all()):
        return RunList(*_merged(row, start, stop, same_row), int(steps[0]))
    return RunList(row, start, stop, 1)


def _merged(
    row: Tensor, start: Tensor, stop: Tensor, continues: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge each run with the run before it where ``continues [R - 1]`` is true."""
    first, last = F.pad(~continues, (1, 0), value=True), F.pad(~continues, (0, 1), value=True)
    first, last = first[: row.numel()], last[: row.numel()]
    return row[first], start[first], stop[last]
