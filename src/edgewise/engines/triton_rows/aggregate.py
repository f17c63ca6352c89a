"""Operator ``edgewise::triton_rows_aggregate``: sum, mean, max or min over edges, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from edgewise.engines.native.operator import Grads, Inputs, Results, node_sizes
from edgewise.engines.rows.aggregate import REDUCES, RowsAggregate
from edgewise.engines.triton_rows.launch import ACROSS, Job, Tiles, padded
from edgewise.engines.triton_rows.layout import TritonSide, triton_side


class TritonAggregate(RowsAggregate):
    """Sum, mean, max or min over the edges of each target, computed by Triton kernels."""

    name = "triton_rows_aggregate"
    devices = ("cpu", "cuda")

    def forward(self, inputs: Inputs, results: Results) -> None:
        value: Tensor = inputs["value"]
        side = triton_side(inputs["by_target"], value.shape[-3])
        _reduce(value, inputs.get("weight"), inputs["reduce"], side, results["out"])

    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        value: Tensor = inputs["value"]
        weight: Tensor | None = inputs.get("weight")
        reduce: int = inputs["reduce"]
        out, grad = results["out"], grads["out"]
        assert grad is not None
        by_target = triton_side(inputs["by_target"], value.shape[-3])
        extreme = reduce in (REDUCES["max"], REDUCES["min"])
        members, _, heads, width = node_sizes(value)
        input_grads: dict[str, Tensor] = {}
        if reduce == REDUCES["mean"]:
            degree = by_target.tensors[0].diff().clamp(min=1)[:, None, None]
            grad = (grad / degree).to(value.dtype)
        tie_grad = grad
        if extreme:  # Divide the gradient by the number of edges that reach the extreme.
            job, tiles, blocks = _job(value, weight)
            ties = job.empty(members, by_target.rows, heads, width)
            job.put(out=out.contiguous(), ties=ties)
            job.results(by_target, members, slots=heads * width)
            job.over_rows("aggregate_ties", by_target, members, tiles, blocks)
            job.merge_flat("add_merge", by_target, members, job.arguments.get("slots"), ties)
            ties = ties.view(grad.shape)
            tie_grad = (grad / ties).masked_fill(ties == 0, 0.0)
        if "weight" in needed:
            assert weight is not None
            job, tiles, _ = _job(value, weight)
            weight_grads = job.empty(members, by_target.edges, heads)
            job.nodes("grad_out", tie_grad, "grad")
            job.put(grad_weight=weight_grads, out=out.contiguous() if extreme else None)
            kernel = "aggregate_weight_gradient"
            job.over_rows(kernel, by_target, members, tiles, tiles.blocks)
            input_grads["weight"] = (
                weight_grads if len(weight) == members else weight_grads.sum(0)[None]
            )
        if "value" in needed:
            by_source = triton_side(inputs["by_source"], by_target.rows)
            input_grads["value"] = value.new_empty(value.shape)
            if extreme:
                job, tiles, blocks = _job(value, weight)
                job.put(out=out.contiguous(), tie_grad=tie_grad.contiguous())
                job.put(grad_value=input_grads["value"])
                job.results(by_source, members, slots=heads * width)
                kernel = "aggregate_extreme_gradient"
                job.over_rows(kernel, by_source, members, tiles, blocks)
                slots = job.arguments.get("slots")
                job.merge_flat("add_merge", by_source, members, slots, input_grads["value"])
            else:
                _reduce(grad, weight, REDUCES["sum"], by_source, input_grads["value"])
        return input_grads


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
