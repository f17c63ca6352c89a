"""Molecule transformer: atoms read along their bonds, and the molecule reads its atoms.

Formula: h_i' = h_i + Σ_j softmax_j(q_i·(k_j + W e_ij)) (v_j + U e_ij), then a feed-forward network
Graph: the bonds; then the graph of membership, in which each output reads the atoms of its molecule
Score: Dot (scaled), with the bond's vector in key and value
Normalisation: softmax over the bonds; layer norm before each sublayer
Update: residuals; readout by attention, beside the sum of the atoms; a head conditional on u
Paper: Xiong et al., Pushing the boundaries of molecular representation (AttentiveFP), 2020
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import check_given, checked
from edgewise.biases import Projected
from edgewise.checks import bind_to_nodes
from edgewise.graphs import Pattern
from edgewise.layers import (
    AttentionPool,
    GraphLayer,
    Linear,
    Membership,
    Pool,
    TransformerLayer,
    given_or_ones,
    members_of,
)
from edgewise.layers.sparse import check_node_features

OR_WITHOUT = "give them, or make the model without"
SUM_SCALE = 1 / 16  # of the sum over the atoms: molecules have about as many
SLOPE_SCALE = 0.1  # of the usual weights: how much slopes and f of the conditional head begin with


class BondLayer(GraphLayer):
    """A pre-norm Transformer layer that adds maps of the bonds' features to its key and value.

    The features stay the same from layer to layer, and their maps are never expanded to the edges.

    Args:
        width, heads: as in :class:`~edgewise.layers.TransformerLayer`; the feed-forward network is
            twice as wide inside.
        edge_width: of the bonds' features.
        dropout: as there.
    """

    reads_edge_attr = True

    def __init__(self, width: int, heads: int, edge_width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = TransformerLayer(
            width, heads, 2 * width, act="silu", order="pre", dropout=dropout
        )
        self.edge = nn.Parameter(torch.empty(2, heads, width // heads, edge_width))
        nn.init.normal_(self.edge, std=edge_width**-0.5)

    def forward(self, x: Tensor, graph: Pattern, edge_attr: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and bonds ``[E, edge_width]``."""
        edge_key = Projected(edge_attr, self.edge[0])
        edge_value = Projected(edge_attr, self.edge[1])
        out: Tensor = self.layer(x, graph, edge_key=edge_key, edge_value=edge_value)
        return out


class ConditionalHead(nn.Module):
    r"""Regression head for properties that are about linear in the conditions of the measurement.

    .. math:: y = a(z) + b(z) \cdot c + f([z; c])

    Intercept a and slopes b depend on the thing, f is what they leave; in the beginning things
    differ little, and learn to. So the logit of what dissolves responds to the logarithm of the
    pressure (Henry's law) and to the temperature, for things that were never seen, too. Without
    conditions a is all there is.

    Args:
        width: of z, the thing.
        condition_width: of c, the conditions; 0 for none.
        out_width: of y.
        hidden: of the networks a, b and f.
        dropout: inside of them.
    """

    def __init__(
        self, width: int, condition_width: int, out_width: int, hidden: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.lines = nn.Sequential(
            nn.Linear(width, hidden),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, out_width * (1 + condition_width)),
        )
        self.rest = None
        if condition_width:
            self.rest = nn.Sequential(
                nn.Linear(width + condition_width, hidden),
                nn.SiLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden, hidden),
                nn.SiLU(),
                nn.Linear(hidden, out_width),
            )
            self.common = nn.Linear(condition_width, out_width)
            for last in (self.lines[-1], self.rest[-1]):
                assert isinstance(last, nn.Linear)
                last.weight.data *= SLOPE_SCALE

    def forward(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """``[B, out_width]`` from z ``[B, width]`` and conditions ``[B, condition_width]``."""
        if self.rest is None:
            alone: Tensor = self.lines(z)
            return alone
        expected = f"{self.common.in_features} conditions of each measurement"
        condition = check_given("global_attr", condition, expected, OR_WITHOUT)
        check_node_features(condition, self.common.weight, "global_attr")
        line = self.lines(z).unflatten(-1, (-1, 1 + condition.shape[-1]))
        intercept, slopes = line[..., 0], line[..., 1:]
        own = intercept + (slopes * condition.unsqueeze(-2)).sum(-1)
        out: Tensor = own + self.common(condition) + self.rest(torch.cat([z, condition], dim=-1))
        return out


class MoleculeTransformer(GraphLayer):
    """Model built by :func:`molecule_transformer`."""

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int,
        global_width: int,
        descriptor_width: int,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.edge_width = edge_width
        self.embed = Linear(in_width, width)
        self.layers = nn.ModuleList(
            BondLayer(width, heads, edge_width, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

        readouts = 3 if descriptor_width else 2  # by attention, the sum, and the descriptors
        self.head = ConditionalHead(readouts * width, global_width, out_width, width, dropout)
        self.attention, self.sum = AttentionPool(width, heads), Pool("sum")
        self.describe = None
        if descriptor_width:  # half of the descriptors are left out in each step of training
            self.describe = nn.Sequential(
                nn.Dropout(0.5), nn.Linear(descriptor_width, width), nn.SiLU()
            )

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        global_attr: Tensor | None = None,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        """``[B, out_width]``.

        Args:
            x: atoms ``[N, in_width]``.
            graph: the bonds.
            edge_attr: features of the bonds ``[E, edge_width]``; ones where not given.
            batch: which atoms make up each of the B molecules; see :mod:`edgewise.models`.
            global_attr: conditions of the measurements ``[B, global_width]``.
            descriptors: of the molecules, ``[B, descriptor_width]``.

        Raises:
            ArgumentError: conditions or descriptors that the model was made for are missing.
        """
        graph = bind_to_nodes(graph, x)
        members = members_of(x, batch)
        edge_attr = given_or_ones(edge_attr, graph, self.edge_width, like=self.embed.weight)
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, graph, edge_attr)
        x = self.norm(x)

        readouts = [self.attention(x, members), self.sum(x, members) * SUM_SCALE]
        if self.describe is not None:
            expected = "descriptors of each molecule"
            descriptors = check_given("descriptors", descriptors, expected, OR_WITHOUT)
            linear = self.describe[1]
            assert isinstance(linear, nn.Linear)
            check_node_features(descriptors, linear.weight, "descriptors")
            readouts.append(self.describe(descriptors))
        out: Tensor = self.head(torch.cat(readouts, dim=-1), global_attr)
        return out


@checked(depth=0, global_width=0, descriptor_width=0)
def molecule_transformer(
    in_width: int,
    out_width: int,
    *,
    edge_width: int = 1,
    global_width: int = 0,
    descriptor_width: int = 0,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    dropout: float = 0.1,
) -> MoleculeTransformer:
    """Build a Transformer for molecular properties.

    Called as ``model(x, graph, edge_attr=..., batch=..., global_attr=..., descriptors=...)``.

    Args:
        in_width: number of features per atom.
        out_width: number of predicted properties per molecule.
        edge_width: number of features per bond.
        global_width: number of measurement conditions, such as the temperature (0 = none).
        descriptor_width: number of descriptors per molecule (0 = none).
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        dropout: dropout probability.
    """
    return MoleculeTransformer(
        in_width,
        out_width,
        edge_width=edge_width,
        global_width=global_width,
        descriptor_width=descriptor_width,
        width=width,
        depth=depth,
        heads=heads,
        dropout=dropout,
    )
