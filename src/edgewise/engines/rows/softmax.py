"""``edgewise::rows_softmax``: softmax over the edges that enter the same target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from edgewise.engines.native.operator import (
    Argument,
    Given,
    Job,
    KernelOperator,
    left_out,
    threads_for,
)
from edgewise.engines.rows.layout import side_of


class RowsSoftmax(KernelOperator):
    """Weights ``[B, E, H]`` of scores in the type of accumulation, in the caller's edge order."""

    name = "rows_softmax"
    arguments = (
        Argument("scores", "Tensor", left_out),
        Argument("by_target", "Tensor[]", left_out),
        Argument("columns", "int", left_out),
    )
    differentiable = 1
    results = ("weights",)

    def allocate(self, given: Given) -> tuple[Tensor, ...]:
        scores: Tensor = given["scores"]
        return (scores.new_empty(scores.shape),)

    def forward(self, given: Given, results: tuple[Tensor, ...]) -> None:
        self._run_softmax(given, given["scores"], results[0])

    def backward(
        self,
        given: Given,
        results: tuple[Tensor, ...],
        grads: tuple[Tensor | None, ...],
        needed: Sequence[str],  # noqa: ARG002 - there is one
    ) -> dict[str, Tensor]:
        (weights,), (grad,) = results, grads
        made = weights.new_empty(weights.shape)
        self._run_softmax(given, weights, made, grad)
        return {"scores": made}

    def _run_softmax(self, given: Given, scores: Tensor, out: Tensor, grad: Any = None) -> None:
        """The kernel; with ``grad`` it reads weights and gives the gradient of their scores."""
        side = side_of(given["by_target"], given["columns"])
        batch, edges, heads = scores.shape
        job = Job("ew_softmax_args", scores)
        threads = threads_for(8 * batch * edges * heads)
        job.put("size", job.size, job.dtype, threads, batch, heads, side.address)
        job.array("scores", scores)
        job.array("out", out)
        if grad is not None:
            job.array("grad", grad)
        job.scratch("stats", batch, side.rows, 2, heads)
        job.scratch("slots", batch, side.slots, 2, heads)
        job.run("ew_softmax")


rows_softmax = RowsSoftmax()
