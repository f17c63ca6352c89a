"""A call of the primitive as a value: the same for the oracle, and for every engine.

Declared in ``cases.py``, drawn at random in ``tests/fuzz/cases.py``; ``checks.py`` has what must
hold of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import edgewise as ew
from edgewise.engines.call import ACCUMULATORS
from edgewise.graphs import Graph, Pattern
from tests.engines import oracle
from tests.engines.arithmetic import Array
from tests.graphs.specification import Matrix


@dataclass(frozen=True)
class Leaf:
    """A tensor that is given, and its numbers in float64."""

    tensor: Tensor
    exact: Array


@dataclass(frozen=True)
class GivenGraph:
    """A graph or a pattern, its sizes, and what it means where that is known apart from it."""

    text: str
    given: Pattern
    graph: Graph
    matrix: Matrix = None


@dataclass
class Case:
    """One call. ``leaves`` are the float tensors in it by name; gradients are asked of ``wanted``.

    ``poison`` names a leaf and a number that is put at one of its places: (leaf, number, place).
    """

    seed: int
    number: int
    operation: str
    over: GivenGraph
    dtype: torch.dtype
    batch: tuple[int, ...]
    heads: int
    score: oracle.Score
    reduce: str = "sum"
    dropout: float = 0.0
    lse: bool = False
    threads: bool = False
    meta: bool = False
    poison: tuple[str, float, tuple[int, ...]] | None = None
    chosen: NDArray[np.int64] | None = None
    default_score: bool = False
    leaves: dict[str, Leaf] = field(default_factory=dict)
    indices: dict[str, Tensor] = field(default_factory=dict)
    alpha: tuple[float, ...] = ()
    """Of α-entmax in the place of softmax, one number or one a head; a leaf "alpha" is learned."""
    heads_first: bool = False
    """Whether nodes are given, and returned, with ``layout="HND"``."""
    context: str = ""
    """``"autocast"`` or ``"inference"``, in which the call is made once more."""
    places: tuple[Tensor, Tensor] | None = None
    """Of targets and sources, where the bias is by offset and its index is of offsets."""
    wanted: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return next(iter(self.leaves.values())).tensor.device

    def on(self, device: torch.device) -> Case:
        """The same call on a device; what the oracle reads stays where it is."""
        if device == self.device:
            return self
        given = self.over.graph.to(device)
        leaves = {name: Leaf(x.tensor.to(device), x.exact) for name, x in self.leaves.items()}
        indices = {name: index.to(device) for name, index in self.indices.items()}
        places = self.places and (self.places[0].to(device), self.places[1].to(device))
        over = replace(self.over, given=given)
        return replace(self, over=over, leaves=leaves, indices=indices, places=places)

    @property
    def terms(self) -> list[str]:
        """What the call has, for the count."""
        given = {name.split(".")[0] for name in self.leaves} - {"query", "key", "value"}
        more = ["dropout"] * bool(self.dropout) + ["lse"] * self.lse
        more += ["table"] * bool(self.indices) + ["batch"] * bool(self.batch)
        more += ["entmax"] * bool(self.alpha)
        more += ["HND"] * self.heads_first + [self.context] * bool(self.context)
        more += [f"{self.poison[1]} in {self.poison[0]}"] if self.poison else []
        more += ["offsets"] * bool(self.places) + ["grouped"] * self.is_grouped
        more += ["projected"] * any(name.endswith(".features") for name in self.leaves)
        return sorted(given) + more + [f"score {self.score.name}"]

    @property
    def is_grouped(self) -> bool:
        """Whether several heads of queries read one of keys."""
        return "key" in self.leaves and self.leaves["key"].exact.shape[-2] < self.heads

    def __str__(self) -> str:
        shapes = ", ".join(
            f"{name} {str(x.tensor.dtype)[6:]} {list(x.tensor.shape)}"
            for name, x in self.leaves.items()
        )
        score = f"{self.score.name} scale={self.score.scale:.3g} slope={self.score.slope:.3g}"
        rest = {
            "reduce": self.reduce if self.operation == "aggregate" else None,
            "dropout": self.dropout or None,
            "lse": self.lse or None,
            "poison": self.poison,
            "gradients": self.wanted,
            "index": {k: str(v.dtype) for k, v in self.indices.items()} or None,
            "alpha": self.alpha or None,
            "layout": "HND" if self.heads_first else None,
            "context": self.context or None,
            "notes": self.notes or None,
        }
        shown = ", ".join(f"{k}={v}" for k, v in rest.items() if v is not None)
        return f"{self.operation} over {self.over.text}: {score}; {shapes}; {shown}"

    def options(self, leaves: dict[str, Tensor]) -> dict[str, Any]:
        """The keyword arguments of ``attend`` that these leaves make."""
        made: dict[str, Any] = {}
        if not self.default_score:
            made["score"] = self._score(leaves)
        for name in ("bias", "gain"):
            if name == "bias" and self.places is not None:
                given = self.over.given
                graph = given if isinstance(given, Graph) else self.over.graph
                offsets = ew.Offsets(*self.places, self.indices[name], graph)
                made[name] = ew.OffsetBias(offsets, leaves["bias.table"])
            elif name in self.indices:
                made[name] = ew.TableBias(self.indices[name], leaves[f"{name}.table"])
            elif name in leaves:
                made[name] = leaves[name]
        for name in ("edge_key", "edge_value"):
            if f"{name}.features" in leaves:
                pair = leaves[f"{name}.features"], leaves[f"{name}.weight"]
                made[name] = ew.Projected(*pair)
            elif name in leaves:
                made[name] = leaves[name]
        if self.dropout:
            made["dropout"] = self.dropout
        if self.alpha:
            query = leaves["query"]
            one: Any = leaves.get("alpha")
            if one is not None:
                return {**made, "normaliser": ew.Entmax(one)}
            one = (
                self.alpha[0]
                if len(self.alpha) == 1
                else torch.tensor(self.alpha, dtype=ACCUMULATORS[query.dtype], device=query.device)
            )
            names = {1.5: "entmax", 2.0: "sparsemax"}
            made["normaliser"] = names.get(one) if one in names else ew.Entmax(one)
        return made

    def _score(self, leaves: dict[str, Tensor]) -> Any:
        if self.score.name == "none":
            return None
        if self.score.name == "dot":
            return ew.Dot(self.score.scale)
        if self.score.name == "own":
            return own_score
        slope = self.score.slope
        return ew.Additive(self.score.name, leaves.get("score.weight"), negative_slope=slope)

    def call(
        self, kept: Array | None = None, changed: dict[str, Array] | None = None
    ) -> oracle.Call:
        """The same for the oracle, with other numbers for the leaves in ``changed``."""
        exact = {name: x.exact for name, x in self.leaves.items()} | (changed or {})
        graph = self.over.graph
        source, target = graph.edge_index.numpy()
        given: dict[str, Any] = {name: exact.get(name) for name in ("query", "key", "value")}
        for name in ("bias", "gain"):
            given[name] = exact.get(name)
            if name in self.indices:
                index = self.indices[name].cpu().numpy().astype(np.int64)
                if name == "bias" and self.places is not None:
                    targets, sources = (x.cpu().numpy() for x in self.places)
                    index = index[sources[source] - targets[target]]
                given[name] = oracle.Table(index, exact[f"{name}.table"])
        for name in ("edge_key", "edge_value"):
            given[name] = exact.get(name)
            if f"{name}.features" in exact:
                pair = exact[f"{name}.features"], exact[f"{name}.weight"]
                given[name] = oracle.Projection(*pair)
        score = self.score
        weight = exact.get("score.weight")
        return oracle.Call(
            source,
            target,
            graph.num_targets,
            graph.num_sources,
            self.heads,
            self.batch,
            oracle.Score(score.name, score.scale, score.slope, weight),
            alpha=np.broadcast_to(exact.get("alpha", self.alpha), self.heads)
            if self.alpha
            else None,
            kept=kept,
            **given,
        )


def own_score(query: Tensor, key: Tensor) -> Tensor:
    """A score that no engine knows."""
    return (query * key).sum(-1) + (query - key).tanh().sum(-1)


def laid_out(x: Tensor, how: str) -> Tensor:
    """The same numbers, otherwise in memory."""
    if how == "heads first" and x.dim() > 2:
        return x.transpose(-2, -3).contiguous().transpose(-2, -3)
    if how == "strided":
        wide = x.new_full((*x.shape, 2), torch.nan)
        wide[..., 0] = x
        return wide[..., 0]
    if how == "negative":
        return torch._neg_view(-x)
    if how == "reversed":
        order = tuple(reversed(range(x.dim())))
        return x.permute(order).contiguous().permute(order)
    if how == "shifted":
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    return x
