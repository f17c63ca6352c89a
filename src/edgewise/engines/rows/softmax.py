"""Operator ``edgewise::rows_softmax``: softmax over the edges of each target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from edgewise.engines.native.operator import (
    Argument,
    Fields,
    Grads,
    Inputs,
    Job,
    KernelOperator,
    Results,
    put_nothing,
    structure_fields,
)
from edgewise.engines.reference import REFERENCE
from edgewise.engines.rows.formula import edge_layout
from edgewise.engines.rows.layout import rows_side


class RowsSoftmax(KernelOperator):
    """Softmax of scores ``[B, E, H]`` over the edges of each target, in the caller's edge order."""

    name = "rows_softmax"
    arguments = (
        Argument("scores", "Tensor", put_nothing),
        Argument("by_target", "Tensor[]", put_nothing),
        Argument("columns", "int", put_nothing),
    )
    differentiable = 1
    results = ("weights",)

    def allocate(self, inputs: Inputs) -> Results:
        scores: Tensor = inputs["scores"]
        return {"weights": scores.new_empty(scores.shape)}

    def forward(self, inputs: Inputs, results: Results) -> None:
        self.run_softmax(inputs, inputs["scores"], results["weights"])

    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        layout = edge_layout(inputs["by_target"], inputs["columns"])
        return (REFERENCE.edge_softmax(inputs["scores"], layout),)

    def backward(
        self,
        inputs: Inputs,
        results: Results,
        grads: Grads,
        needed: Sequence[str],  # noqa: ARG002 - part of the interface
    ) -> dict[str, Tensor]:
        weights = results["weights"]
        input_grad = weights.new_empty(weights.shape)
        self.run_softmax(inputs, weights, input_grad, grads["weights"])
        return {"scores": input_grad}

    def run_softmax(self, inputs: Inputs, scores: Tensor, out: Tensor, grad: Any = None) -> None:
        """Write the softmax of ``scores`` to ``out``, or with ``grad`` the gradient of the scores.

        In the backward pass, ``scores`` are the softmax weights and ``grad`` is their gradient.
        """
        side = rows_side(inputs["by_target"], inputs["columns"])
        batch, edges, heads = scores.shape
        sizes: Fields = {
            "batch": batch,
            "heads": heads,
            "side": side.address,
        }
        work = 8 * batch * edges * heads
        fields = structure_fields("ew_softmax_args", scores, work, sizes)
        job = Job(self, inputs, "ew_softmax_args", scores, fields)
        job.array("scores", scores)
        job.array("out", out)
        if grad is not None:
            job.array("grad", grad)
        job.scratch("stats", batch, side.rows, 2, heads)
        job.scratch("slots", batch, side.slots, 2, heads)
        job.run("ew_softmax")


rows_softmax = RowsSoftmax()
