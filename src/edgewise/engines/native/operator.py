"""From tensors to a kernel and back: the PyTorch operator, its fake, its gradient, the C call.

A :class:`KernelOperator` declares each argument once, by name, with its type in PyTorch's schema
and its way into the kernel's C structure. From that follow the operator that ``torch.compile`` and
other watchers see, with a fake kernel and a gradient, and the short cut for an eager call, which
costs a fraction of the operator's bookkeeping.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from edgewise.engines.call import accumulator
from edgewise.engines.native import library

if TYPE_CHECKING:
    from edgewise.engines.call import Problem

PLAIN = (Tensor, Parameter)
"""Tensors that hold their numbers themselves."""

LARGEST = 2**31 - 1
"""Edges and nodes are counted in 32 bits."""

NO_SECOND_DERIVATIVE = (
    "The kernels give first derivatives alone. For second derivatives run the forward pass with "
    'edgewise.using_engine("reference"), which has them.'
)

Given = Mapping[str, Any]
"""Arguments by name, those that are absent left out."""


def left_out(_job: Job, _name: str, _value: Any) -> None:
    """For an argument that is put in its place together with others, or that no kernel reads."""


class Argument(NamedTuple):
    """An argument of an operator: name, type in a schema, and its way into the structure."""

    name: str
    schema: str
    put: Callable[[Job, str, Any], None]


class Job:
    """The C structure of one kernel call, filled member by member.

    It keeps alive every tensor whose address it holds.
    """

    def __init__(self, structure: str, like: Tensor) -> None:
        """Of the storage type of ``like``."""
        self.structure = structure
        self.like = like
        self.dtype = library.DTYPES[like.dtype]
        self.kept: list[Tensor] = []
        self.size = library.structures()[structure].size
        self.buffer = bytearray(self.size)

    def put(self, name: str, *values: Any) -> None:
        """Write numbers to the member of this name and those after it."""
        offset, packed = library.packer(self.structure, name, len(values))
        packed.pack_into(self.buffer, offset, *values)

    def array(self, name: str, x: Tensor) -> None:
        """A dense tensor, by its address."""
        self.put(name, self.address(x))

    def nodes(self, name: str, x: Tensor) -> None:
        """``[B, N, H, D]`` or ``[N, H, D]`` with dense heads, and strides of members and nodes."""
        if x.is_neg():  # a view whose sign is not in its memory
            x = x.resolve_neg()
        *_, node, head, step = x.stride()
        *_, heads, width = x.shape
        if (step != 1 and width != 1) or (head != width and heads != 1):
            x = x.contiguous()
            node = x.stride(-3)
        member = x.stride(0) if x.dim() == 4 and x.shape[0] > 1 else 0
        self.kept.append(x)
        offset, packed = library.packer(self.structure, name + ".data", 3)
        packed.pack_into(self.buffer, offset, x.data_ptr(), member, node)

    def address(self, x: Tensor) -> int:
        """Where the numbers of a dense copy are."""
        x = x.resolve_neg().contiguous()
        self.kept.append(x)
        return x.data_ptr()

    def scratch(self, name: str, *shape: int, zeros: bool = False) -> Tensor:
        """Memory for the kernels, in the type of accumulation."""
        make = torch.zeros if zeros else torch.empty
        x = make(shape, dtype=accumulator(self.like))
        self.array(name, x)
        return x

    def run(self, function: str) -> None:
        """Call an exported function."""
        library.run(function, bytes(self.buffer))


LEAST_WORK = 200_000
"""Multiplications for which waking another thread pays: some 20 microseconds of one."""


def threads_for(work: int) -> int:
    """How many threads share so many multiplications."""
    return max(1, min(torch.get_num_threads(), work // LEAST_WORK))


class KernelOperator(ABC):
    """A computation by native kernels, differentiable once.

    Attributes:
        name: the operator is ``edgewise::name``.
        arguments: its arguments in order; the first ``differentiable`` of them have gradients.
        results: names of its results; of these the first ``with_gradient`` may be differentiated,
            the others are for the backward pass.

    """

    name: ClassVar[str]
    arguments: ClassVar[tuple[Argument, ...]]
    differentiable: ClassVar[int]
    results: ClassVar[tuple[str, ...]]
    with_gradient: ClassVar[int] = 1

    @abstractmethod
    def allocate(self, given: Given) -> tuple[Tensor, ...]:
        """The results, not yet computed; this is also the fake kernel."""

    @abstractmethod
    def forward(self, given: Given, results: tuple[Tensor, ...]) -> None:
        """Compute the results in place."""

    @abstractmethod
    def backward(
        self,
        given: Given,
        results: tuple[Tensor, ...],
        grads: tuple[Tensor | None, ...],
        needed: Sequence[str],
    ) -> dict[str, Tensor]:
        """The gradients of the needed arguments, from those of the results that have any."""

    def __init__(self) -> None:
        self.names = tuple(argument.name for argument in self.arguments)
        self.puts = {a.name: a.put for a in self.arguments if a.put is not left_out}
        self.leaves = self.names[: self.differentiable]
        self.lists = [a.name for a in self.arguments if a.schema == "Tensor[]"]
        schema = ", ".join(f"{argument.schema} {argument.name}" for argument in self.arguments)
        made = ", ".join(["Tensor"] * len(self.results))
        self.operator = torch.library.custom_op(
            f"edgewise::{self.name}",
            self._run,
            mutates_args=(),
            device_types="cpu",
            schema=f"({schema}) -> ({made})",
        )
        self.operator.register_fake(self._fake)
        saved = [f"Tensor {name}" for name in self.results]
        grads = [f"Tensor? grad_{name}" for name in self.results[: self.with_gradient]]
        self.gradient = torch.library.custom_op(
            f"edgewise::{self.name}_backward",
            self._run_backward,
            mutates_args=(),
            device_types="cpu",
            schema=f"(bool[] needs, {', '.join(saved + grads)}, {schema}) -> Tensor[]",
        )
        self.gradient.register_fake(self._fake_backward)
        self.operator.register_autograd(self._backward, setup_context=self._save)

    def __call__(self, given: Given) -> tuple[Tensor, ...]:
        """The results, by the operator while somebody watches, directly otherwise."""
        leaves = [name for name in self.leaves if name in given]
        tensors = [given[name] for name in leaves]
        if watched(tensors):
            shown = {name: getattr(given[name], "tensors", given[name]) for name in self.lists}
            results = self.operator(*map({**given, **shown}.get, self.names))
            return results if isinstance(results, tuple) else (results,)
        if wants_gradient(tensors):
            return _Eager.apply_plain(self, given, leaves, *tensors)  # type: ignore[no-any-return]
        results = self.allocate(given)
        self.forward(given, results)
        return results

    def fill(self, job: Job, given: Given) -> None:
        """Put the arguments that have a way of their own into the structure."""
        puts = self.puts
        for name, value in given.items():
            if name in puts:
                puts[name](job, name, value)

    def _given(self, arguments: Iterable[Any]) -> dict[str, Any]:
        pairs = zip(self.names, arguments, strict=True)
        return {name: value for name, value in pairs if value is not None}

    def _run(self, *arguments: Any) -> Any:
        given = self._given(arguments)
        results = self.allocate(given)
        self.forward(given, results)
        return results if len(results) > 1 else results[0]

    def _fake(self, *arguments: Any) -> Any:
        results = self.allocate(self._given(arguments))
        return results if len(results) > 1 else results[0]

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        tensors: list[Tensor | None] = [*results]
        ctx.lists = []  # lists of tensors are saved one by one
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
        given = grads[: self.with_gradient]
        gradient = getattr(torch.ops.edgewise, f"{self.name}_backward")
        made = gradient(needs, *results, *given, *inputs)
        wanted = [x if need else None for x, need in zip(made, needs, strict=True)]
        # Autograd wants one for each tensor of a list.
        rest = [None if length < 0 else [None] * length for length in ctx.lists]
        return (*wanted, *rest[self.differentiable :])

    def _run_backward(self, needs: Sequence[bool], *arguments: Any) -> list[Tensor]:
        results, grads, given = self._parts(arguments)
        needed = [name for name, need in zip(self.leaves, needs, strict=True) if need]
        made = self.backward(given, results, grads, needed)
        # The results of an operator share no memory.
        return [
            made[name].contiguous() if name in made else results[0].new_empty(0)
            for name in self.leaves
        ]

    def _fake_backward(self, needs: Sequence[bool], *arguments: Any) -> list[Tensor]:
        results, _, given = self._parts(arguments)
        return [
            torch.empty_like(given[name], memory_format=torch.contiguous_format)
            if need
            else results[0].new_empty(0)
            for name, need in zip(self.leaves, needs, strict=True)
        ]

    def _parts(
        self, arguments: tuple[Any, ...]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...], dict[str, Any]]:
        middle = len(self.results)
        last = middle + self.with_gradient
        return arguments[:middle], arguments[middle:last], self._given(arguments[last:])


class _Eager(torch.autograd.Function):
    """The short cut: the same gradient without the operator's bookkeeping."""

    @classmethod
    def apply_plain(cls, *arguments: Any) -> Any:
        """``apply`` without its look at what ``torch.func`` has left, which is not here."""
        return super(torch.autograd.Function, cls).apply(*arguments)  # type: ignore[misc]

    @staticmethod
    def forward(
        ctx: Any, operator: KernelOperator, given: Given, leaves: list[str], *tensors: Tensor
    ) -> Any:
        results = operator.allocate(given)
        operator.forward(given, results)
        ctx.operator, ctx.leaves = operator, leaves
        ctx.rest = rest = dict(given)
        for name in leaves:
            del rest[name]
        ctx.save_for_backward(*results, *tensors)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*results[operator.with_gradient :])
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        operator: KernelOperator = ctx.operator
        saved = ctx.saved_tensors
        results, tensors = saved[: len(operator.results)], saved[len(operator.results) :]
        needs = ctx.needs_input_grad[3:]
        needed = [name for name, need in zip(ctx.leaves, needs, strict=True) if need]
        given = {**ctx.rest, **dict(zip(ctx.leaves, tensors, strict=True))}
        with torch.no_grad():
            made = operator.backward(given, results, grads[: operator.with_gradient], needed)
        found = [made.get(name) for name in ctx.leaves]
        if torch.is_grad_enabled():  # create_graph: somebody may differentiate these again
            found = _FirstDerivatives.apply(len(found), *found, *grads, *tensors)  # type: ignore[no-untyped-call]
        return None, None, None, *found


