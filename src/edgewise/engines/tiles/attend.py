"""``edgewise::tiles_attend``: attention over runs of sources, as small matrix products.

Node tensors are ``[B, N, H, D]`` or ``[N, H, D]``. Inputs, output and the softmax's two numbers a
row and head are saved for the backward pass, which computes the weights again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.engines.call import accumulator
from edgewise.engines.native.operator import (
    Argument,
    Given,
    Job,
    KernelOperator,
    left_out,
    node_sizes,
    threads_for,
)


class TilesAttend(KernelOperator):
    """Output, log-sum-exp (empty if not wanted), and two numbers of the softmax a row and head."""

    name = "tiles_attend"
    arguments = (
        Argument("query", "Tensor", Job.nodes),
        Argument("key", "Tensor", Job.nodes),
        Argument("value", "Tensor", Job.nodes),
        Argument("layout", "Tensor[]", left_out),
        Argument("pairs", "int", left_out),
        Argument("scale", "float", left_out),
        Argument("dropout", "float", left_out),
        Argument("seed", "int", left_out),
        Argument("first_edge", "int", left_out),
        Argument("with_lse", "bool", left_out),
    )
    differentiable = 3
    results = ("out", "lse", "stats")
    with_gradient = 2

    def allocate(self, given: Given) -> tuple[Tensor, ...]:
        query, value = given["query"], given["value"]
        *batch, rows, heads, _ = query.shape
        dtype = accumulator(query)
        return (
            query.new_empty(*batch, rows, heads, value.shape[-1]),
            query.new_empty((*batch, rows, heads) if given["with_lse"] else 0, dtype=dtype),
            query.new_empty(*batch, rows, 2, heads, dtype=dtype),
        )

    def forward(self, given: Given, results: tuple[Tensor, ...]) -> None:
        out, lse, stats = results
        job = self._job(given)
        job.nodes("out", out)
        job.array("stats", stats)
        if given["with_lse"]:
            job.array("lse", lse)
        job.run("ew_tiles")

    def backward(
        self,
        given: Given,
        results: tuple[Tensor, ...],
        grads: tuple[Tensor | None, ...],
        needed: Sequence[str],
    ) -> dict[str, Tensor]:
        out, _, stats = results
        grad_out, grad_lse = grads
        job = self._job(given)
        job.nodes("out", out)
        job.nodes("grad_out", out.new_zeros(out.shape) if grad_out is None else grad_out)
        job.array("stats", stats)
        if grad_lse is not None and given["with_lse"]:
            job.array("grad_lse", grad_lse)
        made = dict(zip(needed, _together([given[name] for name in needed]), strict=True))
        for name, grad in made.items():
            job.nodes(f"grad_{name}", grad)
        job.run("ew_tiles_grad")
        return made

    def _job(self, given: Given) -> Job:
        query, value = given["query"], given["value"]
        batch, rows, heads, width = node_sizes(query)
        value_width = value.shape[-1]
        layout: Sequence[Tensor] = given["layout"]
        *_, block, unit = layout
        job = Job("ew_tiles_args", query)
        job.put(
            "size",
            *(job.size, job.dtype),
            threads_for(batch * heads * given["pairs"] * (width + value_width)),
            *(batch, heads, width, value_width, rows, value.shape[-3]),
            *(block.shape[0] - 1, unit.shape[0] - 1),
            *[x.data_ptr() for x in layout],
            *(given["scale"], given["dropout"], given["seed"], given["first_edge"]),
        )
        self.fill(job, given)
        return job


def _together(like: list[Tensor]) -> list[Tensor]:
    """Memory for the gradients of these tensors.

    Those of one shape are neighbours in ``[..., N, 3, H, D]``: where query, key and value come from
    one projection that is its gradient in one piece (see ``edgewise.layers.attention``).
    """
    if len({x.shape for x in like}) == 1 and not torch.compiler.is_compiling():
        *batch, nodes, heads, width = like[0].shape
        return list(like[0].new_empty(*batch, nodes, len(like), heads, width).unbind(-3))
    return [x.new_empty(x.shape) for x in like]


tiles_attend = TilesAttend()
