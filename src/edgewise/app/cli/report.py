"""Report of ``edgewise compare``: a figure, and an HTML page that contains the figure."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from edgewise import __version__
from edgewise.app.cli.output import Measured, comparison_rows
from edgewise.app.cli.picture import picture
from edgewise.app.runs.comparison import Comparison
from edgewise.app.runs.recipe_fields import fields_of
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.parsing import as_typed

STYLE = """
:root { color-scheme: light; --ink: #16202c; --soft: #5b6b7d; --line: #dfe5ec; --mark: #1f6feb; }
body { margin: 0; background: #f6f8fa; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.05rem; margin: 2.4rem 0 .6rem; }
.lead { color: var(--soft); margin: 0 0 2rem; max-width: 46rem; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 12px; padding: 1.2rem;
  overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--soft); font-size: .82rem; }
th, td { padding: .5rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
tr:last-child td { border-bottom: 0; }
td:first-child, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  font-size: .9em; }
tr.best td { background: #eef5ff; font-weight: 600; }
img { display: block; width: 100%; height: auto; }
footer { color: var(--soft); font-size: .85rem; margin-top: 2rem; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); }
"""


def write_report(comparison: Comparison, path: Path, split: Measured = "val") -> list[Path]:
    """Write ``report.png`` and ``report.html`` in a folder, and return their paths."""
    folder = RunFolder(path)
    folder.write_figure("report.png", picture(comparison, split))
    image = base64.b64encode((path / "report.png").read_bytes()).decode()
    text = _page(comparison, image, split)
    folder.write("report.html", lambda file: file.write_text(text, encoding="utf-8"))
    return [path / "report.png", path / "report.html"]


def _page(comparison: Comparison, image: str, split: Measured) -> str:
    """Return the HTML page of a comparison, with its figure as a PNG in base64."""
    recipe, count = comparison.recipe, len(comparison.outcomes)
    title = f"{recipe.name}: {comparison.field} compared"
    seeds = len(comparison.outcomes[0].runs)
    same = "seed" if seeds == 1 else f"{seeds} seeds"
    lead = (
        f"{escape(recipe.summary)}. Trained {count} times with the same {same}; only "
        f"<code>{escape(comparison.field)}</code> differs. The row with the best "
        f"<code>{escape(recipe.trainer.monitor)}</code> is marked."
    )
    has_graphs = any(outcome.graph is not None for outcome in comparison.outcomes)
    heading = "Results, learning curves" + " and graphs" * has_graphs
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body><main>
<h1>{escape(title)}</h1>
<p class="lead">{lead}</p>
<div class="card">{_table(comparison, split)}</div>
<h2>{heading}</h2>
<div class="card"><img alt="{heading}" src="data:image/png;base64,{image}"></div>
<details><summary>All other fields of the recipe</summary>
<div class="card">{_fields(comparison)}</div></details>
<footer>Made by <code>edgewise compare</code>, Edgewise {__version__}. In a graph, node i
attends to node j if there is an edge from j to i.</footer>
</main></body>
</html>
"""


def _table(comparison: Comparison, split: Measured) -> str:
    header, *rows = comparison_rows(comparison, split)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = []
    for row, outcome in zip(rows, comparison.outcomes, strict=True):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        best = ' class="best"' if outcome is comparison.best else ""
        lines.append(f"<tr{best}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _fields(comparison: Comparison) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(as_typed(field.value))}</td></tr>"
        for name, field in fields_of(comparison.recipe).items()
        if name != comparison.field
    )
    return f"<table><tbody>{rows}</tbody></table>"
