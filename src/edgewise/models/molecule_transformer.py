"""Molecule Transformer: attention of atoms along bonds, then attention pooling per molecule.

Formula: h_i' = h_i + Σ_j softmax_j(q_i·(k_j + W e_ij) / √D) (v_j + U e_ij), then a feed-forward
    network
Graph: the bonds; for the readout, edges from the atoms to their molecule
Score: ``Dot`` (scaled dot product), with bond features added to key and value
Normalisation: softmax over the bonds; layer norm before each sublayer
Update: residual connections; attention and sum pooling; an output head of ``global_attr``, too
Paper: Xiong et al., Pushing the boundaries of molecular representation (AttentiveFP), 2020
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_given
from edgewise._utils.errors import counted
from edgewise.attention.biases import Projected
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
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
from edgewise.models.arguments import model_factory

OR_WITHOUT = "pass this argument, or build the model with global_width=0 and descriptor_width=0"
SUM_SCALE = 1 / 16  # Scale of the sum over atoms: a typical molecule has 16 atoms.
SLOPE_SCALE = 0.1  # Factor of the initial weights of the last layers in the conditional head.


class BondLayer(GraphLayer):
    """Pre-norm Transformer layer with maps of bond features in keys and values."""

    reads_edge_attr = True

    def __init__(self, width: int, heads: int, edge_width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = TransformerLayer(
            width, heads, 2 * width, act="silu", order="pre", dropout=dropout
        )
        self.edge = nn.Parameter(torch.empty(2, heads, width // heads, edge_width))
        nn.init.normal_(self.edge, std=edge_width**-0.5)

    def forward(self, x: Tensor, graph: Pattern, edge_attr: Tensor) -> Tensor:
        """Return features ``[N, width]``, given x of this shape and bonds ``[E, edge_width]``."""
        edge_key = Projected(edge_attr, self.edge[0])
        edge_value = Projected(edge_attr, self.edge[1])
        out: Tensor = self.layer(x, graph, edge_key=edge_key, edge_value=edge_value)
        return out


class ConditionalHead(nn.Module):
    r"""Regression head for properties that depend almost linearly on the measurement conditions c.

    .. math:: y = a(z) + b(z) \cdot c + f([z; c])

    The slopes b are a vector shared by all molecules plus the output of a network; f is small at
    first. For example, the logit of the dissolved fraction is nearly linear in the logarithm of the
    pressure (Henry's law) and the temperature.
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
        self.condition_width, self.rest = condition_width, None
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
        """Return outputs ``[B, out_width]``."""
        if self.rest is None:
            intercept: Tensor = self.lines(z)
            return intercept
        expected = f"{counted(self.condition_width, 'condition')} per measurement"
        condition = check_given("global_attr", condition, expected, OR_WITHOUT)
        check_node_features(condition, self.condition_width, "global_attr", like=z)
        line = self.lines(z).unflatten(-1, (-1, 1 + condition.shape[-1]))
        intercept, slopes = line[..., 0], line[..., 1:]
        linear = intercept + (slopes * condition.unsqueeze(-2)).sum(-1)
        out: Tensor = linear + self.common(condition) + self.rest(torch.cat([z, condition], dim=-1))
        return out


class MoleculeTransformer(GraphLayer):
    """Transformer along the bonds of molecules, which predicts properties of molecules.

    Called as ``model(x, graph, edge_attr=..., batch=..., global_attr=..., descriptors=...)``.

    Args:
        in_width: number of features per atom.
        out_width: number of predicted properties per molecule.
        edge_width: number of features per bond.
        global_width: number of measurement conditions, such as the temperature (0 = none).
        descriptor_width: number of descriptors per molecule (0 = none).
        dropout: dropout probability; that of the descriptors is always 0.5.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.molecule_transformer(16, 1)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    reads_edge_attr = True

    def __init__(
        self,
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
    ) -> None:
        super().__init__()
        self.edge_width, self.descriptor_width = edge_width, descriptor_width
        self.embed = Linear(in_width, width)
        self.layers = nn.ModuleList(
            BondLayer(width, heads, edge_width, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

        # The readouts are attention pooling, sum pooling and, if given, the descriptors.
        readouts = 3 if descriptor_width else 2
        self.head = ConditionalHead(readouts * width, global_width, out_width, width, dropout)
        self.attention, self.sum = AttentionPool(width, heads), Pool("sum")
        self.describe = None
        if descriptor_width:
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
        """Return predicted properties ``[B, out_width]``. Bond features are ones by default.

        Raises:
            ArgumentError: the model has conditions or descriptors, and the argument is missing.
        """
        graph = bind_to_nodes(graph, x)
        members = members_of(x, batch)
        nodes = self.embed(x)
        edge_attr = given_or_ones(edge_attr, graph, self.edge_width, like=x)
        for layer in self.layers:
            nodes = layer(nodes, graph, edge_attr)
        nodes = self.norm(nodes)

        readouts = [self.attention(nodes, members), self.sum(nodes, members) * SUM_SCALE]
        if self.describe is not None:
            expected = "descriptors per molecule"
            descriptors = check_given("descriptors", descriptors, expected, OR_WITHOUT)
            check_node_features(descriptors, self.descriptor_width, "descriptors", like=x)
            readouts.append(self.describe(descriptors))
        out: Tensor = self.head(torch.cat(readouts, dim=-1), global_attr)
        return out


molecule_transformer = model_factory(
    MoleculeTransformer, depth=0, global_width=0, descriptor_width=0
)
