"""Output of all commands: lines and tables, with control characters escaped."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from edgewise._utils.digits import rounded
from edgewise._utils.errors import printable, printable_line

if TYPE_CHECKING:  # These modules import PyTorch, for which --help should not wait.
    from edgewise.app.runs.comparison import Comparison, Outcome


def say(text: object, *, flush: bool = False) -> None:
    """Print a text on the standard output stream."""
    print(printable(text), flush=flush)


def warn(text: object) -> None:
    """Print one line on the standard error stream, after the name of the program."""
    print(f"edgewise: {printable_line(text)}", file=sys.stderr, flush=True)


Measured = Literal["val", "test"]
"""Split whose metrics a comparison shows: "val" to choose a value, "test" to report results."""


def table(rows: Sequence[Sequence[str]], *, header: bool = True, left: int = 1) -> str:
    """Return aligned rows as text, with ``left`` left-aligned columns and an underlined header."""
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


def measured(comparison: Comparison, split: Measured) -> list[str]:
    """Return the names of the metrics of a comparison on a split, with the loss last."""
    names = [name for name in comparison.outcomes[0].metrics[0] if name.startswith(f"{split}/")]
    return sorted(names, key=f"{split}/loss".__eq__)


def comparison_rows(comparison: Comparison, split: Measured = "val") -> list[list[str]]:
    """Return the table of a comparison: a header, and one row for each value of the field."""
    graphs = any(outcome.graph is not None for outcome in comparison.outcomes)
    names = measured(comparison, split)
    header = [comparison.field.rpartition(".")[2], *["edges per token"] * graphs]
    rows = [[*header, *(name.replace("/", " ") for name in names), "seconds"]]
    for outcome in comparison.outcomes:
        edges = outcome.edges_per_token
        row = [outcome.label, *["" if edges is None else f"{edges:.2f}"] * graphs]
        row += [shown_metric(outcome, name) for name in names]
        rows.append([*row, f"{sum(outcome.values('seconds')):.1f}"])
    return rows


def comparison_table(comparison: Comparison, split: Measured = "val") -> str:
    """Return the table of a comparison as text; for "val", the text names the best value."""
    rows = table(comparison_rows(comparison, split))
    if split == "test":
        return rows
    return f"{rows}\n\nbest by {comparison.recipe.trainer.monitor}: {comparison.best.label}"


def shown_metric(outcome: Outcome, name: str) -> str:
    """Return the mean of a metric over the seeds as text; with several seeds, mean ± std."""
    mean, std = outcome.mean(name), outcome.std(name)
    several = len(outcome.runs) > 1
    if name.endswith("accuracy"):
        return f"{100 * mean:.1f}{f' ± {100 * std:.1f}' * several} %"
    return f"{rounded(mean)}{f' ± {rounded(std)}' * several}"
