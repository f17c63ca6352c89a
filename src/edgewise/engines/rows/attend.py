"""``edgewise::rows_attend`` and ``edgewise::rows_scores``: attention over the rows of a graph.

Node tensors are ``[B, N, H, D]`` or ``[N, H, D]``. Edge terms are ``[B or 1, E, H or 1]``, or a
table ``[1, classes, H or 1]`` with an index; edge vectors ``[B or 1, E, H, D]``, or features
``[E, F]`` with a weight ``[H, D, F]``. Terms, features and weights come in the type of
accumulation: float32, or float64 for float64. Only inputs, output and the softmax's two numbers a
row and head are saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from edgewise.engines.call import accumulator
from edgewise.engines.native.library import sum_copies
from edgewise.engines.native.operator import (
    Argument,
    Given,
    Job,
    KernelOperator,
    left_out,
    node_sizes,
    threads_for,
)
from edgewise.engines.rows.layout import Side, num_rows, side_of

MOST_GROUPS = 64
"""Partial sums of a parameter's gradient: enough for as many threads, few enough to be small."""


def put_term(job: Job, name: str, x: Tensor) -> None:
    """A bias or gain, by edge or by class."""
    job.put(f"{name}.data", job.address(x))
    job.put(f"{name}.batch_stride", x[0].numel() if x.shape[0] > 1 else 0, *x.shape[1:])


def put_index(job: Job, name: str, index: Tensor) -> None:
    """The class of each edge in a term's table."""
    term = name.removesuffix("_index")
    job.put(f"{term}.index", job.address(index))
    job.put(f"{term}.index_bits", 8 * index.element_size())


def put_vectors(job: Job, name: str, x: Tensor) -> None:
    """Edge vectors in full."""
    job.put(f"{name}.full", job.address(x))
    job.put(f"{name}.full_batch_stride", x[0].numel() if x.shape[0] > 1 else 0)


def put_features(job: Job, name: str, x: Tensor) -> None:
    """Features of which edge vectors are projections."""
    vectors = name.removesuffix("_features")
    job.put(f"{vectors}.features", job.address(x))
    job.put(f"{vectors}.count", x.shape[-1])


def put_weight(job: Job, name: str, x: Tensor) -> None:
    """The projections."""
    job.put(f"{name.removesuffix('_weight')}.weight", job.address(x))


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
    Argument("by_target", "Tensor[]", left_out),
    Argument("by_source", "Tensor[]", left_out),
    Argument("score", "int", left_out),
    Argument("activation", "int", left_out),
    Argument("scale", "float", left_out),
    Argument("slope", "float", left_out),
    Argument("dropout", "float", left_out),
    Argument("seed", "int", left_out),
    Argument("first_edge", "int", left_out),
)


class RowsAttend(KernelOperator):
    """Output, log-sum-exp, and greatest score and 1 / sum of exponentials ``[B, N_dst, 2, H]``."""

    name = "rows_attend"
    arguments = ARGUMENTS
    differentiable = 12
    results = ("out", "lse", "stats")
    with_gradient = 2

    def allocate(self, given: Given) -> tuple[Tensor, ...]:
        value: Tensor = given["value"]
        *batch, _, heads, width = value.shape
        rows, dtype = num_rows(given["by_target"]), accumulator(value)
        return (
            value.new_empty(*batch, rows, heads, width),
            value.new_empty(*batch, rows, heads, dtype=dtype),
            value.new_empty(*batch, rows, 2, heads, dtype=dtype),
        )

    def forward(self, given: Given, results: tuple[Tensor, ...]) -> None:
        job, side = _job(self, given)
        out, lse, stats = results
        job.nodes("out", out)
        job.array("lse", lse)
        job.array("stats", stats)
        _room_for_pieces(job, side, given)
        job.run("ew_attend")

    def backward(
        self,
        given: Given,
        results: tuple[Tensor, ...],
        grads: tuple[Tensor | None, ...],
        needed: Sequence[str],
    ) -> dict[str, Tensor]:
        job, side = _job(self, given)
        out, _, stats = results
        grad_out, grad_lse = grads
        job.nodes("grad_out", out.new_zeros(out.shape) if grad_out is None else grad_out)
        job.nodes("out", out)
        job.array("stats", stats)
        if grad_lse is not None:
            job.array("grad_lse", grad_lse)
        if "key" in needed or "value" in needed:  # what the pass over sources reads of the first
            batch, _, heads, _ = node_sizes(given["value"])
            if _one_sided(given):
                job.scratch("per_edge", batch, side.edges, 2, heads)
            else:
                job.scratch("record", batch, side.rows, 3, heads)
        return _gradients(job, side, given, needed)


