"""Base class of models that add a positional encoding to node features, such as GPS and GRIT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, get_args

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, describe
from edgewise._utils.errors import ArgumentError
from edgewise.encodings import POSITIONS, RandomFeatures
from edgewise.graphs import Graph, Pattern
from edgewise.layers import (
    Dropout,
    GraphLayer,
    Linear,
    Membership,
    Pool,
    check_edge_attr,
    packed_graph,
    refuse_edge_attr,
)
from edgewise.layers.pooling import Pooling
from edgewise.models.magna import OutputPropagation

Position = Literal["random_walk", "laplacian", "sign_invariant", "distance", "random", "none"]


class GraphEncoder(GraphLayer):
    """Model of whole graphs or of nodes: embedding, layers, pooling and a two-layer output head.

    Subclasses define :meth:`transform`, which calls the layers.

    Attributes:
        accepts_leading_dims: whether x may be several inputs on the same graph, ``[..., N, F]``.

    Args:
        layers: layers of :meth:`transform`. A generator is read after the embedding is created.
        position: positional encoding: "random_walk", "laplacian", "sign_invariant" (of Laplacian
            eigenvectors, independent of their signs), "distance" (number of nodes at each
            distance), "random" (noise, sampled in every call) or "none".
        position_size: number of return probabilities, eigenvectors, distances or random numbers.
        pool: readout that pools node states to one vector per graph, such as "mean" or "sum";
            "none" gives one output per node.

    Raises:
        ArgumentError: ``output_hops`` is positive but ``pool`` is not "none", or a choice is
            unknown.
    """

    reads_edge_attr = True
    accepts_leading_dims = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        layers: Iterable[nn.Module],
        *,
        edge_width: int,
        position: Position,
        position_size: int,
        width: int,
        pool: Pooling,
        dropout: float,
        output_hops: int = 0,
    ) -> None:
        super().__init__()
        check_choice("position", position, get_args(Position))
        if output_hops and pool != "none":
            raise ArgumentError(
                "output_hops",
                expected='0, unless pool is "none"',
                got=f'{output_hops}, with pool="{pool}"',
                remedy='choose pool="none" for outputs per node, or output_hops=0',
            )
        self.edge_width = edge_width
        self.propagate = OutputPropagation(output_hops)
        self.input_dropout = Dropout(dropout)
        self.embed = Linear(in_width, width)
        self.position: Any = None
        if position != "none":
            self.position = POSITIONS[position](width, position_size)
        self.layers = nn.ModuleList(layers)
        self.pool = Pool(pool)
        self.head: nn.Module = nn.Sequential(
            nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, out_width)
        )

    def encodings(self) -> dict[str, nn.Module]:
        if self.position is None or isinstance(self.position, RandomFeatures):
            return {}
        return {"positions": self.position}

    def embed_with_positions(self, x: Tensor, graph: Graph, positions: Tensor | None) -> Tensor:
        """Return node embeddings ``[N, width]`` with the positional encoding added."""
        x = self.embed(self.input_dropout(x))
        if self.position is None:
            return x
        if positions is None:
            positions = self.position.code(graph)
        out: Tensor = self.position(x, positions)
        return out

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]``, or ``[N, out_width]`` with ``pool="none"``.

        ``positions`` is ``model.position.code(graph)``, if computed before.
        """
        if x.dim() > 2 and not self.accepts_leading_dims:
            raise ArgumentError(
                "x",
                expected="node features [N, F]",
                got=describe(x),
                remedy="pack the graphs: concatenate their nodes, and join their edges with "
                "graphs.batch",
            )
        graph = packed_graph(x, graph, batch)
        nodes = self.embed_with_positions(x, graph, positions)
        if self.reads_edge_attr:
            check_edge_attr(edge_attr, graph, self.edge_width, like=x)
        else:
            refuse_edge_attr(edge_attr)
        states = self.transform(nodes, graph, edge_attr)
        out: Tensor = self.output_head()(self.readout(states, graph, batch))
        out = self.propagate(out, graph)
        return out

    @abstractmethod
    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        """Apply all layers to node embeddings ``[N, width]``, and return states of this shape."""

    def readout(self, states: Tensor, graph: Graph, batch: Membership) -> Tensor:  # noqa: ARG002
        """Return one state for each output, from the states of :meth:`transform`."""
        out: Tensor = self.pool(states, batch)
        return out

    def output_head(self) -> nn.Module:
        """Return the module that maps states of :meth:`readout` to outputs."""
        return self.head
