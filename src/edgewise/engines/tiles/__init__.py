"""The engine "tiles": attention if the sources of each target form a few ranges ("runs").

It runs in C++ on a CPU, as the operator ``edgewise::tiles_attend``, and with FlexAttention on a
GPU. In the operator, query, key and value have the shape ``[B, N, H, D]`` or ``[N, H, D]``. They,
the output and two numbers per target and head are saved for the backward pass, which recomputes the
weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.attention.biases import OffsetBias, TableBias
from edgewise.attention.scores import DOT, Dot
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import Work
from edgewise.engines.native.library import sum_copies
from edgewise.engines.native.operator import (
    LARGEST,
    Argument,
    AttentionOperator,
    Fields,
    Grads,
    Inputs,
    Job,
    Results,
    cached_fields,
    flat,
    node_sizes,
    put_nothing,
    put_number,
    refusals,
    structure_fields,
    unflat,
)
from edgewise.engines.native.terms import put_index, put_term, term_arguments
from edgewise.engines.reference import REFERENCE
from edgewise.engines.tiles import flex
from edgewise.engines.tiles.flex import FlexLayout, flex_attend
from edgewise.engines.tiles.layout import GRADIENT, TENSORS, TilesLayout

DENSE = torch.contiguous_format
COUNTED = {
    "piece": "pieces",
    "reach": "reaches",
    "chunk": "chunks",
    "visit": "visits",
    "use": "uses",
    "merge": "merges",
}
"""Dict from tensors of the layout to the fields of ``ew_tiles_args`` that hold their lengths."""


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
        if problem.operation == "attend" and not issubclass(problem.score, Dot):
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
            "dropout pair": pairs if problem.dropout else 0,
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
        "scale": call.score.scale,
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


def _put_place(job: Job, name: str, positions: Tensor) -> None:
    """Write the position of each node, for a bias by offset, to the structure ``offsets``."""
    job.array(f"offsets.{name}", positions)


class TilesAttend(AttentionOperator):
    """Attention output and log-sum-exp if the sources of each target form ranges ("runs")."""

    name = "tiles_attend"
    arguments = (
        Argument("query", "Tensor", Job.nodes),
        Argument("key", "Tensor", Job.nodes),
        Argument("value", "Tensor", Job.nodes),
        Argument("bias", "Tensor?", put_term),
        Argument("bias_index", "Tensor?", put_index),
        Argument("target_place", "Tensor?", _put_place),
        Argument("source_place", "Tensor?", _put_place),
        Argument("layout", "Tensor[]", put_nothing),
        Argument("pairs", "int", put_nothing),
        Argument("scale", "float?", put_nothing),
        Argument("dropout", "float", put_number),
        Argument("seed", "SymInt", put_number),
        Argument("first_edge", "int", put_number),
        Argument("with_lse", "bool", put_nothing),
    )
    differentiable = 4

    def allocate(self, inputs: Inputs) -> Results:
        rows, heads, _ = inputs["query"].shape[-3:]
        return self.allocate_rows(inputs, rows, heads)

    def forward(self, inputs: Inputs, results: Results) -> None:
        job = self._job(inputs)
        job.fields["out.data"] = results["out"].data_ptr()
        job.fields["stats"] = results["stats"].data_ptr()
        if "lse" in results:
            job.fields["lse"] = results["lse"].data_ptr()
        job.run("ew_tiles")

    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        layout = _layout(inputs).edges()
        query: Tensor = inputs["query"]
        bias: Any = inputs.get("bias")
        if bias is not None and "bias_index" in inputs:
            index: Tensor = inputs["bias_index"]
            if "target_place" in inputs:
                source = inputs["source_place"][layout.source]
                index = index[source - inputs["target_place"][layout.target]]
            bias = TableBias(index, bias[0])
        call = AttentionCall(
            query,
            inputs["key"],
            inputs["value"],
            query.shape[:-3] or torch.Size([1]),  # A bias has a batch axis.
            Dot(inputs.get("scale")),
            bias=bias,
            dropout=inputs["dropout"],
            seed=inputs["seed"],
            first_edge=inputs["first_edge"],
        )
        out, lse = REFERENCE.attend_with_lse(call.ungrouped(), layout)
        shapes = self.allocate({**inputs, "with_lse": True})
        return out.view(shapes["out"].shape), lse.view(shapes["lse"].shape)

    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        job = self._job(inputs)
        self.put_gradients(job, inputs, results, grads)
        input_grads = _gradients(job, inputs, [name for name in needed if name != "bias"])
        of_bias = _bias_gradient(job, inputs) if "bias" in needed else None
        members, heads, slots = (job.fields[name] for name in ("batch", "key_heads", "slots"))
        if slots:
            width = inputs["value"].shape[-1] + inputs["query"].shape[-1]
            job.scratch("summed", int(members * heads * slots), TilesLayout.TILE, width)
        job.run("ew_tiles_grad")
        if of_bias is not None:
            input_grads["bias"] = _summed(of_bias, inputs["bias"])
        return input_grads

    def _job(self, inputs: Inputs) -> Job:
        query: Tensor = inputs["query"]
        value: Tensor = inputs["value"]
        layout = _layout(inputs)
        fields = cached_fields(
            layout.call_fields,
            (query.shape, value.shape, query.dtype, torch.get_num_threads()),
            lambda: _sizes(query, value, layout),
        )
        job = Job(self, inputs, "ew_tiles_args", query, fields)
        scale: float | None = inputs.get("scale")
        if scale is not None:
            job.fields["scale"] = scale
        # Pass the bias of each offset, [heads, offsets].
        if "target_place" in inputs:
            by_offset = inputs["bias"][0].index_select(0, inputs["bias_index"])
            job.array("offsets.value", by_offset.T.expand(query.shape[-2], -1))
            job.fields["offsets.count"] = len(by_offset)
        return job


def _layout(inputs: Inputs) -> TilesLayout:
    """Return the layout; PyTorch's dispatcher passes it as a list of tensors."""
    layout: Any = inputs["layout"]
    return layout if isinstance(layout, TilesLayout) else TilesLayout(inputs["pairs"], *layout)


