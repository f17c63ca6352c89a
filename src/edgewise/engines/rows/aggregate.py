"""Operator ``edgewise::rows_aggregate``: sum, mean, max or min over the edges of each target.

Values have the shape ``[B, N_src, H, D]`` or ``[N_src, H, D]``. Weights have the shape
``[B or 1, E, H]`` and the accumulation dtype (float64 for float64 values, otherwise float32). The
gradient of a sum with respect to the values is a sum over the transposed graph. If several edges
reach a maximum or minimum, its gradient is divided evenly between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from edgewise.engines.call import accumulator
from edgewise.engines.native.library import sum_copies
from edgewise.engines.native.operator import (
    Argument,
    Fields,
    Given,
    Grads,
    Job,
    KernelOperator,
    Results,
    left_out,
    node_sizes,
    structure_fields,
    threads_for,
)
from edgewise.engines.rows.layout import RowsSide, num_rows, rows_side

REDUCES = {"sum": 0, "mean": 1, "max": 2, "min": 3}


def put_weight(job: Job, name: str, x: Tensor) -> None:
    """Write the address and batch stride of the edge weights to the C structure ``job``.

    Args:
        job: C structure with the arguments of the kernel.
        name: field that gets the address.
        x: edge weights, ``[B or 1, E, H]``.
    """
    job.array(name, x)
    job.fields["weight_batch_stride"] = x[0].numel() if x.shape[0] > 1 else 0


class RowsAggregate(KernelOperator):
    """Sum, mean, max or min over the edges of each target; ``reduce`` is a value of ``REDUCES``.

    The result has the shape ``[B, N_dst, H, D]`` or ``[N_dst, H, D]``.
    """

    name = "rows_aggregate"
    arguments = (
        Argument("value", "Tensor", Job.nodes),
        Argument("weight", "Tensor?", put_weight),
        Argument("by_target", "Tensor[]", left_out),
        Argument("by_source", "Tensor[]", left_out),
        Argument("reduce", "int", left_out),
    )
    differentiable = 2
    results = ("out",)

    def allocate(self, given: Given) -> Results:
        value: Tensor = given["value"]
        *batch, _, heads, width = value.shape
        return {"out": value.new_empty(*batch, num_rows(given["by_target"]), heads, width)}

    def forward(self, given: Given, results: Results) -> None:
        side = rows_side(given["by_target"], given["value"].shape[-3])
        self._reduce(given, side, results["out"])

    def backward(
        self, given: Given, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        value: Tensor = given["value"]
        reduce: int = given["reduce"]
        out, grad = results["out"], grads["out"]
        assert grad is not None
        by_target = rows_side(given["by_target"], value.shape[-3])
        extreme = reduce in (REDUCES["max"], REDUCES["min"])
        if reduce == REDUCES["mean"]:
            degree = by_target.tensors[0].diff().clamp(min=1).to(accumulator(value))
            grad = (grad / degree[:, None, None]).to(value.dtype)
        made: dict[str, Tensor] = {}
        share = value.new_empty(grad.shape if extreme else 0, dtype=accumulator(value))
        if "weight" in needed or extreme:
            job = self._job(given, by_target)
            job.nodes("grad_out", grad)
            job.nodes("out", out)
            if extreme:
                job.array("share", share)
            if "weight" in needed:
                weight: Tensor = given["weight"]
                each = job.scratch("weight_grad", node_sizes(value)[0], *weight.shape[1:])
            job.run("ew_aggregate_grad_rows")
            if "weight" in needed:
                made["weight"] = each if len(weight) == len(each) else sum_copies(each)[None]
        if "value" in needed:
            made["value"] = value.new_empty(value.shape)
            by_source = rows_side(given["by_source"], by_target.rows)
            if extreme:
                job = self._job(given, by_source)
                job.nodes("out", out)
                job.nodes("grad_value", made["value"])
                job.array("share", share)
                job.run("ew_aggregate_grad_columns")
            else:
                summed = {**given, "value": grad, "reduce": REDUCES["sum"]}
                self._reduce(summed, by_source, made["value"])
        return made

    def _reduce(self, given: Given, side: RowsSide, out: Tensor) -> None:
        """Run the kernel that reduces over the edges of each row of ``side``, into ``out``.

        Args:
            given: arguments of the operator, by name.
            side: edges sorted by row. Rows are targets, or sources for the gradient of a sum.
            out: result, ``[B, rows, H, D]`` or ``[rows, H, D]``.
        """
        job = self._job(given, side)
        job.nodes("out", out)
        job.run("ew_aggregate")

    def _job(self, given: Given, side: RowsSide) -> Job:
        value: Tensor = given["value"]
        batch, _, heads, width = node_sizes(value)
        sizes: Fields = {
            "threads": threads_for(batch * side.edges * heads * width),
            "batch": batch,
            "heads": heads,
            "width": width,
            "side": side.address,
            "reduce": given["reduce"],
        }
        job = Job(
            "ew_aggregate_args", value, structure_fields("ew_aggregate_args", value, sizes, {})
        )
        self.fill(job, given)
        if side.slots:
            job.scratch("slots", batch * side.slots, 2 * heads * width)
        return job


rows_aggregate = RowsAggregate()
