"""Tables in plain text, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from edgewise._utils.digits import rounded
from edgewise._utils.errors import printable_line
from edgewise.app.runs.comparison import Comparison, Outcome

Measured = Literal["val", "test"]
"""Split whose metrics a comparison shows: "val" to choose a value, "test" to report results."""


def table(rows: Sequence[Sequence[str]], *, header: bool = True, left: int = 1) -> str:
    """Return rows of cells as text with aligned columns.

    Args:
        rows: cells of each row.
        header: whether the first row is a header, which is underlined.
        left: number of left-aligned columns; the columns after them are right-aligned.
    """
    rows = [[printable_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    if header:
        lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def metrics_table(metrics: Mapping[str, Any]) -> str:
    """Return metrics as a text table; for several seeds or folds, mean ± standard deviation."""
    rows = []
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            with_std = f"± {rounded(value['std'])}  ({len(value['values'])} runs)"
            if "ensemble" in value:
                with_std += f"  ensemble {rounded(value['ensemble'])}"
            rows.append([name, rounded(value["mean"]), with_std])
        else:
            rows.append([name, rounded(value) if isinstance(value, float) else str(value), ""])
    return table(rows, header=False)


def measured(found: Comparison, split: Measured) -> list[str]:
    """Return the names of the metrics of a comparison, with the loss last.

    Args:
        found: the comparison.
        split: split on which the metrics were computed, such as "val".
    """
    names = [name for name in found.outcomes[0].metrics[0] if name.startswith(f"{split}/")]
    return sorted(names, key=f"{split}/loss".__eq__)


def comparison_rows(found: Comparison, split: Measured = "val") -> list[list[str]]:
    """Return the table of a comparison: a header, and one row for each value of the field.

    Args:
        found: the comparison.
        split: split whose metrics are shown.
    """
    graphs = any(outcome.graph is not None for outcome in found.outcomes)
    names = measured(found, split)
    header = [found.field.rpartition(".")[2], *["edges per token"] * graphs]
    rows = [[*header, *(name.replace("/", " ") for name in names), "seconds"]]
    for outcome in found.outcomes:
        edges = outcome.edges_per_token
        row = [outcome.label, *["" if edges is None else f"{edges:.2f}"] * graphs]
        row += [shown_metric(outcome, name) for name in names]
        rows.append([*row, f"{sum(outcome.values('seconds')):.1f}"])
    return rows


def comparison_table(found: Comparison, split: Measured = "val") -> str:
    """Return the table of a comparison as text.

    Args:
        found: the comparison.
        split: split whose metrics are shown; for "val", the text also names the best value.
    """
    rows = table(comparison_rows(found, split))
    if split == "test":
        return rows
    return f"{rows}\n\nbest by {found.recipe.trainer.monitor}: {found.best.label}"


def shown_metric(outcome: Outcome, name: str) -> str:
    """Return the mean of a metric over the seeds as text; with several seeds, mean ± std.

    Args:
        outcome: runs with one value of the compared field.
        name: name of the metric, such as "val/loss".
    """
    mean, std = outcome.mean(name), outcome.std(name)
    several = len(outcome.runs) > 1
    if name.endswith("accuracy"):
        return f"{100 * mean:.1f}{f' ± {100 * std:.1f}' * several} %"
    return f"{rounded(mean)}{f' ± {rounded(std)}' * several}"
