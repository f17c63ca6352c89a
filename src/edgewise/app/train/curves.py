"""Figure of learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise._utils.errors import require
from edgewise.app.train.folder import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"train": "#9aa7b8", "val": "#1f6feb"}


def curves(rows: list[Row], best_epoch: int) -> Figure:
    """Return a figure of the training and validation metrics over epochs, a panel each."""
    require("matplotlib", extra="plot", purpose="drawing learning curves")
    from matplotlib.figure import Figure

    names = [key.removeprefix("val/") for key in rows[0] if key.startswith("val/")]
    names = [name for name in names if "/" not in name]
    figure = Figure(figsize=(4.6 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    epochs = [row["epoch"] for row in rows]
    for axes, name in zip(panels, names, strict=True):
        for split, colour in COLOURS.items():
            values = [row[f"{split}/{name}"] for row in rows]
            axes.plot(epochs, values, color=colour, label=split, linewidth=1.4, marker=".")
        axes.axvline(best_epoch, color="#d1495b", linewidth=0.9, linestyle=":", label="best epoch")
        axes.set_title(name, fontsize=10, loc="left")
        axes.set_xlabel("epoch", fontsize=8)
        axes.locator_params(axis="x", integer=True)  # Epochs are integers.
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    panels[0].legend(fontsize=8, frameon=False)
    return figure
