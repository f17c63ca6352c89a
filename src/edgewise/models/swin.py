"""Swin Transformer: attention in windows of patches, shifted in every second layer.

Formula: patches; stages of window attention, with 2 × 2 patches merged between stages; mean; linear
Graph: complete within each window; every second layer shifts the windows by half a window
Score: ``Dot`` (scaled dot product) plus a relative position bias
Normalisation: softmax over the neighbourhood; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network
Encoding: relative position bias, one table per layer
Paper: Liu et al., Swin Transformer: hierarchical vision Transformer using shifted windows, 2021
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides, check_range
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise.attention.biases import OffsetBias, Offsets
from edgewise.attention.hooks import Nodes, nodes_are
from edgewise.graphs import Graph, batch, complete
from edgewise.layers import PatchEmbedding, Pool, TransformerLayer
from edgewise.layers.transformer import Norm
from edgewise.models.arguments import model_function


@model_function()
def swin(
    image_size: int | tuple[int, int],
    channels: int,
    out_width: int,
    *,
    patch: int = 2,
    width: int = 32,
    depths: tuple[int, ...] = (2, 2),
    heads: int | tuple[int, ...] = 2,
    window: int = 4,
    ffn_ratio: int = 4,
    act: str = "gelu",
    epsilon: float = 1e-5,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Build a Swin Transformer.

    Called as ``model(images [B, channels, height, width])``.

    Args:
        width: hidden size of the first stage; each further stage doubles it.
        depths: number of layers of each stage.
        heads: number of heads of each stage, or of the first stage (each further stage doubles it).
        window: side of a window in patches, reduced to the shorter side of a smaller grid.
        ffn_ratio: FFN dimension divided by the hidden size.
        epsilon: epsilon of the layer norms in the layers and after the last layer (the other norms
            use 1e-5).
        dropout: dropout probability of attention weights, hidden features and sublayer outputs.

    Raises:
        ArgumentError: the window does not divide the grid of patches, or the grid cannot be merged
            2 × 2.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.swin(32, 3, 10)
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    for depth in depths:
        check_range("depths", depth, "choose a larger number", least=1, integer=True)
    if not isinstance(heads, Sequence):
        heads = tuple(heads << stage for stage in range(len(depths)))
    if len(depths) != len(heads) or not depths:
        raise ArgumentError(
            "depths, heads",
            expected="two tuples of equal length, with one number per stage",
            got=f"lengths {len(depths)} and {len(heads)}",
            remedy="choose for example depths=(2, 2, 6, 2) and heads=(3, 6, 12, 24)",
        )
    patches = PatchEmbedding(image_size, patch, channels, width)
    norm = partial(nn.LayerNorm, eps=epsilon)
    layers: list[nn.Module] = [patches, nn.LayerNorm(width), nn.Dropout(dropout)]
    rows, columns = patches.grid
    for stage, (depth, num_heads) in enumerate(zip(depths, heads, strict=True)):
        if stage > 0:
            layers.append(Merge(rows, columns, width))
            rows, columns, width = rows // 2, columns // 2, 2 * width
        for layer in range(depth):
            windows = ShiftedWindows(rows, columns, window, shifted=layer % 2 == 1)
            layers.append(
                WindowedLayer(
                    width,
                    num_heads,
                    ffn_ratio * width,
                    windows,
                    act=act,
                    norm=norm,
                    dropout=dropout,
                )
            )
    model = nn.Sequential(*layers, norm(width), Pool("mean"), nn.Linear(width, out_width))
    return _initialised(model)


class ShiftedWindows:
    """Partition of patches into windows, optionally shifted by half a window (the paper's cyclic
    shift with a mask): order ``[N]`` by window, its inverse, sizes and relative offsets.
    """

    def __init__(self, rows: int, columns: int, window: int, *, shifted: bool) -> None:
        side = self.side = min(window, rows, columns)
        for count, what in ((rows, "the number of rows"), (columns, "the number of columns")):
            check_divides("window", side, count, what, "choose another window or image size")
        shift = side // 2 if shifted and side < min(rows, columns) else 0
        # The indices are computed on the CPU even if the model is built on the meta device.
        with disable_modes():
            row = torch.arange(rows)[:, None] + side - shift
            column = torch.arange(columns) + side - shift
            windows_per_row = columns // side + 1  # Upper bound: the shift adds one window.
            window_index = (row // side * windows_per_row + column // side).flatten()
            self.order = window_index.argsort(stable=True)
            self.back = self.order.argsort()
            self.sizes: list[int] = window_index.unique(return_counts=True)[1].tolist()
            # With this numbering of the positions within a window, the difference of two positions
            # determines their offset in rows and columns: each coordinate is below side.
            position = (row % side * (2 * side - 1) + column % side).flatten()[self.order]
            max_position = 2 * side * (side - 1)
            relative_position_index = torch.arange(2 * max_position, -1, -1)
            self.offsets = Offsets(
                position - max_position, position, relative_position_index, self.graph
            )

    @property
    def graph(self) -> Graph:
        """Batch of complete graphs, one per window."""
        return batch(complete(), self.sizes)


class WindowedLayer(nn.Module):
    """Transformer layer with window attention and a relative position bias."""

    order: Tensor
    back: Tensor

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_dim: int,
        windows: ShiftedWindows,
        *,
        act: str = "gelu",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer = TransformerLayer(
            width, heads, ffn_dim, act=act, order="pre", norm=norm, dropout=dropout
        )
        self.table = nn.Parameter(torch.empty((2 * windows.side - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.offsets = windows.offsets
        # These buffers are not saved, because the grid determines them.
        for name in ("order", "back"):
            index = getattr(windows, name).to(torch.get_default_device())
            self.register_buffer(name, index, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features ``[B, N, width]`` from x of the same shape, in raster order."""
        offsets = self.offsets.to(x.device)
        bias = OffsetBias(offsets, self.table)
        sizes = len(self.order), len(self.order)
        with nodes_are(lambda: Nodes(sizes, self.order, self.order)):
            x = self.layer(x[:, self.order], offsets.graph, bias=bias)
        return x[:, self.back]


class Merge(nn.Module):
    """Patch merging: 2 × 2 patches become one patch of twice the hidden size."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        for count, what in ((rows, "rows"), (columns, "columns")):
            if count % 2:
                raise ArgumentError(
                    "depths",
                    expected=f"an even number of {what} of patches between two stages",
                    got=f"{count} {what}",
                    remedy="choose fewer stages or another image size",
                )
        self.rows, self.columns = rows, columns
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[B, rows · columns / 4, 2 · width]`` from x ``[B, rows · columns, width]``."""
        x = x.unflatten(1, (self.rows // 2, 2, self.columns // 2, 2))
        merged = x.permute(0, 1, 3, 4, 2, 5).flatten(3).flatten(1, 2)
        out: Tensor = self.reduce(self.norm(merged))
        return out


def _initialised(model: nn.Sequential) -> nn.Sequential:
    """Initialise linear layers as the authors' code does: truncated normal, biases 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
