"""Operators ``edgewise::rows_attend`` and ``edgewise::rows_scores``: attention over any edges.

Shapes of the arguments:

- query, key and value: ``[B, N, H, D]`` or ``[N, H, D]``.
- bias and gain: ``[B or 1, E, H or 1]``, or a table ``[1, classes, H or 1]`` and the class of each
  edge.
- edge keys and values: ``[B or 1, E, H, D]``, or edge features ``[E, F]`` and a weight
  ``[H, D, F]`` that projects them.

Bias, gain, features and weights have the accumulation dtype: float64 if query, key and value are
float64, otherwise float32. The inputs, the output and two numbers per target and head are saved for
the backward pass, which recomputes the attention weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.engines.call import ACCUMULATORS
from edgewise.engines.native.library import sum_copies
from edgewise.engines.native.operator import (
    Argument,
    AttentionOperator,
    Fields,
    Grads,
    Inputs,
    Job,
    KernelOperator,
    Results,
    cached_fields,
    node_sizes,
    put_nothing,
    put_number,
    structure_fields,
)
from edgewise.engines.native.terms import put_index, put_term
from edgewise.engines.reference import REFERENCE
from edgewise.engines.rows.formula import attention_call, edge_layout
from edgewise.engines.rows.layout import RowsSide, num_edges, num_rows, rows_side

PROJECTIONS = ("edge_key_weight", "edge_value_weight")
"""Names of the arguments ``[H, D, F]`` that are permuted to ``[F, H, D]`` for the kernels."""

MOST_GROUPS = 64
"""Maximum number of partial sums of a parameter gradient.

