"""Ring attention: blocks of sources travel around the processes (Liu et al., 2023).

Each process computes its targets over one block of sources after the other and merges the outputs
by their log-sum-exp. It never stores more than two blocks: the backward pass sends the blocks
around again and recomputes the scores, while their gradients travel with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import attend_with_lse
from edgewise.attention.scores import Additive, Dot
from edgewise.distributed.exchange import as_nodes, as_rows, communicating
from edgewise.distributed.partitions import (
    Selected,
    TargetPartition,
    map_tensors,
    slice_of,
    trainable,
)
from edgewise.engines.merge import merge_attention
from edgewise.graphs import Graph
from edgewise.graphs.slices import edges_of_sources, slice_sources


class RingPartition(TargetPartition):
    """Partition whose processes pass blocks of sources on to the next process."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._blocks = [slice_of(self.source_sizes, owner) for owner in range(self.world_size)]
        self._graphs = [slice_sources(self.graph, b.start, b.stop) for b in self._blocks]
        self._gather_work(self._graphs)

    @property
    def _computed(self) -> Graph:
        return self.graph

    def _check(self, query: Tensor, key: Tensor, value: Tensor, options: Any) -> None:
        super()._check(query, key, value, options)
        score, normaliser = options.get("score"), options.get("normaliser", "softmax")
        if normaliser != "softmax":
            raise ArgumentError(
                "normaliser",
                expected="softmax, because a ring merges outputs by their log-sum-exp",
                got=repr(normaliser),
                remedy='use by="halo" or by="heads"',
            )
        if not (score is None or isinstance(score, Dot | Additive | nn.Module)):
            raise ArgumentError(
                "score",
                expected="Dot(), Additive(...), None or a torch.nn.Module, whose parameters are "
                "known to the backward pass of a ring",
                got=repr(score),
                remedy='write the score as a module, or use by="halo" or by="heads"',
            )

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, engine: str, options: dict[str, Any]
    ) -> Tensor:
        rows = torch.cat([as_rows(key), as_rows(value)], dim=1)
        # The shapes only: the blocks of other processes have other rows.
        key_like, value_like = (x.detach()[..., :0, :, :] for x in (key, value))
        key_width = rows.shape[1] - math.prod((*value.shape[:-3], *value.shape[-2:]))

        tensors = list(
            {id(x): x for option in options.values() for x in trainable(option)}.values()
        )

        def attend_to(
            owner: int, query: Tensor, rows: Tensor, *copies: Tensor
        ) -> tuple[Tensor, Tensor] | None:
            graph = self._graphs[owner].to(query.device)
            if not graph.num_edges and owner != self.rank:
                return None
            key_rows, value_rows = rows.tensor_split([key_width], dim=1)
            key, value = as_nodes(key_rows, key_like), as_nodes(value_rows, value_like)
            by_id = {id(x): copy for x, copy in zip(tensors, copies, strict=True)}
            copied = {
                name: map_tensors(option, lambda x: by_id.get(id(x), x))
                for name, option in options.items()
            }
            local = self._block_options(copied, owner, graph)
            return attend_with_lse(query, key, value, graph, engine=engine, **local)

        out: Tensor = _Ring.apply(self, attend_to, query, rows, *tensors)  # type: ignore[no-untyped-call]
        return out

    def _block_options(self, options: dict[str, Any], owner: int, graph: Graph) -> dict[str, Any]:
        """Return the options for the edges from one block of sources."""
        block = self._blocks[owner]

        def edge_ids() -> Tensor:
            return edges_of_sources(self.graph, block.start, block.stop)

        edges = Selected(self.graph.num_edges, edge_ids, slice(None), block)
        return edges.options(options, graph)

    def _traffic(
        self, rank: int, query: int, key: int, value: int, output: int
    ) -> tuple[int, int, int, int]:
        targets, sources, total = (
            self.target_sizes[rank],
            self.source_sizes[rank],
            sum(self.source_sizes),
        )
        others = self.world_size - 1
        # The block of the next process ends there.
        forward = total - self.source_sizes[(rank + 1) % self.world_size]
        gradients = total if others else 0
        nodes = targets * (query + output) + (sources + 2 * max(self.source_sizes)) * (key + value)
        return (
            total - sources,
            forward * (key + value),
            (forward + gradients) * (key + value),
            nodes,
        )

    def blocks(self, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the owner and the rows of each block, while the next block is received."""
        for step in range(self.world_size):
            owner = (self.rank - step) % self.world_size
            if step == self.world_size - 1:
                yield owner, rows
                return
            received, works = self.shift(rows, owner)
            yield owner, rows
            rows = self.wait(received, works)

    def shift(self, rows: Tensor, owner: int) -> tuple[Tensor, list[dist.Work]]:
        """Start to send rows of a block to the next process, and to receive the preceding block."""
        received = rows.new_empty(self.source_sizes[owner - 1], *rows.shape[1:])
        if self.world_size == 1:
            return rows, []
        neighbours = (self.rank + 1) % self.world_size, (self.rank - 1) % self.world_size
        after, previous = (dist.get_global_rank(self.group, rank) for rank in neighbours)
        operations = [
            dist.P2POp(dist.isend, rows.contiguous(), after, self.group),
            dist.P2POp(dist.irecv, received, previous, self.group),
        ]
        with communicating():
            return received, dist.batch_isend_irecv(operations)

    def wait(self, received: Tensor, works: list[dist.Work]) -> Tensor:
        """Return the received rows."""
        with communicating():
            for work in works:
                work.wait()
        return received


class _Ring(Function):
    """Attention over all blocks; the tensors of the options are arguments only for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        partition: RingPartition,
        attend_to: Callable[..., tuple[Tensor, Tensor] | None],
        query: Tensor,
        rows: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        ctx.random_state = torch.get_rng_state()
        merged = None
        for owner, block in partition.blocks(rows):
            output = attend_to(owner, query, block, *tensors)
            if output is not None:
                # Outputs of 16 bits are merged in 32.
                output = output[0].to(output[1].dtype), output[1]
                merged = output if merged is None else merge_attention([merged, output])
        assert merged is not None  # The block of this process is computed even without edges.
        out, lse = merged[0].to(query.dtype), merged[1]
        ctx.partition, ctx.attend_to = partition, attend_to
        ctx.save_for_backward(query, rows, out, lse, *tensors)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, rows, out, lse, *tensors = ctx.saved_tensors
        partition: RingPartition = ctx.partition
        grad = grad.to(lse.dtype)
        expected = (grad * out).sum(-1)
        # An option may depend on another, or on the query: each has its own gradient, as autograd
        # adds those of the dependence later.
        copies = [x.detach().requires_grad_(x.requires_grad) for x in (query, *tensors)]
        inputs = [x for x in copies if x.requires_grad]
        totals: list[Tensor | None] = [None] * len(inputs)
        travelling = None
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.random_state)
            for owner, block in partition.blocks(rows.detach()):
                block_grad = block.new_zeros(block.shape, dtype=lse.dtype)
                leaf = block.detach().requires_grad_()
                output = ctx.attend_to(owner, copies[0], leaf, *copies[1:])
                if output is not None:
                    # d out / d out_p = w and d out / d lse_p = w (out_p - out), with the weight
                    # w = exp(lse_p - lse) of block p.
                    weight = (output[1].detach() - lse).exp().nan_to_num(0.0)
                    change = (grad * output[0].detach()).sum(-1) - expected
                    output_grads = (weight[..., None] * grad).to(query.dtype), weight * change
                    grads = torch.autograd.grad(
                        output, [leaf, *inputs], output_grads, allow_unused=True
                    )
                    block_grad += grads[0]
                    totals = [
                        x if total is None else total if x is None else total + x
                        for total, x in zip(totals, grads[1:], strict=True)
                    ]
                if travelling is not None:
                    block_grad += partition.wait(*travelling)
                travelling = partition.shift(block_grad, owner)
        assert travelling is not None
        rows_grad = partition.wait(*travelling).to(rows.dtype)
        by_input = iter(totals)
        gradients = [next(by_input) if x.requires_grad else None for x in copies]
        return None, None, gradients[0], rows_grad, *gradients[1:]
