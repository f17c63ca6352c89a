"""Swin Transformer: attention in windows of patches, shifted in every second layer.

Formula: patches; stages of layers in windows; between stages 2 × 2 patches become one, W norm(x);
    norm; mean; classify
Graph: each patch reads its window; in every second layer the windows are shifted by half of one
Score: Dot (scaled), full projections, and a bias by the offset of row and column
Normalisation: softmax over the neighbourhood; layer norm first
Update: residual, then a feed-forward network with a residual of its own
Encoding: relative, a table of biases by 2-D offset in each layer
Paper: Liu et al., Swin Transformer: hierarchical vision Transformer using shifted windows, 2021
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from edgewise.arguments import check_count, check_divides, checked
from edgewise.biases import OffsetBias, Offsets
from edgewise.dispatch_modes import disable_modes
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, batch, complete
from edgewise.layers import PatchEmbedding, Pool, TransformerLayer
from edgewise.layers.transformer import Norm


@checked()
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
    feed_forward_ratio: int = 4,
    act: str = "gelu",
    epsilon: float = 1e-5,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Class scores of images; called ``model(images [B, channels, height, width])``.

    Args:
        image_size: height and width, or both in one.
        channels: C.
        out_width: how many classes.
        patch: side of a patch in pixels.
        width: of the features of the first stage; twice as wide in each further one.
        depths: the layers of each stage.
        heads: the heads of the first stage, of which each further one has twice as many; or those
            of each.
        window: side of a window in patches; where a stage has fewer, all of them are one window.
        feed_forward_ratio: how many times as wide as the features the feed-forward network is.
        act: the non-linearity.
        epsilon: of the layer norms in the layers and of the last; the others' is 1e-5.
        dropout: on attention weights, hidden features and both sublayers' outputs.

    Raises:
        ArgumentError: patches that windows do not divide, or that cannot be merged 2 × 2.
    """
    for depth in depths:
        check_count("depths", depth, 1, "choose a larger one")
    counts = [heads << stage for stage in range(len(depths))] if isinstance(heads, int) else heads
    if len(depths) != len(counts) or not depths:
        raise ArgumentError(
            "depths, heads",
            expected="a number of each for every stage",
            got=f"{len(depths)} and {len(counts)}",
            remedy="write depths=(2, 2, 6, 2) and heads=(3, 6, 12, 24), say",
        )
    patches = PatchEmbedding(image_size, patch, channels, width)
    norm = partial(nn.LayerNorm, eps=epsilon)
    layers: list[nn.Module] = [patches, nn.LayerNorm(width), nn.Dropout(dropout)]
    (rows, columns), last = patches.grid, len(depths) - 1
    for stage, (depth, count) in enumerate(zip(depths, counts, strict=True)):
        for number in range(depth):
            grid = ShiftedWindows(rows, columns, window, shifted=number % 2 == 1)
            layers.append(
                WindowedLayer(
                    width,
                    count,
                    feed_forward_ratio * width,
                    grid,
                    act=act,
                    norm=norm,
                    dropout=dropout,
                )
            )
        if stage < last:
            layers.append(Merge(rows, columns, width))
            rows, columns, width = rows // 2, columns // 2, 2 * width
    model = nn.Sequential(*layers, norm(width), Pool("mean"), nn.Linear(width, out_width))
    return _initialised(model)


class ShiftedWindows:
    """Which window each patch of a grid is in, and the patches window by window.

    Windows that are shifted begin half a window earlier, so that those at the border are smaller:
    what the paper does by rolling the image and masking what comes round.

    Args:
        rows, columns: of the grid.
        window: side of a window, a divisor of both or larger than one of them.
        shifted: whether they are.

    Attributes:
        order: ``[N]``, the patches in raster order, window after window.
        back: the place of each patch in that order.
        sizes: how many patches each window has.
        offsets: of each edge of the packed windows the class of its 2-D offset.
        side: of a window.
    """

    def __init__(self, rows: int, columns: int, window: int, *, shifted: bool) -> None:
        self.side = min(window, rows, columns)
        for count, what in ((rows, "the rows of patches"), (columns, "the columns of patches")):
            check_divides("window", self.side, count, what, "choose another window or image size")
        ahead = self.side // 2 if shifted and self.side < min(rows, columns) else 0
        with disable_modes():  # these numbers are not the model's, which may be on meta
            row, column = (torch.arange(count) for count in (rows, columns))
            across = columns // self.side + 1
            first, second = (
                torch.div(x + self.side - ahead, self.side, rounding_mode="floor")
                for x in (row, column)
            )
            number = (first[:, None] * (across + 1) + second).flatten()
            self.order = number.argsort(stable=True)
            self.back = self.order.argsort()
            self.sizes: list[int] = number.unique(return_counts=True)[1].tolist()
            # Of a place (row, column) in its window the number row · (2 · side - 1) + column: of
            # these the differences are as many as there are offsets.
            inner = [(x + self.side - ahead) % self.side for x in (row, column)]
            number = (inner[0][:, None] * (2 * self.side - 1) + inner[1]).flatten()[self.order]
            most = 2 * self.side * (self.side - 1)
            classes = torch.arange(2 * most, -1, -1)
            self.offsets = Offsets(number - most, number, classes, self.graph)

    @property
    def graph(self) -> Graph:
        """The windows side by side, in each of which all read all."""
        return batch(complete(), self.sizes)


class WindowedLayer(nn.Module):
    """A Transformer layer in which each patch reads its window, with a bias by 2-D offset.

    Args:
        width, heads, feed_forward, act, norm, dropout: as in
            :class:`~edgewise.layers.TransformerLayer`.
        windows: who is in which window.
    """

    order: Tensor
    back: Tensor

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        windows: ShiftedWindows,
        *,
        act: str = "gelu",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer = TransformerLayer(
            width, heads, feed_forward, act=act, order="pre", norm=norm, dropout=dropout
        )
        self.table = nn.Parameter(torch.empty((2 * windows.side - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.offsets = windows.offsets
        for name in ("order", "back"):  # which follow from the sizes, and are not saved
            numbers = getattr(windows, name).to(torch.get_default_device())
            self.register_buffer(name, numbers, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, N, width]`` from x of that shape, in raster order."""
        offsets = self.offsets.to(x.device)
        bias = OffsetBias(offsets, self.table)
        x = self.layer(x[:, self.order], offsets.graph, bias=bias)
        return x[:, self.back]


class Merge(nn.Module):
    """Four neighbouring patches as one, twice as wide: W norm([x₀₀; x₁₀; x₀₁; x₁₁]).

    Args:
        rows, columns: of the grid that is read.
        width: of the features that are read.
    """

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
        """``[B, rows · columns / 4, 2 · width]`` from ``[B, rows · columns, width]``."""
        x = x.unflatten(1, (self.rows // 2, 2, self.columns // 2, 2))
        four = x.permute(0, 1, 3, 4, 2, 5).flatten(3).flatten(1, 2)
        out: Tensor = self.reduce(self.norm(four))
        return out


def _initialised(model: nn.Sequential) -> nn.Sequential:
    """As in the paper's code: matrices truncated normal, biases 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
