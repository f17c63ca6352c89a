"""The operators of the engine "rows" as calls of "reference", for second derivatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.attention.biases import Projected, TableBias
from edgewise.attention.scores import Additive, Dot, Score
from edgewise.engines.call import AttentionCall
from edgewise.engines.native.operator import Inputs
from edgewise.engines.reference import EdgeLayout
from edgewise.engines.rows.layout import Sides, SortedEdges, num_rows

# For each activation of an additive score: the activation that the kernel computes, and its slope
# below zero (None: the slope that the score defines). Identity and ReLU are leaky ReLUs.
ACTIVATIONS: dict[str, tuple[int, float | None]] = {
    **{"leaky_relu": (0, None), "relu": (0, 0.0), "identity": (0, 1.0)},
    **{"tanh": (1, 0.0), "gelu": (2, 0.0), "silu": (3, 0.0)},
}


def edge_layout(by_target: Sides, num_sources: int) -> EdgeLayout:
    """Return source and target of each edge in the caller's order, from edges sorted by target."""
    tensors = by_target.tensors if isinstance(by_target, SortedEdges) else by_target
    pointer, column, edge = (x.long() for x in tensors)
    rows = torch.arange(len(pointer) - 1, device=edge.device)
    target = rows.repeat_interleave(pointer.diff(), output_size=len(edge))
    source, target = (torch.empty_like(edge).index_copy(0, edge, x) for x in (column, target))
    return EdgeLayout(source, target, num_rows(by_target), num_sources)


def attention_call(inputs: Inputs) -> AttentionCall:
    """Return the call with the arguments of ``rows_attend`` or ``rows_scores``."""
    value: Tensor = inputs["value"]
    rows = num_rows(inputs["by_target"])
    nothing = value.new_zeros(rows, value.shape[-2], 0), value[..., :0]
    return AttentionCall(
        inputs.get("query", nothing[0]),
        inputs.get("key", nothing[1]),
        value,
        value.shape[:-3] or torch.Size([1]),  # Terms have a batch axis.
        _score(inputs),
        bias=_term(inputs, "bias"),
        gain=_term(inputs, "gain"),
        edge_key=_vectors(inputs, "edge_key"),
        edge_value=_vectors(inputs, "edge_value"),
        dropout=inputs["dropout"],
        seed=inputs["seed"],
        first_edge=inputs["first_edge"],
    )


def _score(inputs: Inputs) -> Score:
    if inputs["score"] == 0:
        return None
    if inputs["score"] == 1:
        return Dot(inputs["scale"])
    activation = next(n for n, (number, _) in ACTIVATIONS.items() if number == inputs["activation"])
    return Additive(activation, inputs.get("score_weight"), inputs["slope"])


def _term(inputs: Inputs, name: str) -> Any:
    if f"{name}_index" in inputs:
        return TableBias(inputs[f"{name}_index"], inputs[name][0])
    return inputs.get(name)


def _vectors(inputs: Inputs, name: str) -> Any:
    if f"{name}_features" in inputs:
        return Projected(inputs[f"{name}_features"], inputs[f"{name}_weight"])
    return inputs.get(name)
