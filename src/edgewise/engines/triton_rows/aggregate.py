"""Operator ``edgewise::triton_rows_aggregate``: sum, mean, max or min over edges, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from edgewise.engines.native.operator import Given, Grads, Results, node_sizes
from edgewise.engines.rows.aggregate import REDUCES, RowsAggregate
from edgewise.engines.triton_rows.launch import ACROSS, Job, Tiles, padded
from edgewise.engines.triton_rows.layout import TritonSide, triton_side


class TritonAggregate(RowsAggregate):
    """Sum, mean, max or min over the edges of each target, computed by Triton kernels."""

    name = "triton_rows_aggregate"
    devices = ("cpu", "cuda")

    def forward(self, given: Given, results: Results) -> None:
        value: Tensor = given["value"]
        side = triton_side(given["by_target"], value.shape[-3])
        _reduce(value, given.get("weight"), given["reduce"], side, results["out"])

    def backward(
        self, given: Given, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        value: Tensor = given["value"]
        weight: Tensor | None = given.get("weight")
        reduce: int = given["reduce"]
        out, grad = results["out"], grads["out"]
        assert grad is not None
        by_target = triton_side(given["by_target"], value.shape[-3])
        extreme = reduce in (REDUCES["max"], REDUCES["min"])
        members, _, heads, width = node_sizes(value)
        made: dict[str, Tensor] = {}
        if reduce == REDUCES["mean"]:
            degree = by_target.tensors[0].diff().clamp(min=1)[:, None, None]
            grad = (grad / degree).to(value.dtype)
        share = grad
        if extreme:  # Divide the gradient by the number of edges that reach the extreme.
            job, tiles, blocks = _job(value, weight)
            ties = job.empty(members, by_target.rows, heads, width)
            job.put(out=out.contiguous(), ties=ties)
            job.results(by_target, members, slots=heads * width)
            job.over_rows("aggregate_ties", by_target, members, tiles, blocks)
            job.merge_flat("add_merge", by_target, members, job.arguments.get("slots"), ties)
            ties = ties.view(grad.shape)
            share = (grad / ties).masked_fill(ties == 0, 0.0)
        if "weight" in needed:
            assert weight is not None
            job, tiles, _ = _job(value, weight)
            each = job.empty(members, by_target.edges, heads)
            job.nodes("grad_out", share, "grad")
            job.put(grad_weight=each, out=out.contiguous() if extreme else None)
            kernel = "aggregate_weight_gradient"
            job.over_rows(kernel, by_target, members, tiles, tiles.blocks)
            made["weight"] = each if len(weight) == members else each.sum(0)[None]
        if "value" in needed:
            by_source = triton_side(given["by_source"], by_target.rows)
            made["value"] = value.new_empty(value.shape)
            if extreme:
                job, tiles, blocks = _job(value, weight)
                job.put(out=out.contiguous(), grad_share=share.contiguous())
                job.put(grad_value=made["value"])
                job.results(by_source, members, slots=heads * width)
                kernel = "aggregate_extreme_gradient"
                job.over_rows(kernel, by_source, members, tiles, blocks)
                slots = job.arguments.get("slots")
                job.merge_flat("add_merge", by_source, members, slots, made["value"])
            else:
                _reduce(grad, weight, REDUCES["sum"], by_source, made["value"])
        return made


def sum_rows(value: Tensor, side: TritonSide) -> Tensor:
    """Sum ``value [B, columns, H, D]`` over the edges of each row; return ``[B, rows, H, D]``."""
    out = value.new_empty(value.shape[0], side.rows, *value.shape[2:])
    _reduce(value, None, REDUCES["sum"], side, out)
    return out


def _reduce(
    value: Tensor, weight: Tensor | None, reduce: int, side: TritonSide, out: Tensor
) -> None:
    """Reduce over the edges of each row of ``side`` (targets or sources) into ``out``."""
    members, _, heads, width = node_sizes(value)
    job, tiles, blocks = _job(value, weight)
    job.put(out=out, REDUCE=reduce)
    job.results(side, members, slots=heads * width)
    job.over_rows("aggregate", side, members, tiles, blocks)
    job.put(pointer=side.tensors[0])
    job.merge_flat("aggregate_merge", side, members, job.arguments.get("slots"), out)


def _job(value: Tensor, weight: Tensor | None) -> tuple[Job, Tiles, int]:
    """Return the arguments of the kernels, the tile sizes, and the number of programs per row."""
    _, _, heads, width = node_sizes(value)
    job = Job(value)
    job.nodes("value", value)
    if weight is not None:
        job.array("weight", weight)
        job.put(weight_batch=weight.shape[1] if weight.shape[0] > 1 else 0)
    block = min(padded(width), ACROSS)
    tiles = Tiles.of(heads, block, value.dtype)
    job.put(H=heads, D=width, BD=block)
    return job, tiles, tiles.blocks * -(-width // block)


triton_rows_aggregate = TritonAggregate()