class RowsScores(KernelOperator):
    """Scores ``[B, E, H]`` in the caller's edge order: score · gain + bias.

    For layers that need the steps of attention apart. The values only lend their shape.
    """

    name = "rows_scores"
    arguments = ARGUMENTS
    differentiable = 12
    results = ("scores",)

    def allocate(self, given: Given) -> tuple[Tensor, ...]:
        value: Tensor = given["value"]
        *batch, _, heads, _ = value.shape
        by_target = given["by_target"]
        edges = by_target.edges if isinstance(by_target, Side) else by_target[1].shape[0]
        return (value.new_empty(*batch, edges, heads, dtype=accumulator(value)),)

    def forward(self, given: Given, results: tuple[Tensor, ...]) -> None:
        job, _ = _job(self, given)
        job.array("scores", results[0])
        job.run("ew_edge_scores")

    def backward(
        self,
        given: Given,
        results: tuple[Tensor, ...],  # noqa: ARG002 - scores are linear in what comes after them
        grads: tuple[Tensor | None, ...],
        needed: Sequence[str],
    ) -> dict[str, Tensor]:
        job, side = _job(self, given)
        assert grads[0] is not None
        job.array("scores", grads[0])
        made = _gradients(job, side, given, [name for name in needed if name != "value"])
        if "value" in needed:
            made["value"] = given["value"].new_zeros(given["value"].shape)
        return made


def _job(operator: KernelOperator, given: Given) -> tuple[Job, Side]:
    """The structure with all arguments, and the side of the targets."""
    value: Tensor = given["value"]
    batch, sources, heads, value_width = node_sizes(value)
    width = given["query"].shape[-1] if "query" in given else 0
    side = side_of(given["by_target"], sources)
    job = Job("ew_attend_args", value)
    job.put(
        "size",
        *(job.size, job.dtype, given["score"], given["activation"]),
        threads_for(batch * side.edges * heads * (width + value_width)),
        *(batch, heads, width, value_width, 0),
        *(given["scale"], given["slope"], given["seed"], given["dropout"], given["first_edge"]),
        side.address,
    )
    operator.fill(job, given)
    return job, side


def _room_for_pieces(job: Job, side: Side, given: Given) -> None:
    """Memory for the parts of rows that are cut into pieces."""
    if side.slots:
        batch, _, heads, value_width = node_sizes(given["value"])
        width = given["query"].shape[-1] if "query" in given else 0
        job.scratch("slots", batch * side.slots, 2 * heads + heads * (width + value_width))


def _one_sided(given: Given) -> bool:
    """Whether an edge's score cannot be computed from its source's end.

    See ``csrc/attend_backward_columns.h``.
    """
    if "edge_value" in given or "edge_value_features" in given:
        return True
    return given["score"] == 1 and ("edge_key" in given or "edge_key_features" in given)


def _gradients(job: Job, side: Side, given: Given, needed: Sequence[str]) -> dict[str, Tensor]:
    """Both passes: over rows, then over transposed rows for key and value."""
    batch, _, heads, _ = node_sizes(given["value"])
    edges = side.edges
    made: dict[str, Tensor] = {}
    copies: dict[str, Tensor] = {}  # [members of the batch, or groups of rows, ...], to be summed
    parameters: dict[str, str] = {}  # names, and the members for the groups' sums
    for name in needed:
        x: Tensor = given[name]
        if name in ("query", "key", "value"):
            made[name] = x.new_empty(x.shape)
            job.nodes(f"grad_{name}", made[name])
        elif f"{name}_index" in given:
            parameters[name] = f"{name}.grad"
        elif name in ("bias", "gain"):
            copies[name] = job.scratch(f"{name}.grad", batch, edges, x.shape[-1])
        elif name in ("edge_key", "edge_value"):
            copies[name] = x.new_empty(batch, *x.shape[1:])
            job.array(f"{name}.full_grad", copies[name])
        elif name.endswith("_features"):
            member = name.replace("_features", ".features_grad")
            copies[name] = job.scratch(member, batch, *x.shape, zeros=True)
        else:
            holder = name.removesuffix("_weight")
            parameters[name] = f"{name}_grad" if holder == "score" else f"{holder}.weight_grad"
    if parameters:  # how many groups follows from sizes, not from threads
        numbers = sum(given[name].numel() for name in parameters)
        groups = max(1, min(MOST_GROUPS, batch * edges * heads // max(numbers, 1)))
        job.put("groups", groups)
        for name, member in parameters.items():
            copies[name] = job.scratch(member, groups, *given[name].shape, zeros=True)
    _room_for_pieces(job, side, given)
    job.run("ew_attend_grad_rows")
    if "key" in needed or "value" in needed:
        by_source = side_of(given["by_source"], side.rows)
        job.put("by_source", by_source.address)
        _room_for_pieces(job, by_source, given)
        job.run("ew_attend_grad_columns")
    for name, each in copies.items():
        shape = given[name].shape
        made[name] = each if each.shape == shape else sum_copies(each).view(shape)
    return made


rows_attend = RowsAttend()
rows_scores = RowsScores()