def _sizes(query: Tensor, value: Tensor, layout: TilesLayout) -> Fields:
    """Return the fields of the C structure that depend only on the graph and the shapes."""
    batch, rows, heads, width = node_sizes(query)
    columns, key_heads, value_width = value.shape[-3:]
    queries, outputs = heads * width, heads * value_width
    sizes: Fields = {
        "batch": batch,
        "heads": heads,
        "key_heads": key_heads,
        "width": width,
        "value_width": value_width,
        "rows": rows,
        "columns": columns,
        "blocks": layout.block.shape[0] - 1,
        "tiles": layout.tile.shape[0] - 1,
        "slots": layout.slots,
        "edges": layout.pairs,
        "scale": DOT.scale_for(width),
    }
    for name in (*TENSORS, *GRADIENT):
        x: Tensor = getattr(layout, name)
        if name in COUNTED:
            sizes[COUNTED[name]] = x.shape[0]
        sizes[name] = x.data_ptr() if x.numel() else 0
    results = {
        "out": (rows, outputs),
        "grad_query": (rows, queries),
        "grad_key": (columns, key_heads * width),
        "grad_value": (columns, key_heads * value_width),
    }
    work = batch * layout.pairs * (queries + outputs)
    return structure_fields("ew_tiles_args", query, work, sizes, results)


def _gradients(job: Job, inputs: Inputs, needed: Sequence[str]) -> dict[str, Tensor]:
    """Allocate the gradients of the arguments in ``needed``, and write their addresses to ``job``.

    If query, key and value are slices of one tensor ``[..., N, 3, H, D]``, then so are their
    gradients, and that of the whole tensor is not copied; see ``edgewise.layers.transformer``.
    """
    if not needed:
        return {}
    first: Tensor = inputs[needed[0]]
    *batch, nodes, heads, width = first.shape
    if first.stride(-3) == len(needed) * heads * width > heads * width:
        alike = {inputs[name].shape for name in needed} == {first.shape}
        if alike and not torch.compiler.is_compiling():
            joint = first.new_empty(*batch, nodes, len(needed), heads, width)
            input_grads = dict(zip(needed, joint.unbind(-3), strict=True))
            for name, grad in input_grads.items():
                job.nodes(f"grad_{name}", grad)
            return input_grads
    input_grads = {name: torch.empty_like(inputs[name], memory_format=DENSE) for name in needed}
    for name, grad in input_grads.items():
        job.fields[f"grad_{name}.data"] = grad.data_ptr()
    return input_grads


def _bias_gradient(job: Job, inputs: Inputs) -> Tensor:
    """Allocate the gradient of the bias as partial sums ``[copies, rows, H]``, filled with zeros.

    Each example has a copy; for a table, each chunk of work has one.
    """
    batch, _, heads, _ = node_sizes(inputs["query"])
    copies = int(job.fields["chunks"]) if "bias_index" in inputs else 1
    return job.scratch("bias.grad", batch * copies, inputs["bias"].shape[1], heads, zeros=True)


def _summed(copies: Tensor, bias: Tensor) -> Tensor:
    """Return the gradient of ``bias [B or 1, rows, H or 1]``, the sum of ``copies``."""
    if bias.shape[0] == 1:
        copies = sum_copies(copies)[None]
    return copies.sum(-1, keepdim=True) if bias.shape[-1] < copies.shape[-1] else copies


tiles_attend = TilesAttend()