class _FirstDerivatives(torch.autograd.Function):
    """Gradients, connected with what they depend on so that autograd comes by to be refused."""

    @staticmethod
    def forward(_ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(x if x is None else x.detach() for x in tensors[:count])

    @staticmethod
    def backward(_ctx: Any, *_grads: Tensor | None) -> None:
        raise RuntimeError(NO_SECOND_DERIVATIVE)


def watched(tensors: Iterable[Tensor] = ()) -> bool:
    """Whether calls with these tensors must go through PyTorch's dispatcher to be seen."""
    if torch.compiler.is_compiling():
        return True
    for x in tensors:  # any() would call a generator
        if type(x) not in PLAIN:
            return True
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None


def transformed() -> bool:
    """Whether ``torch.func`` or forward-mode derivatives look on, which see into no kernel."""
    if torch.compiler.is_compiling():
        return False
    return (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )


def wants_gradient(tensors: Iterable[Tensor]) -> bool:
    """Whether autograd records a call with these arguments."""
    if torch.is_grad_enabled():
        for x in tensors:  # any() would call a generator
            if x.requires_grad:
                return True
    return False


def flat(x: Tensor, batch: torch.Size) -> Tensor:
    """``[..., N, H, D]`` as ``[B, N, H, D]`` or ``[N, H, D]``, broadcast to these dimensions.

    In a small call a view takes as long, forward and backward, as its numbers: there is none where
    there is nothing to flatten.
    """
    if x.shape[:-3] != batch:
        x = x.expand(*batch, *x.shape[-3:])
    return x.flatten(0, -4) if len(batch) > 1 else x


def unflat(x: Tensor, batch: torch.Size) -> Tensor:
    """A result with the leading dimensions of the call again."""
    return x.view(*batch, *x.shape[1:]) if len(batch) > 1 else x


def node_sizes(x: Tensor) -> Sequence[int]:
    """Members, nodes, heads and width of ``[B, N, H, D]`` or ``[N, H, D]``."""
    return x.shape if x.dim() == 4 else (1, *x.shape)


def refusals(problem: Problem, largest: int) -> list[str]:
    """What keeps every kernel from serving a problem in which this is the largest number."""
    reasons = []
    if problem.device.type != "cpu":
        reasons.append(f"its kernels run on the CPU, not on {problem.device.type}")
    if problem.dtype not in library.DTYPES:
        reasons.append(f"it has no kernels for {problem.dtype}")
    if largest >= LARGEST:
        reasons.append("it counts edges and nodes in 32 bits")
    if not problem.value_width:
        reasons.append("values of width 0 have no place in memory")
    if transformed():
        reasons.append("torch.func and forward-mode derivatives do not see into its kernels")
    if library.MISSING:
        reasons.append(library.MISSING)
    return reasons
