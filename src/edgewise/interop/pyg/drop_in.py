"""Base class of the PyG layers that aggregate with Edgewise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import HeteroLinear, Linear, MessagePassing

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import is_plain
from edgewise.attention.attend import Reduce, aggregate
from edgewise.graphs import Graph, incidence
from edgewise.interop.pyg.adjacency import EdgeShapeError, Size, coalesced, graph_of
from edgewise.layers.sparse import check_node_features

F = TypeVar("F", bound=Callable[..., Any])
Pair = tuple[Tensor, Tensor | None]
STEPS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
HOOKS = tuple(f"_{step}_forward{when}_hooks" for step in STEPS for when in ("_pre", ""))
REDUCTIONS: dict[str, Reduce] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
}


def or_pyg(forward: F) -> F:
    """Decorate ``forward``, so that PyG's code computes calls with masked messages or hooks, traced
    or exported calls, and those that raise ArgumentError, raised again if PyG fails too.
    """

    @functools.wraps(forward)
    def forward_or_pyg(self: DropIn, *args: Any, **kwargs: Any) -> Any:
        refusal: ArgumentError | None = None
        is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        if not (self._needs_pyg or is_traced or torch.compiler.is_exporting()):
            try:
                out = forward(self, *args, **kwargs)
            except ArgumentError as error:
                # Do not try PyG's code: on a GPU, an index out of range ends the process, one row
                # of edge features would stand for all edges, and unknown types are ignored.
                direct = ("edge_index", "edge_type", type(self).__name__)
                if isinstance(error, EdgeShapeError) or error.argument in direct:
                    raise
                refusal = error
            else:
                return out if self._network is None else self._network(out)
        try:
            args = tuple(map(coalesced, args))
            kwargs = {name: coalesced(value) for name, value in kwargs.items()}
            return _pyg_class(type(self)).forward(self, *args, **kwargs)
        except Exception as error:
            if refusal is None:
                raise
            raise refusal from error

    return cast(F, forward_or_pyg)


class DropIn(MessagePassing):  # type: ignore[misc]
    """Mixin that replaces the message passing of a PyG layer, which must be the next base class."""

    reductions: ClassVar[tuple[str, ...]] = tuple(REDUCTIONS)  # Supported values of ``aggr``.
    _network: nn.Module | None = None  # Network of the user, applied to the result of forward.

    @property
    def aggr(self) -> str:
        """Aggregation of messages, checked on assignment."""
        return self._aggr

    @aggr.setter
    def aggr(self, aggr: Any) -> None:
        if aggr not in self.reductions:
            raise ArgumentError(
                "aggr",
                expected=f"one of {', '.join(self.reductions)}",
                got=repr(aggr),
                remedy=f"use {_pyg_name(type(self))} for other values",
            )
        self._aggr: str = aggr

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """Do nothing: PyG's generated message-passing code is not used."""

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse ``torch.jit.script``, which calls this method."""
        raise ArgumentError(
            "module",
            expected=f"a module that TorchScript can compile, such as {_pyg_name(type(self))}",
            got=repr(self),
            remedy="use torch.compile, or script PyG's layer after loading the state dict into it",
        )

    @property
    def explain(self) -> bool | None:
        """True if PyG's ``Explainer`` masks the messages of this layer."""
        explain: bool | None = self._explain
        return explain

    @explain.setter
    def explain(self, explain: bool | None) -> None:
        MessagePassing.explain.fset(self, explain)
        self.__dict__.pop("propagate", None)  # PyG has replaced the method of this instance.

    @property
    def _needs_pyg(self) -> bool:
        """True if messages are masked or have hooks, or if a map whose weight is read is changed by
        a hook or a wrapper; if so, PyG's code computes the layer.
        """
        return bool(
            self.explain
            or any(getattr(self, name, None) for name in HOOKS)
            or not all(map(_is_unchanged, self._weighted_maps()))
        )

    def _weighted_maps(self) -> Iterable[nn.Module]:
        """Return the linear maps whose weights the layer reads instead of calling them."""
        return ()

    def propagate(self, edge_index: Tensor, size: Size = None, **features: Any) -> Tensor:
        """Compute a message for each edge, not by the code that PyG generates for its layers."""
        out: Tensor = MessagePassing.propagate(self, edge_index, **self._by_row(size, features))
        return out

    def edge_updater(self, edge_index: Tensor, size: Size = None, **features: Any) -> Tensor:
        """Compute the attention weight of each edge; see :meth:`propagate`."""
        out: Tensor = MessagePassing.edge_updater(self, edge_index, **self._by_row(size, features))
        return out

    def _by_row(self, size: Size, features: dict[str, Any]) -> dict[str, Any]:
        """Order pairs of sources and targets by the rows of ``edge_index``, for MessagePassing."""
        arguments = {"size": size, **features}
        if self._forwards:
            return arguments
        return {
            name: value[::-1] if isinstance(value, (tuple, list)) else value
            for name, value in arguments.items()
        }

    def _graph(self, adjacency: Tensor, pair: Pair, size: Size = None) -> Graph:
        """Return the graph from the source nodes ``pair[0]`` to the target nodes ``pair[1]``."""
        self._check_options(pair[0])
        return graph_of(adjacency, *pair, size, self._forwards)

    def _reduced(self, x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
        """Reduce ``weight * x`` over the sources of each target, in the dtype of this product."""
        if weight is not None:
            x = x.to(torch.promote_types(x.dtype, weight.dtype))
        reduce = REDUCTIONS[self.aggr]
        return aggregate(x.unsqueeze(-2), graph, weight=weight, reduce=reduce).squeeze(-2)

    def _reduced_messages(self, messages: Tensor, graph: Graph) -> Tensor:
        """Reduce messages ``[E, F]`` at their targets."""
        return self._reduced(messages, incidence(graph), None)

    @property
    def _forwards(self) -> bool:
        return bool(self.flow == "source_to_target")

    def _check_options(self, x: Tensor) -> None:
        options = ["decomposed_layers"] if self.decomposed_layers != 1 else []
        options += _overridden(type(self))
        if self.node_dim % x.dim() != x.dim() - 2:
            options.append(f"node_dim={self.node_dim} for x {list(x.shape)}")
        if options:
            raise ArgumentError(
                type(self).__name__,
                expected="no option that needs the individual message of each edge",
                got=", ".join(options),
                remedy=f"load the state dict into {_pyg_name(type(self))}",
            )


def as_pair(x: Tensor | Pair, *, batched: bool = False) -> Pair:
    """Return the features of sources and of targets; both are ``x`` if it is one tensor."""
    pair = (x, x) if isinstance(x, Tensor) else x
    if (
        isinstance(pair, (tuple, list))
        and len(pair) == 2
        and _has_rows(pair[0], batched)
        and (pair[1] is None or _has_rows(pair[1], batched))
    ):
        return pair[0], pair[1]
    raise ArgumentError(
        "x",
        expected=f"features [{'..., ' * batched}N, F] in floating point, or a pair: those of "
        "sources and those of targets",
        got=", ".join(map(describe, x)) if isinstance(x, tuple) else describe(x),
        remedy="convert the features to a tensor with one row per node",
    )


def _has_rows(x: Any, batched: bool) -> bool:
    return (
        isinstance(x, Tensor)
        and x.layout is torch.strided
        and x.is_floating_point()
        and (x.dim() == 2 or (batched and x.dim() > 2))
    )


def _is_unchanged(linear: nn.Module) -> bool:
    # PyG's linear maps of unknown width have a hook that makes the weight.
    return isinstance(getattr(linear, "weight", None), UninitializedParameter) or any(
        is_plain(linear, kind) for kind in (Linear, HeteroLinear)
    )


def projected(linear: nn.Module, x: Tensor, argument: str = "x") -> Tensor:
    """Return ``linear(x)``; raise ArgumentError if x has another width or dtype than its weight."""
    weight = getattr(linear, "weight", None)  # Wrappers have none.
    if isinstance(weight, Tensor) and not isinstance(weight, UninitializedParameter):
        check_node_features(x, weight.shape[1], argument, like=weight)
    out: Tensor = linear(x)
    return out


def _pyg_class(layer: type) -> Any:
    """Return the PyG layer that a class replaces."""
    return next(base for base in layer.__mro__ if base.__module__.startswith("torch_geometric."))


def _pyg_name(layer: type) -> str:
    return f"torch_geometric.nn.{_pyg_class(layer).__name__}"


def _overridden(layer: type) -> list[str]:
    """Return the message-passing steps that a subclass overrides."""
    drop_in = next(base for base in layer.__mro__ if base.__module__.startswith(__package__ or ""))
    steps = (*STEPS, "update", "edge_updater")
    return [step for step in steps if getattr(layer, step) is not getattr(drop_in, step)]
