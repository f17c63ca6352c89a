"""Base class of the seven PyG layers that aggregate with Edgewise."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from torch import Tensor
from torch_geometric.nn import MessagePassing

from edgewise.attention import Reduce
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph
from edgewise.interop.pyg.adjacency import Size, graph_of

STEPS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
HOOKS = tuple(f"_{step}_forward{when}_hooks" for step in STEPS for when in ("_pre", ""))
REDUCTIONS: dict[str, Reduce] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
}


class DropIn(MessagePassing):  # type: ignore[misc]
    """Mixin that replaces the message passing of a PyG layer, which must be the next base class.

    Attributes:
        reductions: supported values of ``aggr``.
    """

    reductions: ClassVar[tuple[str, ...]] = tuple(REDUCTIONS)

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
                remedy=f"use {_original(type(self))} for other values",
            )
        self._aggr: str = aggr

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """Do nothing: PyG's generated message-passing code is not used."""

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse ``torch.jit.script``, which calls this method."""
        raise ArgumentError(
            "module",
            expected=f"a module that TorchScript can compile, such as {_original(type(self))}",
            got=repr(self),
            remedy="use torch.compile, or script PyG's layer after loading the state dict into it",
        )

    @property
    def _reduce(self) -> Reduce:
        """Return the ``reduce`` argument of :func:`edgewise.aggregate` for ``aggr``."""
        return REDUCTIONS[self.aggr]

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
    def _has_messages(self) -> bool:
        """True if messages are masked or have hooks; if so, PyG's code computes them."""
        return bool(self.explain or any(getattr(self, name, None) for name in HOOKS))

    def propagate(self, edge_index: Tensor, size: Size = None, **features: Any) -> Tensor:
        """Compute a message for each edge with PyG's code."""
        out: Tensor = MessagePassing.propagate(self, edge_index, size, **features)
        return out

    def _graph(
        self, adjacency: Tensor, pair: tuple[Tensor, Tensor | None], size: Size = None
    ) -> Graph:
        """Return the graph from the source nodes ``pair[0]`` to the target nodes ``pair[1]``.

        Raises:
            ArgumentError: an option needs the individual message of each edge.
        """
        self._refuse_what_needs_messages(pair[0])
        return graph_of(adjacency, *pair, size, self._forwards)

    @property
    def _forwards(self) -> bool:
        return bool(self.flow == "source_to_target")

    def _refuse_what_needs_messages(self, x: Tensor) -> None:
        asked = ["decomposed_layers"] if self.decomposed_layers != 1 else []
        asked += _overridden(type(self))
        if self.node_dim % x.dim() != x.dim() - 2:
            asked.append(f"node_dim={self.node_dim} for x {list(x.shape)}")
        if asked:
            raise ArgumentError(
                type(self).__name__,
                expected="no option that needs the individual message of each edge",
                got=", ".join(asked),
                remedy=f"load the state dict into {_original(type(self))}",
            )


def _original(layer: type) -> str:
    """Return the name of the PyG layer that a class replaces."""
    found = [base for base in layer.__mro__ if base.__module__.startswith("torch_geometric.")]
    return f"torch_geometric.nn.{found[0].__name__}"


def _overridden(layer: type) -> list[str]:
    """Return the message-passing steps that a subclass overrides."""
    ours = next(base for base in layer.__mro__ if base.__module__.startswith(__package__ or ""))
    steps = (*STEPS, "update", "edge_updater")
    return [step for step in steps if getattr(layer, step) is not getattr(ours, step)]
