"""The engine "tiles": attention if the sources of each target form a few ranges ("runs").

It runs in C++ on a CPU and with FlexAttention on a GPU.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from edgewise.attention.biases import OffsetBias
from edgewise.attention.scores import Dot
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import Work
from edgewise.engines.native.operator import LARGEST, flat, refusals, unflat
from edgewise.engines.native.terms import term_arguments
from edgewise.engines.tiles import flex
from edgewise.engines.tiles.attend import tiles_attend
from edgewise.engines.tiles.flex import FlexLayout, flex_attend
from edgewise.engines.tiles.layout import TilesLayout


class Tiles:
    """Attention if the sources of each target form ranges ("runs") of evenly spaced nodes.

    There is no n×n matrix and no list of edges. Each output is written by one thread, so results
    are bitwise the same for any number of threads. The gradients of the scores use the output after
    it was rounded (grad · out, as in FlashAttention), so in 16 bits they are less exact than those
    of ``rows``.
    """

    name = "tiles"
    layout = TilesLayout
    grouped_heads = True

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine cannot compute a call; an empty list if it can."""
        largest = max(problem.num_targets, problem.num_sources) + TilesLayout.TILE
        fused = problem.device.type in flex.DEVICES
        reasons = flex.refuses(problem, largest) if fused else refusals(problem, largest)
        if problem.operation != "attend":
            reasons.append("it computes attention only, not aggregation")
        if problem.operation == "attend" and not isinstance(problem.score, Dot):
            reasons.append("it supports only the score Dot")
        if problem.gain or problem.edge_vectors:
            reasons.append("it supports neither gain nor edge vectors")
        if problem.bias and not problem.offsets and problem.num_edges >= LARGEST:
            reasons.append("it supports a bias per edge only for fewer than 2³¹ edges")
        if problem.entmax:
            reasons.append("it supports only the normaliser softmax")
        if problem.tiled is None:
            reasons.append("the sources of some targets are not ranges of nodes")
        if problem.operation == "attend" and not problem.width:
            reasons.append("it does not support keys of width 0")
        if not problem.heads:
            reasons.append("it does not support 0 heads")
        return reasons

    def work(self, problem: Problem) -> Work:
        """Return the number of times each operation runs, products for each pair of nodes."""
        if problem.device.type in flex.DEVICES:
            return flex.work(problem)
        heads, elements = problem.batch * problem.heads, problem.width + problem.value_width
        nodes = heads * (problem.num_targets + problem.num_sources)
        pairs = heads * (problem.tiled or 0)
        return "tiles", {
            "call": 1,
            "layout": problem.num_targets == 1,
            "head": heads,
            "node": nodes,
            "element": nodes * elements,
            "pair": pairs,
            "product": pairs * elements,
            "dropout pair": pairs if problem.dropout > 0 else 0,
            "bias pair": (problem.bias and not problem.table) * pairs,
            "table pair": (problem.table and not problem.offsets) * pairs,
            "offset pair": problem.offsets * pairs,
        }

    def attend(self, call: AttentionCall, layout: TilesLayout | FlexLayout) -> Tensor:
        """Return the attention output ``[..., N_dst, H, Dv]``."""
        if isinstance(layout, FlexLayout):
            return flex_attend(call, layout)[0]
        results = tiles_attend(*_arguments(call, layout, with_lse=False))
        return unflat(results["out"], call.batch)

    def attend_with_lse(
        self, call: AttentionCall, layout: TilesLayout | FlexLayout
    ) -> tuple[Tensor, Tensor]:
        """Return the output, and the log-sum-exp of the scores ``[..., N_dst, H]``."""
        if isinstance(layout, FlexLayout):
            out, lse = flex_attend(call, layout, with_lse=True)
            assert lse is not None
            return out, lse
        results = tiles_attend(*_arguments(call, layout, with_lse=True))
        return unflat(results["out"], call.batch), unflat(results["lse"], call.batch)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: TilesLayout
    ) -> Tensor:
        """Raise NotImplementedError; :meth:`refuses` excludes aggregation."""
        raise NotImplementedError


def _arguments(
    call: AttentionCall, layout: TilesLayout, *, with_lse: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors that can have gradients, and all other arguments of the operator."""
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
