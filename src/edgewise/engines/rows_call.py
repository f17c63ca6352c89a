"""A call of the rows kernels: its arguments by name, their addresses, and where gradients go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.engines import native
from edgewise.engines.csr import prepared
from edgewise.engines.operands import accumulator, rows_of

DIFFERENTIABLE = (
    *("query", "key", "value", "bias", "gain"),
    *("edge_key", "edge_key_features", "edge_key_weight"),
    *("edge_value", "edge_value_features", "edge_value_weight", "score_weight"),
)
TENSORS = ", ".join(f"Tensor{'' if name == 'value' else '?'} {name}" for name in DIFFERENTIABLE)
REST = (
    "Tensor? bias_index, Tensor? gain_index, Tensor[] by_target, Tensor[] by_source, int score, "
    "int activation, float scale, float slope, float dropout, int seed, int first_edge"
)
MOST_GROUPS = 64
"""Partial sums of a parameter's gradient: enough for as many threads, few enough to be small."""


class Inputs(NamedTuple):
    """The arguments of the operator, by name."""

    query: Tensor | None
    key: Tensor | None
    value: Tensor
    bias: Tensor | None
    gain: Tensor | None
    edge_key: Tensor | None
    edge_key_features: Tensor | None
    edge_key_weight: Tensor | None
    edge_value: Tensor | None
    edge_value_features: Tensor | None
    edge_value_weight: Tensor | None
    score_weight: Tensor | None
    bias_index: Tensor | None
    gain_index: Tensor | None
    by_target: Sequence[Tensor]
    by_source: Sequence[Tensor]
    score: int
    activation: int
    scale: float
    slope: float
    dropout: float
    seed: int
    first_edge: int

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """B, N_dst, E, H, Dv."""
        batch, _, heads, width = self.value.shape
        return batch, self.by_target[0].shape[0] - 1, self.by_target[1].shape[0], heads, width

    @property
    def one_sided(self) -> bool:
        """Whether an edge's score cannot be computed from its source's end (see attend.h)."""
        vectors = [self.edge_value, self.edge_value_features]
        if self.score == 1:
            vectors += [self.edge_key, self.edge_key_features]
        return any(x is not None for x in vectors)


class Call:
    """Arguments for the kernels; keeps alive every tensor whose address they hold."""

    def __init__(self, x: Inputs) -> None:
        batch, _, _, heads, value_width = x.sizes
        self.inputs = x
        self.kept: list[Any] = []
        self.args = args = native.AttendArgs()
        args.dtype = native.DTYPES[x.value.dtype]
        args.score, args.activation = x.score, x.activation
        args.batch, args.heads, args.value_width = batch, heads, value_width
        args.width = 0 if x.query is None else x.query.shape[-1]
        args.scale, args.slope = x.scale, x.slope
        args.dropout, args.seed, args.first_edge = x.dropout, x.seed, x.first_edge
        self.side = prepared(x.by_target, x.value.shape[1])
        args.by_target = self.side.pointer
        args.query, args.key = self.nodes(x.query), self.nodes(x.key)
        args.value = self.nodes(x.value)
        args.bias, args.gain = self.term(x.bias, x.bias_index), self.term(x.gain, x.gain_index)
        args.edge_key = self.vectors(x.edge_key, x.edge_key_features, x.edge_key_weight)
        args.edge_value = self.vectors(x.edge_value, x.edge_value_features, x.edge_value_weight)
        args.score_weight = self.address(x.score_weight)

    def address(self, x: Tensor | None) -> int | None:
        """Where the numbers of a dense copy are."""
        if x is None:
            return None
        x = x.contiguous()
        self.kept.append(x)
        return x.data_ptr()

    def nodes(self, x: Tensor | None) -> native.Nodes:
        """A node tensor with dense heads."""
        if x is None:
            return native.Nodes(None, 0, 0)
        x = rows_of(x)
        self.kept.append(x)
        return native.nodes(x)

    def term(self, x: Tensor | None, index: Tensor | None) -> native.Term:
        """A bias or gain."""
        if x is None:
            return native.Term()
        stride = x.shape[1] * x.shape[2] if x.shape[0] > 1 else 0
        bits = 0 if index is None else index.element_size() * 8
        places = (self.address(x), self.address(index), None)
        return native.Term(*places, stride, x.shape[1], x.shape[2], bits)

    def vectors(
        self, full: Tensor | None, features: Tensor | None, weight: Tensor | None
    ) -> native.Vectors:
        """Vectors on edges."""
        out = native.Vectors()
        if full is not None:
            out.full = self.address(full)
            out.full_batch_stride = full[0].numel() if full.shape[0] > 1 else 0
        if features is not None:
            out.features, out.weight = self.address(features), self.address(weight)
            out.count = features.shape[-1]
        return out

    def scratch(self, *shape: int, zeros: bool = False) -> Tensor:
        """Memory for the kernels, in the type of accumulation."""
        make = torch.zeros if zeros else torch.empty
        x = make(shape, dtype=accumulator(self.inputs.value), device="cpu")
        self.kept.append(x)
        return x

    def slots(self, side: Any) -> None:
        """Room for the parts of rows that are cut into pieces."""
        args = self.args
        size = 2 * args.heads + args.heads * (args.width + args.value_width)
        self.args.slots = self.scratch(args.batch * side.side.slots, size).data_ptr()


