"""Operator ``edgewise::rows_aggregate``: sum, mean, max or min over the edges of each target.

Values have the shape ``[B, N_src, H, D]`` or ``[N_src, H, D]``. Weights have the shape
``[B or 1, E, H]`` and the accumulation dtype (float64 for float64 values, otherwise float32). The
gradient of a sum with respect to the values is a sum over the transposed graph. If several edges
reach a maximum or minimum, its gradient is divided evenly between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from edgewise.engines.call import ACCUMULATORS
from edgewise.engines.native.library import sum_copies
from edgewise.engines.native.operator import (
    Argument,
    Fields,
    Grads,
    Inputs,
    Job,
    KernelOperator,
    Results,
    node_sizes,
    put_nothing,
    structure_fields,
)
from edgewise.engines.reference import REFERENCE
from edgewise.engines.rows.formula import edge_layout
from edgewise.engines.rows.layout import RowsSide, num_rows, rows_side

REDUCES = {"sum": 0, "mean": 1, "max": 2, "min": 3}


def put_weight(job: Job, name: str, x: Tensor) -> None:
    """Write the address and batch stride of edge weights ``[B or 1, E, H]`` to ``job``."""
    job.array(name, x)
    job.fields["weight_batch_stride"] = x[0].numel() if x.shape[0] > 1 else 0


class RowsAggregate(KernelOperator):
    """Sum, mean, max or min over the edges of each target; ``reduce`` is a value of ``REDUCES``."""

    name = "rows_aggregate"
    arguments = (
        Argument("value", "Tensor", Job.nodes),
        Argument("weight", "Tensor?", put_weight),
        Argument("by_target", "Tensor[]", put_nothing),
        Argument("by_source", "Tensor[]", put_nothing),
        Argument("reduce", "int", put_nothing),
    )
    differentiable = 2
    results = ("out",)

    def allocate(self, inputs: Inputs) -> Results:
        value: Tensor = inputs["value"]
        *batch, _, heads, width = value.shape
        return {"out": value.new_empty(*batch, num_rows(inputs["by_target"]), heads, width)}

    def forward(self, inputs: Inputs, results: Results) -> None:
        job = self._job(inputs, rows_side(inputs["by_target"], inputs["value"].shape[-3]))
        job.nodes("out", results["out"])
        job.run("ew_aggregate")

    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        value: Tensor = inputs["value"]
        layout = edge_layout(inputs["by_target"], value.shape[-3])
        reduce = next(name for name, number in REDUCES.items() if number == inputs["reduce"])
        out = REFERENCE.aggregate(value, inputs.get("weight"), reduce, layout)
        return (out.view(self.allocate(inputs)["out"].shape),)

    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        value: Tensor = inputs["value"]
        reduce: int = inputs["reduce"]
        out, grad = results["out"], grads["out"]
        assert grad is not None
        by_target = rows_side(inputs["by_target"], value.shape[-3])
        extreme = reduce in (REDUCES["max"], REDUCES["min"])
        if reduce == REDUCES["mean"]:
            degree = by_target.tensors[0].diff().clamp(min=1).to(ACCUMULATORS[value.dtype])
            grad = (grad / degree[:, None, None]).to(value.dtype)
        input_grads: dict[str, Tensor] = {}
        tie_grad = value.new_empty(grad.shape if extreme else 0, dtype=ACCUMULATORS[value.dtype])
        if "weight" in needed or extreme:
            job = self._job(inputs, by_target)
            job.nodes("grad_out", grad)
            job.nodes("out", out)
            if extreme:
                job.array("share", tie_grad)
            if "weight" in needed:
                weight: Tensor = inputs["weight"]
                weight_grads = job.scratch("weight_grad", node_sizes(value)[0], *weight.shape[1:])
            job.run("ew_aggregate_grad_rows")
            if "weight" in needed:
                input_grads["weight"] = (
                    weight_grads
                    if len(weight) == len(weight_grads)
                    else sum_copies(weight_grads)[None]
                )
        if "value" in needed:
            input_grads["value"] = value.new_empty(value.shape)
            if extreme:
                job = self._job(inputs, rows_side(inputs["by_source"], by_target.rows))
                job.nodes("out", out)
                job.nodes("grad_value", input_grads["value"])
                job.array("share", tie_grad)
                job.run("ew_aggregate_grad_columns")
            else:
                transposed = {"by_target": inputs["by_source"], "reduce": REDUCES["sum"]}
                summed = {**inputs, **transposed, "value": grad}
                self.forward(summed, {"out": input_grads["value"]})
        return input_grads

    def _job(self, inputs: Inputs, side: RowsSide) -> Job:
        value: Tensor = inputs["value"]
        *members, _, heads, width = value.shape
        batch = math.prod(members)
        sizes: Fields = {
            "batch": batch,
            "heads": heads,
            "width": width,
            "side": side.address,
            "reduce": inputs["reduce"],
        }
        work = batch * side.edges * heads * width
        fields = structure_fields("ew_aggregate_args", value, work, sizes)
        job = Job(self, inputs, "ew_aggregate_args", value, fields)
        if side.slots:
            job.scratch("slots", batch * side.slots, 2 * heads * width)
        return job


rows_aggregate = RowsAggregate()
