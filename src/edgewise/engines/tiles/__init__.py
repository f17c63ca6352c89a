"""Lists of runs of sources on the CPU: small matrix products over tiles, in C++."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from edgewise.biases import OffsetBias
from edgewise.engines.call import LAYOUT_SECONDS, AttentionCall, Problem
from edgewise.engines.native.operator import LARGEST, flat, refusals, unflat
from edgewise.engines.native.terms import term_arguments
from edgewise.engines.tiles.attend import tiles_attend
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.scores import Dot

TILE = 128  # sources at a time


class Tiles:
    """Windows, hubs, blocks, dilated windows, what ``|``, ``&`` and ``-`` make of these, batches.

    One pass forward and one backward, without an n×n matrix and without a list of edges: memory
    grows with the number of runs. A long text is divided between threads in both passes. Every
    output belongs to one thread: results are bitwise the same for any number of threads.
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
        if problem.gain or problem.edge_vectors:
            reasons.append("gain and edge vectors have no place in its products")
        if problem.bias and not problem.offsets and problem.num_edges >= LARGEST:
            reasons.append("it counts the edges of a bias in 32 bits")
        if problem.entmax:
            reasons.append("it normalises by softmax alone")
        if problem.tiled is None:
            reasons.append("a target reads other sources than runs of them")
        if problem.operation == "attend" and not problem.width:
            reasons.append("keys of width 0 have no products")
        return reasons

    def seconds(self, problem: Problem) -> float:
        """A node costs its way into the tiles, a pair its products and its exponential."""
        heads, elements = problem.batch * problem.heads, problem.width + problem.value_width
        nodes = problem.num_targets + problem.num_sources
        pair = 0.8e-9 + 0.065e-9 * elements + (2e-9 if problem.dropout else 0.0)
        if problem.offsets:
            pair += 3e-9
        elif problem.bias:  # looked up one by one: numbers of a table stay in the cache
            pair += 5.5e-9 if problem.table else 12e-9
        each = 0.6e-6 + nodes * (4e-9 + 0.85e-9 * elements) + (problem.tiled or 0) * pair
        return 130e-6 + LAYOUT_SECONDS * (problem.num_targets == 1) + heads * each

    def attend(self, call: AttentionCall, layout: TilesLayout) -> Tensor:
        """Output ``[..., N_dst, H, Dv]``."""
        results = tiles_attend(*_arguments(call, layout, with_lse=False))
        return unflat(results["out"], call.batch)

    def attend_with_lse(self, call: AttentionCall, layout: TilesLayout) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp of the scores ``[..., N_dst, H]``, -inf where nothing is read."""
        results = tiles_attend(*_arguments(call, layout, with_lse=True))
        return unflat(results["out"], call.batch), unflat(results["lse"], call.batch)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: TilesLayout
    ) -> Tensor:
        """Refused: see :meth:`refuses`."""
        raise NotImplementedError


def _arguments(
    call: AttentionCall, layout: TilesLayout, *, with_lse: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arguments of the operator: those with gradients, and the others."""
    assert isinstance(call.score, Dot)
    batch = call.batch
    query, key, value = call.query, call.key, call.value
    if batch:
        query, key, value = flat(query, batch), flat(key, batch), flat(value, batch)
    leaves = {"query": query, "key": key, "value": value}
    others: dict[str, Any] = {
        "layout": layout,
        "pairs": layout.pairs,
        "scale": call.score.scale_for(query.shape[-1]),
        "dropout": call.dropout,
        "seed": call.seed,
        "first_edge": call.first_edge,
        "with_lse": with_lse,
    }
    if isinstance(call.bias, OffsetBias):
        offsets = call.bias.offsets
        leaves["bias"], others["bias_index"] = call.bias.table[None], offsets.classes
        others["target_place"], others["source_place"] = offsets.target_place, offsets.source_place
    elif call.bias is not None:
        term_arguments(leaves, others, "bias", call.bias, batch)
    return leaves, others