Each thread writes at least one, so this also limits the number of threads.
"""


def put_vectors(job: Job, name: str, x: Tensor) -> None:
    """Write edge keys or edge values ``x [B or 1, E, H, D]`` to the C structure ``job``."""
    job.array(f"{name}.full", x)
    job.fields[f"{name}.full_batch_stride"] = x[0].numel() if x.shape[0] > 1 else 0


def put_features(job: Job, name: str, x: Tensor) -> None:
    """Write the edge features ``x [E, F]``, which the kernel projects, to ``job``."""
    vectors = name.removesuffix("_features")
    job.array(f"{vectors}.features", x)
    job.fields[f"{vectors}.count"] = x.shape[-1]


def put_weight(job: Job, name: str, x: Tensor) -> None:
    """Write the weight ``x [H, D, F]`` that projects edge features to the C structure ``job``."""
    job.array(f"{name.removesuffix('_weight')}.weight", x.permute(2, 0, 1))


ARGUMENTS = (
    Argument("query", "Tensor?", Job.nodes),
    Argument("key", "Tensor?", Job.nodes),
    Argument("value", "Tensor", Job.nodes),
    Argument("bias", "Tensor?", put_term),
    Argument("gain", "Tensor?", put_term),
    Argument("edge_key", "Tensor?", put_vectors),
    Argument("edge_key_features", "Tensor?", put_features),
    Argument("edge_key_weight", "Tensor?", put_weight),
    Argument("edge_value", "Tensor?", put_vectors),
    Argument("edge_value_features", "Tensor?", put_features),
    Argument("edge_value_weight", "Tensor?", put_weight),
    Argument("score_weight", "Tensor?", Job.array),
    Argument("bias_index", "Tensor?", put_index),
    Argument("gain_index", "Tensor?", put_index),
    Argument("by_target", "Tensor[]", put_nothing),
    Argument("by_source", "Tensor[]", put_nothing),
    Argument("score", "int", put_number),
    Argument("activation", "int", put_number),
    Argument("scale", "float", put_number),
    Argument("slope", "float", put_number),
    Argument("dropout", "float", put_number),
    Argument("seed", "SymInt", put_number),
    Argument("first_edge", "int", put_number),
    Argument("with_lse", "bool", put_nothing),
)


class RowsAttend(AttentionOperator):
    """Attention output and log-sum-exp for a graph with arbitrary edges."""

    name = "rows_attend"
    arguments = ARGUMENTS
    differentiable = 12

    def allocate(self, inputs: Inputs) -> Results:
        return self.allocate_rows(inputs, num_rows(inputs["by_target"]), inputs["value"].shape[-2])

    def forward(self, inputs: Inputs, results: Results) -> None:
        job, side = _job(self, inputs)
        job.fields["out.data"] = results["out"].data_ptr()
        job.fields["stats"] = results["stats"].data_ptr()
        if "lse" in results:
            job.fields["lse"] = results["lse"].data_ptr()
        if side.slots:
            _allocate_pieces(job, side.slots, inputs)
        job.run("ew_attend")

    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        layout = edge_layout(inputs["by_target"], inputs["value"].shape[-3])
        out, lse = REFERENCE.attend_with_lse(attention_call(inputs), layout)
        shapes = self.allocate({**inputs, "with_lse": True})
        return out.view(shapes["out"].shape), lse.view(shapes["lse"].shape)

    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        job, side = _job(self, inputs)
        self.put_gradients(job, inputs, results, grads)
        # The pass over targets stores numbers that the pass over sources reads.
        if "key" in needed or "value" in needed:
            batch, _, heads, _ = node_sizes(inputs["value"])
            if list(needed) == ["value"] and not one_sided(inputs):
                # The weights follow from the saved numbers, so there is no pass over targets.
                stats = results["stats"].view(batch, side.rows, 2, heads)
                record = torch.nn.functional.pad(stats, (0, 0, 0, 1))
                job.fields["record"], job.fields["by_target"] = record.data_ptr(), 0
            elif one_sided(inputs):
                record = results["stats"].new_empty(batch, side.edges, 2, heads)
                job.fields["per_edge"] = record.data_ptr()
            else:
                record = results["stats"].new_empty(batch, side.rows, 3, heads)
                job.fields["record"] = record.data_ptr()
        return _gradients(job, side, inputs, needed)


class RowsScores(KernelOperator):
    """Score · gain + bias of each edge, ``[B, E, H]``; only the shape of ``value`` is used."""

    name = "rows_scores"
    arguments = ARGUMENTS
    differentiable = 12
    results = ("scores",)

    def allocate(self, inputs: Inputs) -> Results:
        value: Tensor = inputs["value"]
        *batch, _, heads, _ = value.shape
        edges = num_edges(inputs["by_target"])
        return {"scores": value.new_empty(*batch, edges, heads, dtype=ACCUMULATORS[value.dtype])}

    def forward(self, inputs: Inputs, results: Results) -> None:
        job, _ = _job(self, inputs)
        job.array("scores", results["scores"])
        job.run("ew_edge_scores")

    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        layout = edge_layout(inputs["by_target"], inputs["value"].shape[-3])
        scores = REFERENCE.edge_scores(attention_call(inputs), layout)
        return (scores.view(self.allocate(inputs)["scores"].shape),)

    def backward(
        self,
        inputs: Inputs,
        results: Results,  # noqa: ARG002 - the gradients do not depend on the scores
        grads: Grads,
        needed: Sequence[str],
    ) -> dict[str, Tensor]:
        grad = grads["scores"]
        assert grad is not None
        input_grads = self.gradients(inputs, grad, [name for name in needed if name != "value"])
        if "value" in needed:
            input_grads["value"] = inputs["value"].new_zeros(inputs["value"].shape)
        return input_grads

    def gradients(self, inputs: Inputs, grad: Tensor, needed: Sequence[str]) -> dict[str, Tensor]:
        """Return the gradients of the arguments in ``needed``, from that of the scores."""
        job, side = _job(self, inputs)
        job.array("scores", grad)
        return _gradients(job, side, inputs, needed)


def _job(operator: KernelOperator, inputs: Inputs) -> tuple[Job, RowsSide]:
    """Return the C structure with the arguments of an operator, and the edges sorted by target."""
    value: Tensor = inputs["value"]
    query: Tensor | None = inputs.get("query")
    side = rows_side(inputs["by_target"], value.shape[-3])
    alike = value.shape, value.dtype, None if query is None else query.shape
    fields = cached_fields(
        side.call_fields,
        (*alike, torch.get_num_threads()),
        lambda: _sizes(value, 0 if query is None else query.shape[-1], side),
    )
    return Job(operator, inputs, "ew_attend_args", value, fields), side


def _sizes(value: Tensor, width: int, side: RowsSide) -> Fields:
    """Return the fields of the C structure that depend only on the graph and the shapes."""
    batch, sources, heads, value_width = node_sizes(value)
    keys, values = heads * width, heads * value_width
    sizes: Fields = {
        "batch": batch,
        "heads": heads,
        "width": width,
        "value_width": value_width,
        "by_target": side.address,
    }
    results = {
        "out": (side.rows, values),
        "grad_query": (side.rows, keys),
        "grad_key": (sources, keys),
        "grad_value": (sources, values),
    }
    work = batch * side.edges * (keys + values)
    return structure_fields("ew_attend_args", value, work, sizes, results)


def _allocate_pieces(job: Job, slots: int, inputs: Inputs) -> None:
    """Allocate the partial results of the ``slots`` pieces into which rows are cut."""
    batch, _, heads, value_width = node_sizes(inputs["value"])
    width = inputs["query"].shape[-1] if "query" in inputs else 0
    job.scratch("slots", batch * slots, 2 * heads + heads * (width + value_width))


def one_sided(inputs: Inputs) -> bool:
    """Return whether the backward pass over targets stores weight and score gradient of each edge.

    Otherwise the pass over sources computes them again; see ``csrc/attend_backward_sources.h``.
    """
    if "edge_value" in inputs or "edge_value_features" in inputs:
        return True
    return inputs["score"] == 1 and ("edge_key" in inputs or "edge_key_features" in inputs)


def _gradients(
    job: Job, side: RowsSide, inputs: Inputs, needed: Sequence[str]
) -> dict[str, Tensor]:
    """Return the gradients of the arguments in ``needed``.

    A pass over targets computes most of them, and one over sources those of key and value.
    """
    batch, _, heads, _ = node_sizes(inputs["value"])
    edges = side.edges
    input_grads: dict[str, Tensor] = {}
    copies: dict[str, Tensor] = {}  # Partial sums, by batch member or by group of rows.
    parameters: dict[str, str] = {}  # Name of the field with the partial sums, by argument.
    for name in needed:
        x: Tensor = inputs[name]
        if name in ("query", "key", "value"):
            input_grads[name] = torch.empty_like(x, memory_format=torch.contiguous_format)
            job.fields[f"grad_{name}.data"] = input_grads[name].data_ptr()
        elif f"{name}_index" in inputs:
            parameters[name] = f"{name}.grad"
        elif name in ("bias", "gain"):
            copies[name] = job.scratch(f"{name}.grad", batch, edges, x.shape[-1])
        elif name in ("edge_key", "edge_value"):
            copies[name] = x.new_empty(batch, *x.shape[1:])
            job.array(f"{name}.full_grad", copies[name])
        elif name.endswith("_features"):
            field = name.replace("_features", ".features_grad")
            copies[name] = job.scratch(field, batch, *x.shape, zeros=True)
        else:
            holder = name.removesuffix("_weight")
            parameters[name] = f"{name}_grad" if holder == "score" else f"{holder}.weight_grad"
    # If the number of groups depended on the number of threads, so would the rounding of sums.
    if parameters:
        numbers = sum(inputs[name].numel() for name in parameters)
        groups = max(1, min(MOST_GROUPS, batch * edges * heads // max(numbers, 1)))
        job.fields["groups"] = groups
        for name, field in parameters.items():
            shape = inputs[name].shape
            kernel_shape = (*shape[2:], *shape[:2]) if name in PROJECTIONS else shape
            copies[name] = job.scratch(field, groups, *kernel_shape, zeros=True)
    slots = side.slots
    if "key" in needed or "value" in needed:
        by_source = rows_side(inputs["by_source"], side.rows)
        job.fields["by_source"] = by_source.address
        slots = max(slots, by_source.slots)
    if slots:
        _allocate_pieces(job, slots, inputs)
    job.run("ew_attend_grad")
    return input_grads | {
        name: summed(name, sums, inputs[name].shape) for name, sums in copies.items()
    }


def summed(name: str, copies: Tensor, shape: torch.Size) -> Tensor:
    """Return the gradient of the argument ``name``, the sum of ``copies`` over dimension 0."""
    if name in PROJECTIONS:
        return sum_copies(copies).permute(1, 2, 0).contiguous()
    return copies if copies.shape == shape else sum_copies(copies).view(shape)


rows_attend = RowsAttend()
rows_scores = RowsScores()
