"""PyTorch operators that call the C++ kernels.

A :class:`KernelOperator` declares each argument once: its name, its type in PyTorch's schema, and
how it is written to the kernel's C structure. It registers a custom operator with a fake kernel and
a gradient, for ``torch.compile`` and dispatch modes. Eager calls use the autograd function
``_Eager`` instead, because a custom operator has many times its overhead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.torch_internals import in_functorch_transform, is_tracing, single_level_apply
from edgewise.engines.call import ACCUMULATORS, Problem, without_autocast
from edgewise.engines.native import library

LARGEST = 2**31 - 1
"""The numbers of edges and of nodes must be below this, because their indices have 32 bits."""

BAD_CLASS = "the index of a TableBias has entries outside its table's range of classes"

Inputs = Mapping[str, Any]
"""Dict from the names of arguments to values; arguments that were not passed are left out."""

Results = dict[str, Tensor]
"""Dict from the names of results to tensors; results that were not requested are left out."""

Grads = Mapping[str, Tensor | None]
"""Dict from the names of results to their gradients."""

Fields = dict[str, float]
"""Dict from the names of the fields of a C structure to values."""


def put_nothing(_job: Job, _name: str, _value: Any) -> None:
    """Write nothing: the kernel does not read this argument, or other code writes it."""


def put_number(job: Job, name: str, value: float) -> None:
    """Write the number ``value`` to the field ``name`` of the C structure ``job``."""
    job.fields[name] = value


class Argument(NamedTuple):
    """Argument of an operator, with the function that writes its value to a :class:`Job`."""

    name: str
    schema: str  # Its type in PyTorch's schema, such as "Tensor?".
    put: Callable[[Job, str, Any], None]


class Job:
    """C structure with the arguments of a kernel call, such as ``job.fields["groups"] = 2``.

    The methods keep references to their tensors. A caller that writes an address to ``fields``
    directly must keep the tensor alive.
    """

    def __init__(
        self, operator: KernelOperator, inputs: Inputs, structure: str, like: Tensor, fields: Fields
    ) -> None:
        """Copy ``fields``, and write all arguments of the operator to the C structure.

        ``like`` is a tensor of the dtype of query, key and value.
        """
        self.structure = library.structures()[structure]
        self.like = like
        self.references: list[Tensor] = []
        self.fields = {**fields}
        for name in operator.numbers:  # This loop is faster than calling put_number for each.
            self.fields[name] = inputs[name]
        for name, put in operator.puts.items():
            if name in inputs:
                put(self, name, inputs[name])

    def array(self, name: str, x: Tensor) -> None:
        """Write the address of a contiguous copy of ``x`` to the field ``name``."""
        x = x.resolve_neg().contiguous()
        self.references.append(x)
        self.fields[name] = x.data_ptr()

    def nodes(self, name: str, x: Tensor) -> None:
        """Write the address and strides of ``x [B, N, H, D]`` or ``[N, H, D]`` to the C structure.

        It is copied first if the H·D numbers of a node are not contiguous in memory.
        """
        if x.is_neg():
            x = x.resolve_neg()
        shape, stride = x.shape, x.stride()
        width = shape[-1]
        if (stride[-1] != 1 and width != 1) or (stride[-2] != width and shape[-2] != 1):
            x = x.contiguous()
            stride = x.stride()
        self.references.append(x)
        fields = self.fields
        fields[name + ".data"] = x.data_ptr()
        fields[name + ".node_stride"] = stride[-3]
        if len(stride) == 4:
            fields[name + ".batch_stride"] = stride[0] if shape[0] > 1 else 0

    def scratch(self, name: str, *shape: int, zeros: bool = False) -> Tensor:
        """Allocate a tensor of the accumulation dtype, and write its address to field ``name``."""
        make = torch.zeros if zeros else torch.empty
        x = make(shape, dtype=ACCUMULATORS[self.like.dtype], device="cpu")
        self.array(name, x)
        return x

    def run(self, function: str) -> None:
        """Call a function of the library with this structure.

        Raises:
            IndexError: an index of a table of biases is out of range.
            NativeError: memory is exhausted, or the arguments are inconsistent.
        """
        loaded = library.library()
        if loaded is None:
            raise library.NativeError(library.MISSING)
        status = getattr(loaded, function)(self.structure.packed.pack(*self.fields.values()))
        if status == 2:
            raise IndexError(BAD_CLASS)
        if status:
            raise library.NativeError(library.STATUS[status])


LEAST_WORK = 200_000
"""Number of multiplications per thread, which take a thread about 20 µs."""


def structure_fields(
    structure: str,
    like: Tensor,
    work: int,
    sizes: Fields,
    results: Mapping[str, tuple[int, int]] | None = None,
) -> Fields:
    """Return the fields of a C structure by name, with all addresses still 0.

    The number of multiplications ``work`` decides how many threads compute the call. ``results``
    has the numbers of nodes and of elements per node of each contiguous result, from which its
    strides are computed.
    """
    fields: Fields = {
        **library.structures()[structure].zeros,
        "dtype": library.DTYPES[like.dtype],
        "threads": max(1, min(torch.get_num_threads(), work // LEAST_WORK)),
        **sizes,
    }
    for name, (count, numbers) in (results or {}).items():
        fields[name + ".node_stride"] = numbers
        fields[name + ".batch_stride"] = count * numbers
    return fields


MOST_SIZES = 32
"""Maximum number of entries that :func:`cached_fields` keeps for the calls on one graph."""


def cached_fields(cache: dict[Any, Fields], key: Any, make: Callable[[], Fields]) -> Fields:
    """Return ``cache[key]``, first made by ``make()``; a full cache is emptied."""
    fields = cache.get(key)
    if fields is None:
        if len(cache) >= MOST_SIZES:
            cache.clear()
        fields = cache[key] = make()
    return fields


class KernelOperator(ABC):
    """PyTorch operator that C++ or Triton kernels compute.

    The kernels compute first derivatives. Further derivatives are those of :meth:`formula`.
    The first ``differentiable`` arguments have gradients. The first ``with_gradient`` results are
    differentiable; the others are only saved for the backward pass.
    """

    name: ClassVar[str]
    arguments: ClassVar[tuple[Argument, ...]]
    differentiable: ClassVar[int]
    results: ClassVar[tuple[str, ...]]
    with_gradient: ClassVar[int] = 1
    devices: ClassVar[tuple[str, ...]] = ("cpu",)

    @abstractmethod
    def allocate(self, inputs: Inputs) -> Results:
        """Return empty tensors for the requested results, in order; also for the fake kernel."""

    @abstractmethod
    def forward(self, inputs: Inputs, results: Results) -> None:
        """Compute the results and write them to the tensors of :meth:`allocate`."""

    @abstractmethod
    def formula(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the differentiable results, computed by the engine "reference"."""

    @abstractmethod
    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        """Return the gradients of the arguments in ``needed``, from those of the results.

        The gradient of a result that was not used is None.
        """

    def __init__(self) -> None:
        self.names = tuple(argument.name for argument in self.arguments)
        without_put = put_nothing, put_number
        self.puts = {a.name: a.put for a in self.arguments if a.put not in without_put}
        self.numbers = [a.name for a in self.arguments if a.put is put_number]
        self.leaves = self.names[: self.differentiable]
        self.outputs = self.results[: self.with_gradient]
        self.lists = [a.name for a in self.arguments if a.schema == "Tensor[]"]
        schema = ", ".join(f"{argument.schema} {argument.name}" for argument in self.arguments)
        result_types = ", ".join(["Tensor"] * len(self.results))
        self.operator = torch.library.custom_op(
            f"edgewise::{self.name}",
            self._run,
            mutates_args=(),
            device_types=self.devices,
            schema=f"({schema}) -> ({result_types})",
        )
        self.operator.register_fake(self._fake)
        saved = [f"Tensor {name}" for name in self.results]
        grads = [f"Tensor? grad_{name}" for name in self.outputs]
        self.gradient = torch.library.custom_op(
            f"edgewise::{self.name}_backward",
            self._run_backward,
            mutates_args=(),
            device_types=self.devices,
            schema=f"(bool[] needs, {', '.join(saved + grads)}, {schema}) -> Tensor[]",
        )
        self.gradient.register_fake(self._fake_backward)
        self.operator.register_autograd(self._backward, setup_context=self._save)

    def __call__(self, leaves: dict[str, Tensor], others: Inputs) -> Results:
        """Return the results by name; call the custom operator only if a mode or tracer needs it.

        ``leaves`` are the arguments that can have gradients. In place of a list of tensors,
        ``others`` may have an object with an attribute ``tensors``.
        """
        if is_tracing(leaves.values()):
            lists = {name: getattr(others[name], "tensors", others[name]) for name in self.lists}
            results = self.operator(*map({**leaves, **others, **lists}.get, self.names))
            results = results if isinstance(results, tuple) else (results,)
        elif wants_gradient(leaves.values()):
            results = _apply(self, leaves, others, *leaves.values())
        else:
            inputs = {**leaves, **others}
            by_name = self.allocate(inputs)
            self.forward(inputs, by_name)
            return by_name
        return dict(zip(self.results, results, strict=False))

    def _by_name(self, values: Iterable[Any]) -> dict[str, Any]:
        pairs = zip(self.names, values, strict=True)
        return {name: value for name, value in pairs if value is not None}

    def _run(self, *values: Any) -> Any:
        inputs = self._by_name(values)
        results = self.allocate(inputs)
        self.forward(inputs, results)
        return self._as_output(results)

    def _fake(self, *values: Any) -> Any:
        return self._as_output(self.allocate(self._by_name(values)))

    def _as_output(self, results: Results) -> Any:
        """Return a tensor or a tuple; results that were not requested are empty tensors."""
        first = results[self.results[0]]
        output = [results.get(name, first.new_empty(0)) for name in self.results]
        return tuple(output) if len(output) > 1 else first

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        tensors: list[Tensor | None] = [*results]
        # The tensors of a list are saved one by one, so keep the length of each list; -1 stands for
        # an argument that is not a list.
        ctx.lists = []
        for x in inputs:
            ctx.lists.append(len(x) if isinstance(x, list | tuple) else -1)
            tensors += x if isinstance(x, list | tuple) else [x if isinstance(x, Tensor) else None]
        ctx.save_for_backward(*tensors)
        ctx.numbers = [None if isinstance(x, Tensor | list | tuple) else x for x in inputs]
        ctx.set_materialize_grads(False)

    def _backward(self, ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        saved = list(ctx.saved_tensors)
        results, saved = saved[: len(self.results)], saved[len(self.results) :]
        inputs: list[Any] = []
        for length, number in zip(ctx.lists, ctx.numbers, strict=True):
            taken = 1 if length < 0 else length
            head, saved = saved[:taken], saved[taken:]
            inputs.append(head if length >= 0 else number if head[0] is None else head[0])
        needs = list(ctx.needs_input_grad[: self.differentiable])
        output_grads = grads[: self.with_gradient]
        # All of them are None if the loss depends on no result.
        if any(grad is not None for grad in output_grads):
            gradient = getattr(torch.ops.edgewise, f"{self.name}_backward")
            input_grads = gradient(needs, *results, *output_grads, *inputs)
        else:
            input_grads = [None] * len(needs)
        needed = [grad if need else None for grad, need in zip(input_grads, needs, strict=True)]
        # Autograd expects one gradient for each tensor of a list.
        rest = [None if length < 0 else [None] * length for length in ctx.lists]
        return (*needed, *rest[self.differentiable :])

    def _run_backward(self, needs: Sequence[bool], *values: Any) -> list[Tensor]:
        results, grads, inputs = self._split(values)
        needed = [name for name, need in zip(self.leaves, needs, strict=True) if need]
        input_grads = self.backward(inputs, results, grads, needed)
        like = results[self.results[0]]
        # The results of an operator must not share memory.
        return [
            input_grads[name].contiguous() if name in input_grads else like.new_empty(0)
            for name in self.leaves
        ]

    def _fake_backward(self, needs: Sequence[bool], *values: Any) -> list[Tensor]:
        results, _, inputs = self._split(values)
        like = results[self.results[0]]
        return [
            torch.empty_like(inputs[name], memory_format=torch.contiguous_format)
            if need
            else like.new_empty(0)
            for name, need in zip(self.leaves, needs, strict=True)
        ]

    def _split(self, values: tuple[Any, ...]) -> tuple[Results, Grads, dict[str, Any]]:
        middle = len(self.results)
        last = middle + self.with_gradient
        results = dict(zip(self.results, values[:middle], strict=True))
        grads = dict(zip(self.outputs, values[middle:last], strict=True))
        return results, grads, self._by_name(values[last:])


class AttentionOperator(KernelOperator):
    """Operator that computes attention.

    The results are the output ``out [B, N_dst, H, Dv]``, the log-sum-exp ``lse [B, N_dst, H]``
    (empty without ``with_lse``), and for the backward pass ``stats [B, N_dst, 2, H]``: the greatest
    score m, and 1 / sum(exp(score - m)).
    """

    results = ("out", "lse", "stats")
    with_gradient = 2

    def allocate_rows(self, inputs: Inputs, rows: int, heads: int) -> Results:
        """Return empty tensors for the results, for ``rows`` targets and query heads ``heads``."""
        value: Tensor = inputs["value"]
        batch, dtype = value.shape[:-3], ACCUMULATORS[value.dtype]
        results = {"out": value.new_empty(*batch, rows, heads, value.shape[-1])}
        if inputs["with_lse"]:
            results["lse"] = value.new_empty(*batch, rows, heads, dtype=dtype)
        results["stats"] = value.new_empty(*batch, rows, 2, heads, dtype=dtype)
        return results

    def put_gradients(self, job: Job, inputs: Inputs, results: Results, grads: Grads) -> None:
        """Write the results and their gradients to the C structure ``job``."""
        out, grad_out, grad_lse = results["out"], grads["out"], grads.get("lse")
        job.nodes("grad_out", torch.zeros_like(out) if grad_out is None else grad_out)
        job.nodes("out", out)
        job.array("stats", results["stats"])
        if grad_lse is not None and inputs["with_lse"]:
            job.array("grad_lse", grad_lse)


class _Eager(torch.autograd.Function):
    """Autograd function for eager calls, which avoids the overhead of the custom operator."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: KernelOperator,
        leaves: dict[str, Tensor],
        others: Inputs,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        inputs = {**leaves, **others}
        results = operator.allocate(inputs)
        operator.forward(inputs, results)
        ctx.operator, ctx.others = operator, others
        ctx.leaves, ctx.results = tuple(leaves), tuple(results)
        ctx.save_for_backward(*tensors, *results.values())
        ctx.set_materialize_grads(False)
        num_saved_only = len(operator.results) - operator.with_gradient
        return (*results.values(),)[: len(results) - num_saved_only]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        if not [x for x in grads if x is not None]:  # The loss does not depend on the results.
            return (None,) * (3 + len(ctx.leaves))
        if torch.is_grad_enabled():  # The caller asks for create_graph=True.
            with torch.no_grad():
                first = _Eager.backward(ctx, *grads)[3:]
            leaves = ctx.saved_tensors[: len(ctx.leaves)]
            first = _FirstDerivatives.apply(  # type: ignore[no-untyped-call]
                ctx.operator, ctx.leaves, ctx.others, *first, *grads, *leaves
            )
            return None, None, None, *first
        operator: KernelOperator = ctx.operator
        saved = ctx.saved_tensors
        inputs = {**dict(zip(ctx.leaves, saved, strict=False)), **ctx.others}
        results = dict(zip(ctx.results, saved[len(ctx.leaves) :], strict=True))
        needs = zip(ctx.leaves, ctx.needs_input_grad[3:], strict=True)
        needed = [name for name, need in needs if need]
        outputs = dict(zip(operator.outputs, grads, strict=False))
        input_grads = operator.backward(inputs, results, outputs, needed)
        return None, None, None, *map(input_grads.get, ctx.leaves)


# Calls under a transform of torch.func do not get here; see `is_tracing` and
# `in_functorch_transform`.
_apply: Callable[..., tuple[Tensor, ...]] = single_level_apply(_Eager)


class _FirstDerivatives(torch.autograd.Function):
    """Return first derivatives unchanged; their derivatives are those of the operator's formula.

    The tensors are the first derivatives, the gradients of the results, and the leaves.
    """

    @staticmethod
    def forward(
        ctx: Any,
        operator: KernelOperator,
        leaves: tuple[str, ...],
        others: Inputs,
        *tensors: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        ctx.operator, ctx.leaves, ctx.others = operator, leaves, others
        ctx.save_for_backward(*tensors[len(leaves) :])
        ctx.set_materialize_grads(False)
        return tuple(x if x is None else x.detach() for x in tensors[: len(leaves)])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        count = len(ctx.leaves)
        again = torch.is_grad_enabled()  # Whether third derivatives may follow.
        needs = ctx.needs_input_grad[3 + count :]
        with torch.enable_grad():
            tensors: list[Any] = [
                x if x is None else (x.view_as(x) if again else x.detach().requires_grad_(need))
                for x, need in zip(ctx.saved_tensors, needs, strict=True)
            ]
            grads, leaves = tensors[:-count], dict(zip(ctx.leaves, tensors[-count:], strict=True))
            with without_autocast(tensors[-1].device):
                results = ctx.operator.formula({**leaves, **ctx.others})
            outputs = [(x, g) for x, g in zip(results, grads, strict=False) if g is not None]
            with_cotangent = [
                (leaf, cotangent)
                for leaf, cotangent in zip(leaves.values(), cotangents, strict=True)
                if cotangent is not None
            ]
            first = _gradients(outputs, [leaf for leaf, _ in with_cotangent])
            pairs = [
                (x, c) for x, (_, c) in zip(first, with_cotangent, strict=True) if x is not None
            ]
            inputs = [x for x, need in zip(tensors, needs, strict=True) if need]
            second = iter(_gradients(pairs, inputs, create_graph=again))
        return *[None] * (3 + count), *(next(second) if need else None for need in needs)


def _gradients(
    outputs: Iterable[tuple[Tensor, Tensor]], inputs: Sequence[Tensor], *, create_graph: bool = True
) -> Sequence[Tensor | None]:
    """Return the gradients of inputs, given outputs with their gradients; None for constants."""
    pairs = [(x, grad) for x, grad in outputs if x.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    results, grads = zip(*pairs, strict=True)
    gradients: Sequence[Tensor | None] = torch.autograd.grad(
        results, inputs, grads, create_graph=create_graph, allow_unused=True
    )
    return gradients


def wants_gradient(tensors: Iterable[Tensor]) -> bool:
    """Return whether autograd must record a call with these arguments."""
    if torch.is_grad_enabled():
        for x in tensors:  # A loop is faster than any() with a generator.
            if x.requires_grad:
                return True
    return False


def flat(x: Tensor, batch: torch.Size) -> Tensor:
    """Broadcast ``[..., N, H, D]`` to the shape ``batch``, and reshape to ``[B, N, H, D]``.

    There are few views here, because in a small call each view takes as long as the kernel.
    """
    if x.shape[:-3] != batch:
        x = x.expand(*batch, *x.shape[-3:])
    return x.flatten(0, -4) if len(batch) > 1 else x


def unflat(x: Tensor, batch: torch.Size) -> Tensor:
    """Reshape a result ``[B, ...]`` to ``[*batch, ...]``, the inverse of :func:`flat`."""
    return x.view(*batch, *x.shape[1:]) if len(batch) > 1 else x


def node_sizes(x: Tensor) -> Sequence[int]:
    """Return B, N, H and D for a tensor ``[B, N, H, D]`` or ``[N, H, D]`` (B = 1)."""
    return x.shape if x.dim() == 4 else (1, *x.shape)


def refusals(
    problem: Problem, largest: int, *, device: str = "cpu", missing: str = library.MISSING
) -> list[str]:
    """Return the reasons why no kernel can compute a call; an empty list if one can.

    ``largest`` is the largest index of a node or an edge that the kernels would use, and
    ``missing`` the reason why no kernel can run at all.
    """
    reasons = []
    if problem.device.type != device:
        reasons.append(f"its kernels run on the CPU, not on {problem.device.type}")
    if problem.dtype not in library.DTYPES:
        reasons.append(f"it has no kernels for {problem.dtype}")
    if largest >= LARGEST:
        reasons.append("the graph has too many edges or nodes for its 32-bit indices")
    if not problem.value_width and problem.operation != "edges":
        reasons.append("it does not support values of width 0")
    if in_functorch_transform():
        reasons.append("its kernels support neither torch.func nor forward-mode differentiation")
    if missing:
        reasons.append(missing)
    return reasons