def run_backward(call: Call, needs: Sequence[bool]) -> list[Tensor]:
    """Both passes: over rows, then over transposed rows for key and value."""
    x, args = call.inputs, call.args
    batch, rows, edges, heads, _ = x.sizes
    grads = Gradients(call, needs)
    columns = needs[1] or needs[2]
    if columns and x.one_sided and args.grad_out.data:
        args.per_edge = call.scratch(batch, edges, 2, heads).data_ptr()
    elif columns and args.grad_out.data:
        args.record = call.scratch(batch, rows, 3, heads).data_ptr()
    call.slots(call.side)
    native.call("ew_attend_grad_rows", args)
    if columns:
        source = prepared(x.by_source, x.sizes[1])
        args.by_source = source.pointer
        call.slots(source)
        native.call("ew_attend_grad_columns", args)
    return grads.finished()


class Gradients:
    """Where the kernels write gradients, and what is left to sum when they are done."""

    def __init__(self, call: Call, needs: Sequence[bool]) -> None:
        x, args = call.inputs, call.args
        batch, _, edges, heads, width = x.sizes
        self.call, self.needs = call, dict(zip(DIFFERENTIABLE, needs, strict=True))
        self.raw: dict[str, Tensor] = {}
        for name in ("query", "key", "value"):
            if self.needs[name]:
                self.raw[name] = torch.empty(
                    getattr(x, name).shape, dtype=x.value.dtype, device="cpu"
                )
                setattr(args, f"grad_{name}", native.nodes(self.raw[name]))
        self.parameters: list[tuple[Any, str, str]] = []
        for name, index in (("bias", x.bias_index), ("gain", x.gain_index)):
            if self.needs[name] and index is not None:
                self.parameters.append((getattr(args, name), "grad", name))
            elif self.needs[name]:
                self.raw[name] = call.scratch(batch, edges, getattr(x, name).shape[-1])
                getattr(args, name).grad = self.raw[name].data_ptr()
        for name, size in (("edge_key", args.width), ("edge_value", width)):
            vectors = getattr(args, name)
            if self.needs[name]:
                self.raw[name] = torch.empty(
                    batch, edges, heads, size, dtype=x.value.dtype, device="cpu"
                )
                vectors.full_grad = self.raw[name].data_ptr()
            if self.needs[f"{name}_features"]:
                grad = call.scratch(batch, edges, vectors.count, zeros=True)
                self.raw[f"{name}_features"], vectors.features_grad = grad, grad.data_ptr()
            if self.needs[f"{name}_weight"]:
                self.parameters.append((vectors, "weight_grad", f"{name}_weight"))
        if self.needs["score_weight"]:
            self.parameters.append((args, "score_weight_grad", "score_weight"))
        self._parameters(batch * edges * heads)

    def _parameters(self, work: int) -> None:
        """A partial sum a group: the number of groups follows from sizes, not from threads."""
        x = self.call.inputs
        total = sum(getattr(x, name).numel() for _, _, name in self.parameters)
        groups = max(1, min(MOST_GROUPS, work // max(total, 1))) if total else 0
        self.call.args.groups = groups
        for holder, field, name in self.parameters:
            grad = self.call.scratch(max(groups, 1), *getattr(x, name).shape, zeros=True)
            self.raw[name] = grad
            setattr(holder, field, grad.data_ptr())

    def finished(self) -> list[Tensor]:
        """The gradients in the shapes of their inputs."""
        x, out = self.call.inputs, []
        parameters = {name for _, _, name in self.parameters}
        for name in DIFFERENTIABLE:
            like = getattr(x, name)
            if name not in self.raw:
                out.append(x.value.new_empty(0))
            elif name in parameters or name.endswith("_features"):
                out.append(native.sum_copies(self.raw[name]))
            elif name in ("bias", "gain") and like.shape[0] == 1:
                out.append(native.sum_copies(self.raw[name])[None])
            elif self.raw[name].shape != like.shape:
                out.append(self.raw[name].sum(0, keepdim=True))
            else:
                out.append(self.raw[name])
        return [grad.clone() if grad._is_view() else grad for grad in out]
