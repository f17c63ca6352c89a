"""Operator ``edgewise::triton_rows_softmax``: softmax over the edges of each target, on a GPU."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from edgewise.engines.native.operator import Inputs
from edgewise.engines.rows.softmax import RowsSoftmax
from edgewise.engines.triton_rows.launch import Job, Tiles
from edgewise.engines.triton_rows.layout import triton_side


class TritonSoftmax(RowsSoftmax):
    """Softmax over the edges of each target by Triton kernels; see the base class."""

    name = "triton_rows_softmax"
    devices = ("cpu", "cuda")

    def run_softmax(self, inputs: Inputs, scores: Tensor, out: Tensor, grad: Any = None) -> None:
        side = triton_side(inputs["by_target"], inputs["columns"])
        members, _, heads = scores.shape
        job, tiles = Job(scores), Tiles.of(heads, 1, scores.dtype)
        job.put(H=heads, stats=job.empty(members, side.rows, 2, heads), out=out)
        job.array("scores", scores)
        if grad is not None:
            job.array("grad", grad)
        job.results(side, members, slot_stats=2 * heads)
        job.over_rows("softmax_totals", side, members, tiles, tiles.blocks)
        if grad is None:
            widths = {"DV": 1, "FV": 1, "BDV": 1, "BFV": 1, "out": None}
            job.merge("attend_merge", side, members, tiles, tiles.blocks, **widths)
        else:
            slots = job.arguments.get("slot_stats")
            job.merge_flat("add_merge", side, members, slots, job.arguments["stats"])
        job.over_rows("softmax_edges", side, members, tiles, tiles.blocks)


triton_rows_softmax = TritonSoftmax()
