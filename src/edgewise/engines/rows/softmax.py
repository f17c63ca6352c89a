"""Operator ``edgewise::rows_softmax``: softmax over the edges of each target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from edgewise.engines.native.operator import (
    Argument,
    Fields,
    Given,
    Grads,
    Job,
    KernelOperator,
    Results,
    left_out,
    structure_fields,
    threads_for,
)
from edgewise.engines.rows.layout import rows_side


class RowsSoftmax(KernelOperator):
    """Softmax of scores over the edges of each target.

    Scores and results have the shape ``[B, E, H]`` and the caller's edge order.
    """

    name = "rows_softmax"
    arguments = (
        Argument("scores", "Tensor", left_out),
        Argument("by_target", "Tensor[]", left_out),
        Argument("columns", "int", left_out),
    )
    differentiable = 1
    results = ("weights",)

    def allocate(self, given: Given) -> Results:
        scores: Tensor = given["scores"]
        return {"weights": scores.new_empty(scores.shape)}

    def forward(self, given: Given, results: Results) -> None:
        self.run_softmax(given, given["scores"], results["weights"])

    def backward(
        self,
        given: Given,
        results: Results,
        grads: Grads,
        needed: Sequence[str],  # noqa: ARG002 - part of the interface
    ) -> dict[str, Tensor]:
        weights = results["weights"]
        made = weights.new_empty(weights.shape)
        self.run_softmax(given, weights, made, grads["weights"])
        return {"scores": made}

    def run_softmax(self, given: Given, scores: Tensor, out: Tensor, grad: Any = None) -> None:
        """Run the kernel, which writes the softmax of ``scores`` to ``out``.

        With ``grad``, the backward kernel runs instead. ``scores`` are then the softmax weights,
        ``grad`` is their gradient, and the gradient of the scores is written to ``out``.
        """
        side = rows_side(given["by_target"], given["columns"])
        batch, edges, heads = scores.shape
        sizes: Fields = {
            "threads": threads_for(8 * batch * edges * heads),
            "batch": batch,
            "heads": heads,
            "side": side.address,
        }
        job = Job("ew_softmax_args", scores, structure_fields("ew_softmax_args", scores, sizes, {}))
        job.array("scores", scores)
        job.array("out", out)
        if grad is not None:
            job.array("grad", grad)
        job.scratch("stats", batch, side.rows, 2, heads)
        job.scratch("slots", batch, side.slots, 2, heads)
        job.run("ew_softmax")


rows_softmax = RowsSoftmax()
