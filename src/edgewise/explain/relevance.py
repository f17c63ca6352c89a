r"""Gradient × input of members, and AttnLRP (Achtibat et al., 2024) as a modified gradient.

Layer-wise relevance propagation is gradient × input with a modified gradient. With relevance
:math:`R_x = x \, g_x` and the gradient g of the score, the rules of AttnLRP are:

* linear map, ε-rule with ε → 0: :math:`g_x = W^\top g_y`, as without rules.
* activation y = f(x) with f(0) = 0, identity rule :math:`R_x = R_y`: :math:`g_x = g_y f(x) / x`.
* norm, identity rule: the standard deviation is a constant.
* softmax, Taylor expansion: the gradient, as without rules.
* product of two terms, uniform rule: :math:`g_x = \tfrac12 y \, g_{xy}`. Attention has two:
  of query and key, and of weights and values.

The rules change the backward pass only, so they hold for every model, graph and engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from edgewise.attention.hooks import ACTIVE, Interceptor, nodes_of
from edgewise.attention.scores import Additive
from edgewise.explain.calls import is_degree

if TYPE_CHECKING:
    from edgewise.explain.attribution import Case

TINY = 1e-6
ACTIVATIONS = {
    *(F.relu, F.gelu, F.silu, F.elu, F.leaky_relu, F.mish, F.hardswish, F.tanh, F.normalize),
    *(F.rms_norm, torch.relu, torch.tanh, Tensor.relu, Tensor.tanh),
}
"""Functions with f(0) = 0, for the identity rule of each element."""
PRODUCTS = {
    *(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
    *(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum),
}
QUOTIENTS = {torch.div, Tensor.div, Tensor.__truediv__, torch.true_divide}


class Inputs(TorchFunctionMode):
    """Function mode that replaces the inputs of members by leaves of autograd, times ``scale``.

    Inputs are the tensors ``[..., N, D]`` with a row for each node of the case that depend on no
    other input: features, and embeddings of tokens. Parameters become constants.
    """

    def __init__(self, case: Case, scale: float = 1.0) -> None:
        super().__init__()
        self.rows, self.scale = len(case.member), scale
        self._inputs: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._parameters: dict[int, Tensor] = {}

    @property
    def leaves(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of an input and the leaf that replaces it."""
        return [(x, leaf) for x, leaf, _ in self._inputs.values()]

    def rule(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function of PyTorch; subclasses change its gradient."""
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled():
            return func(*args, **kwargs)
        tensors = [x for x in _flat((args, kwargs)) if isinstance(x, Tensor)]
        out = self.rule(func, _mapped(self._input, args), _mapped(self._input, kwargs))
        if isinstance(out, Tensor) and tensors and all(map(self._is_parameter, tensors)):
            self._parameters[id(out)] = out
        return out

    def _is_parameter(self, x: Tensor) -> bool:
        """Return whether a tensor is a parameter, or is computed from parameters only."""
        return isinstance(x, nn.Parameter) or id(x) in self._parameters

    def _input(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or x.layout is not torch.strided:
            return x
        if isinstance(x, nn.Parameter):
            return x.detach()
        if id(x) in self._inputs:
            return self._inputs[id(x)][2]
        is_input = x.is_floating_point() and x.dim() > 1 and x.shape[-2] == self.rows
        if not is_input or x.requires_grad or self._is_parameter(x):
            return x
        leaf = (self.scale * x).requires_grad_()
        self._inputs[id(x)] = x, leaf, leaf.clone()  # A leaf cannot be changed in place.
        return self._inputs[id(x)][2]


class Relevance(Inputs, Interceptor):
    """Function mode and interceptor that replace gradients by those of AttnLRP."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self not in ACTIVE.get():  # An engine computes a call, whose rules are applied already.
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def rule(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the output of a function, whose gradient is that of AttnLRP."""
        if func in ACTIVATIONS:
            return _identity(func, *args, **kwargs)
        if func is F.layer_norm:
            return _layer_norm(*args, **kwargs)
        if func in PRODUCTS:
            count = sum(isinstance(x, Tensor) and x.requires_grad for x in _flat(args))
            return func(*_mapped(lambda x: _scaled(x, 1 / max(count, 1)), args), **kwargs)
        if func in QUOTIENTS:
            return func(args[0], *_mapped(_constant, args[1:]), **kwargs)
        if func in (torch.rsqrt, Tensor.rsqrt):  # norms written as x · rsqrt(variance)
            return func(*args, **kwargs).detach()
        return func(*args, **kwargs)

    def changed(self, call: Any, graph: Any) -> tuple[Any, Any]:
        return _shared(call), graph

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        if weight is not None and weight.requires_grad and value.requires_grad:
            value, weight = _scaled(value, 0.5), _scaled(weight, 0.5)
        return compute(value, weight, graph, reduce)


class ScaledMessages(Interceptor):
    """Interceptor that multiplies every message between nodes by a number."""

    def __init__(self, case: Case, scale: float) -> None:
        self.case, self.scale = case, scale

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        return self._factor(graph) * compute(call, graph)

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        out, lse = compute(call, graph)
        return self._factor(graph) * out, lse

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        out = compute(value, weight, graph, reduce)
        return out if is_degree(value, weight) else self._factor(graph) * out

    def _factor(self, graph: Any) -> float:
        return 1.0 if self.case.members(nodes_of(graph).sizes[1]) is None else self.scale


def _shared(call: Any) -> Any:
    """Return a call in which each factor of a product gets an equal part of the relevance.

    Weights and values get half each, or values all if the weights do not depend on the inputs. The
    half of the weights is that of their scores, in which query, key and gain are factors.
    """
    biases, gain = call.bias, call.gain
    gains = isinstance(gain, Tensor) and gain.requires_grad
    is_fixed = call.score is None and not (isinstance(biases, Tensor) and biases.requires_grad)
    weights = 0.0 if is_fixed else 0.5
    score = weights / (gains + (1 if isinstance(call.score, Additive) else 2))
    return replace(
        call,
        query=_scaled(call.query, score),
        key=_scaled(call.key, score),
        value=_scaled(call.value, 1 - weights),
        gain=_scaled(gain, score),
        bias=_scaled(biases, weights),
        edge_key=_scaled(call.edge_key, score),
        edge_value=_scaled(call.edge_value, 1 - weights),
    )


def _scaled(x: Any, factor: float) -> Any:
    """Return a tensor whose gradient is multiplied by a factor; other objects unchanged."""
    if factor == 1.0 or not (isinstance(x, Tensor) and x.requires_grad):
        return x
    x = x.view_as(x)
    x.register_hook(lambda gradient: factor * gradient)
    return x


def _identity(func: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return f(x) = x · (f(x) / x) with the second factor constant."""
    kwargs.pop("inplace", None)
    nonzero = torch.where(x.abs() < TINY, TINY, x).detach()
    return x * (func(nonzero, *args, **kwargs) / nonzero)


def _layer_norm(
    x: Tensor,
    shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return layer norm with the standard deviation constant."""
    dims = tuple(range(-len(shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    out = centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt().detach()
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _constant(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def _mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """Return nested tuples, lists and dicts with each entry changed."""
    if type(x) in (tuple, list):
        return type(x)(_mapped(change, entry) for entry in x)
    if type(x) is dict:
        return {name: _mapped(change, entry) for name, entry in x.items()}
    return change(x)


def _flat(x: Any) -> Iterator[Any]:
    """Yield the entries of nested tuples, lists and dicts."""
    if isinstance(x, (tuple, list, dict)):
        for entry in x.values() if isinstance(x, dict) else x:
            yield from _flat(entry)
    else:
        yield x
