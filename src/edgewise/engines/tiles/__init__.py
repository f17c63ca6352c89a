"""Runs of neighbouring sources on the CPU: small matrix products over tiles, in C++."""

from __future__ import annotations

from torch import Tensor

from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.native.operator import flat, refusals, unflat
from edgewise.engines.tiles.attend import tiles_attend
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.scores import Dot

TILE = 128  # sources at a time


class Tiles:
    """Complete, causal and windowed graphs, and packed batches of them, without an n×n matrix.

    Every output belongs to one thread: results are bitwise the same for any number of threads.
    16-bit inputs are accumulated in float32. Gradients are not differentiable again; the
    reference's are.
    """

    name = "tiles"
    layout = TilesLayout

    def refuses(self, problem: Problem) -> list[str]:
        """The reasons why this engine cannot serve, none if it can."""
        reasons = refusals(problem, max(problem.num_targets, problem.num_sources) + TILE)
        if problem.operation != "attend":
            reasons.append("it computes attention alone")
        if problem.operation == "attend" and not isinstance(problem.score, Dot):
            reasons.append("its scores are products: Dot, and no other score")
        if problem.bias or problem.gain or problem.edge_vectors:
            reasons.append("bias, gain and edge vectors have no place in its products")
        if problem.tiled is None:
            reasons.append("a target reads other than one run of neighbouring sources")
        if problem.operation == "attend" and not problem.width:
            reasons.append("keys of width 0 have no products")
        return reasons

    def seconds(self, problem: Problem) -> float:
        """A node costs its way into the tiles, a pair its products and its exponential."""
        heads, elements = problem.batch * problem.heads, problem.width + problem.value_width
        nodes = problem.num_targets + problem.num_sources
        pair = 0.8e-9 + 0.065e-9 * elements + (2e-9 if problem.dropout else 0.0)
        each = 0.6e-6 + nodes * (4e-9 + 0.85e-9 * elements) + (problem.tiled or 0) * pair
        return 155e-6 + heads * each

    def attend(self, call: AttentionCall, layout: TilesLayout) -> Tensor:
        """Output ``[..., N_dst, H, Dv]``."""
        return _run(call, layout, lse=False)[0]

    def attend_with_lse(self, call: AttentionCall, layout: TilesLayout) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp of the scores ``[..., N_dst, H]``, -inf where nothing is read."""
        out, lse = _run(call, layout, lse=True)
        return out, unflat(lse, call.batch)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: TilesLayout
    ) -> Tensor:
        """Refused: see :meth:`refuses`."""
        raise NotImplementedError


def _run(call: AttentionCall, layout: TilesLayout, *, lse: bool) -> tuple[Tensor, Tensor]:
    assert isinstance(call.score, Dot)
    out, total, _ = tiles_attend(
        {
            "query": flat(call.query, call.batch),
            "key": flat(call.key, call.batch),
            "value": flat(call.value, call.batch),
            "layout": layout.tensors,
            "pairs": layout.pairs,
            "scale": call.score.scale_for(call.query.shape[-1]),
            "dropout": call.dropout,
            "seed": call.seed,
            "first_edge": call.first_edge,
            "with_lse": lse,
        }
    )
    return unflat(out, call.batch), total
