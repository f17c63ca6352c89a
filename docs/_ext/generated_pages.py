"""Pages about models, API, commands and recipes, which are generated when the site is built.

The pages are written to ``docs/reference`` and ignored by git. A page that has not changed is not
written again, so that Sphinx does not read it again.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

from edgewise.app.kinds import NAMES

DOCS = Path(__file__).resolve().parent.parent
REFERENCE = DOCS / "reference"
sys.path[:0] = [str(DOCS), str(DOCS / "_ext")]
PACKAGES = {
    "edgewise": "Attention, aggregation, errors",
    "edgewise.graphs": "Graphs and patterns",
    "edgewise.encodings": "Positional and structural encodings",
    "edgewise.layers": "Layers",
    "edgewise.models": "Models",
    "edgewise.app.train": "Training",
    "edgewise.app.kinds": "Kinds of problems and recipes",
    **{f"edgewise.app.kinds.{name}": f"Kind: {name}" for name in NAMES},
    "edgewise.app.runs": "Training and comparing recipes",
    "edgewise.app.predict": "Base of predictors",
    "edgewise.app.explain": "Explanations of runs",
    "edgewise.explain": "Explanations",
    "edgewise.decoding": "Generating text",
    "edgewise.distributed": "One graph on several processes",
    "edgewise.interop.dgl": "DGL",
    "edgewise.interop.pyg": "PyTorch Geometric",
    "edgewise.interop.huggingface": "Hugging Face",
    "edgewise.interop.flex": "FlexAttention",
    "edgewise.interop.varlen": "Packed texts",
}
"""Dict from public packages to the titles of their pages."""


def title(text: str) -> str:
    """Return a title, underlined as in reStructuredText."""
    return f"{text}\n{'=' * len(text)}\n"


def members(package: str) -> dict[str, Any]:
    """Return a dict from the public names of a package to their values, without modules."""
    module = importlib.import_module(package)
    values = {name: getattr(module, name) for name in sorted(module.__all__, key=str.lower)}
    return {name: value for name, value in values.items() if not inspect.ismodule(value)}


@cache
def homes() -> dict[str, tuple[str, Any]]:
    """Return a dict from the full name of each public object to ``(package, object)``.

    An object that several packages export belongs to the most deeply nested one: ``edgewise.Graph``
    is on the page of ``edgewise.graphs``.
    """
    by_object: dict[int, tuple[str, str, Any]] = {}
    for package in PACKAGES:
        for name, value in members(package).items():
            home = by_object.get(id(value))
            if home is None or home[0] == "edgewise":
                by_object[id(value)] = (package, name, value)
    return {f"{package}.{name}": (package, value) for package, name, value in by_object.values()}


def comment_of(package: str, name: str) -> str:
    """Return the docstring of a constant, which follows its assignment in some module."""
    for module in sorted(name for name in sys.modules if name.startswith(package)):
        try:
            lines = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
        except PycodeError:
            continue
        if lines:
            return "\n".join(lines).strip()
    return ""


def is_code(value: Any) -> bool:
    """Return whether an object is a class or a function, not a constant."""
    return inspect.isclass(value) or inspect.isroutine(value)


def object_page(full_name: str, package: str, value: Any) -> str:
    """Return the page of a class or function."""
    name = full_name.removeprefix(f"{package}.")
    lines = [title(name), f".. currentmodule:: {package}", ""]
    if inspect.isclass(value):
        lines += [f".. autoclass:: {name}", "   :members:", "   :show-inheritance:"]
    else:
        lines += [f".. autofunction:: {name}"]
    # The page with the source code links back to the name in one of the packages that export
    # objects of this module.
    homes_of_module = {p for p, v in homes().values() if is_from(v, value.__module__)} - {package}
    for other in sorted(homes_of_module):
        lines += ["", ".. raw:: html", "", f'   <span id="{other}.{name}"></span>']
    return "\n".join([*lines, ""])


def is_from(value: Any, module: str) -> bool:
    """Return whether an object is a class or a function that a module defines."""
    return is_code(value) and value.__module__ == module


def package_page(package: str, public_objects: dict[str, tuple[str, Any]]) -> str:
    """Return the page of a package: its docstring, and tables of its classes and functions."""
    from edgewise.models import MODELS

    full_names = {id(value): name for name, (_, value) in public_objects.items()}
    inside = members(package)
    kinds = {
        "Functions": {n: v for n, v in inside.items() if is_code(v) and not inspect.isclass(v)},
        "Classes": {n: v for n, v in inside.items() if inspect.isclass(v)},
    }
    lines = [f".. _api-{package}:", "", title(f"{package}: {PACKAGES[package].lower()}")]
    lines += [f".. module:: {package}", "", inspect.getdoc(importlib.import_module(package)) or ""]
    contents: list[str] = []
    for kind, objects in kinds.items():
        names = [full_names[id(value)] for value in objects.values()]
        if package == "edgewise.models":
            names = [name for name in names if _last(name) not in MODELS]
        if names:
            lines += ["", f".. rubric:: {kind}", "", ".. autosummary::", "   :nosignatures:", ""]
            lines += [_of_table(name, package) for name in names]
            contents += [name for name in names if public_objects[name][0] == package]
    if package == "edgewise.models":
        lines += ["", ":doc:`../models` lists the models."]
    constants = [name for name, value in inside.items() if not is_code(value)]
    if constants:
        lines += ["", ".. rubric:: Constants", ""]
    for name in constants:
        if isinstance(inside[name], types.GenericAlias):  # viewcode finds no source for an alias.
            lines += [f"``{name}`` is ``{inside[name]}``.", ""]
            continue
        doc = comment_of(package, name).replace("\n", "\n   ")
        lines += [f".. data:: {name}", "", f"   {doc}", ""]
    lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in contents), ""]
    return "\n".join(lines)


def _of_table(name: str, package: str) -> str:
    """Return a line of an autosummary: a name relative to ``package``, the current module."""
    return f"   ~{name.removeprefix(f'{package}.')}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the page of each public object and package."""
    from edgewise.models import MODELS

    public_objects = homes()
    for full_name, (package, value) in public_objects.items():
        of_model = package == "edgewise.models" and _last(full_name) in MODELS
        if is_code(value) and not of_model:
            yield f"api/{full_name}.rst", object_page(full_name, package, value)
    for package in PACKAGES:
        yield f"api/{package}.rst", package_page(package, public_objects)
    rows = [f"   {package}" for package in PACKAGES]
    index = [title("Functions and classes"), ".. toctree::", "   :maxdepth: 1", "", *rows, ""]
    yield "api/index.rst", "\n".join(index)


KEYS = ("Formula", "Graph", "Score", "Encoding", "Normalisation", "Update", "Paper")


def model_page(name: str) -> str:
    """Return the page of a model: its docstring as a table, its graphs and its arguments."""
    from model_graphs import MODEL_GRAPHS
    from plain_formulas import with_formulas

    from edgewise.app.kinds import RECIPES
    from edgewise.models import MODELS, about

    entries = about(name)
    rows = [f"* - {k}\n  - {with_formulas(entries[k])}" for k in KEYS[:-1] if k in entries]
    rows.append(f"* - Paper\n  - {cell(entries['Paper'])}")
    recipes = [f"`{r.name}`" for r in RECIPES.values() if r.model.func.__name__ == name]
    if recipes:
        rows.append(f"* - [Recipes](../recipes.md)\n  - {', '.join(recipes)}")
    figures = [
        f"```{{figure}} {name}-{number}.png\n:alt: {caption}\n:width: 560px\n\n{caption}\n```\n"
        for number, (caption, _) in enumerate(MODEL_GRAPHS[name], 1)
    ]
    table = ["```{list-table}", ":stub-columns: 1", ":widths: 15 85", "", *rows, "```"]
    function = MODELS[name]
    code = ["```{eval-rst}", ".. currentmodule:: edgewise.models", "", f".. autofunction:: {name}"]
    kind = inspect.get_annotations(function)["return"]
    if isinstance(kind, str):
        kind = getattr(sys.modules[function.__module__], kind.partition("[")[0], None)
    if inspect.isclass(kind) and kind.__module__ == function.__module__ and "forward" in vars(kind):
        # The page with the source code links back to this name of the method.
        back = f'<span id="edgewise.models.{kind.__name__}.forward"></span>'
        code += ["", ".. raw:: html", "", f"   {back}", ""]
        code += [f".. currentmodule:: {kind.__module__}", ""]
        code += [f".. automethod:: {kind.__name__}.forward"]
    return "\n".join([f"# {name}\n\n{entries['title']}.\n", *table, "", *figures, *code, "```", ""])


def cell(text: str) -> str:
    """Return an entry of a model's docstring as Markdown for a table cell."""
    segments = text.replace("``", "`").split("`")  # Parts with odd indices are code.
    segments[::2] = [segment.replace("*", "\\*").replace("_", "\\_") for segment in segments[::2]]
    return "`".join(segments)


def model_table() -> str:
    """Return one table of models for each kind of input."""
    from edgewise.models import KINDS, about

    lines = []
    for kind, models in KINDS.items():
        lines += [
            f"## {kind[0].upper()}{kind[1:]}",
            "",
            "| model in `edgewise.models` | architecture | paper |",
            "| --- | --- | --- |",
        ]
        for name in models:
            entries = about(name)
            cells = [entries["title"], entries["Paper"]]
            text = " | ".join(cell(entry.replace("|", "\\|")) for entry in cells)
            lines.append(f"| [`{name}`](models/{name}.md) | {text} |")
        lines.append("")
    return "\n".join(lines)


ARCHITECTURES = (
    "| model | graph of the attention or messages | score of an edge "
    "| normalisation of the weights, and norm layers | update of a node |"
)


def architecture_table() -> str:
    """Return a table of the graph, score, normalisation and update of every model."""
    from plain_formulas import with_formulas

    from edgewise.models import MODELS, about

    columns = ["Graph", "Score", "Normalisation", "Update"]
    lines = [ARCHITECTURES, f"|{' --- |' * 5}"]
    for name in MODELS:
        entries = about(name)
        text = " | ".join(with_formulas(entries[column]).replace("|", "\\|") for column in columns)
        lines.append(f"| [`{name}`](models/{name}.md) | {text} |")
    return "\n".join(lines) + "\n"


def draw_models(folder: Path) -> None:
    """Draw the graphs of each model, unless the picture exists."""
    from model_graphs import MODEL_GRAPHS

    source = max((DOCS / name).stat().st_mtime for name in ("pictures.py", "_ext/model_graphs.py"))
    for name, pictures in MODEL_GRAPHS.items():
        for number, (_, graph) in enumerate(pictures, 1):
            path = folder / f"{name}-{number}.png"
            if not path.exists() or path.stat().st_mtime < source:
                graph.draw().savefig(path, dpi=100)


COMMANDS = """---
myst:
  html_meta:
    keywords: command line, CLI, options, flags
---

# Commands

`edgewise COMMAND --help` prints these texts. `edgewise train RECIPE --help` also lists the fields
of the recipe, as do `compare` and `baseline`; `edgewise predict DIR --help` lists the options of
the run in DIR.
"""
RECIPES = """---
myst:
  html_meta:
    keywords: benchmark data sets, published results, hyperparameters
---

# Recipes

A recipe is a model, data, a task and their settings. `edgewise train RECIPE` trains the model, and
`edgewise show RECIPE` prints the fields of the recipe. Each field is an option of `edgewise train`,
such as `--model.heads 4`. Recipes for data of your own have no reference. The page of
[results](../background/results.md) has the metrics that the recipes reach.
"""


RECIPE_COLUMNS = (
    "| recipe | what it trains | model | data set | metrics on the test set "
    "| reference: published values of these metrics, or values of another method |"
)


def commands_page() -> str:
    """Return the page of the commands, with the help text of each command."""
    from edgewise.app.cli.parser import build_parser

    os.environ["COLUMNS"] = "100"
    parser = build_parser("predict", ["predict", "--help"])
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parsers = [("", parser), *((f"## edgewise {n}\n\n", c) for n, c in commands.choices.items())]
    texts = [
        f"{head}```text\n{command_parser.format_help().rstrip()}\n```\n"
        for head, command_parser in parsers
    ]
    del os.environ["COLUMNS"]
    return "\n".join([COMMANDS, *texts])


def recipes_page() -> str:
    """Return the page of the recipes: a table for each task, with a row for each recipe."""
    names = {id(value): _last(name) for name, (_, value) in homes().items()}
    from edgewise.app.kinds import RECIPES as ALL_RECIPES

    lines = [RECIPES]
    tasks = sorted({type(recipe.task).__name__ for recipe in ALL_RECIPES.values()})
    for task in tasks:
        lines += [f"## {task}\n", RECIPE_COLUMNS, f"|{' --- |' * 6}"]
        for recipe in ALL_RECIPES.values():
            if type(recipe.task).__name__ == task:
                lines.append(recipe_row(recipe, names))
        lines.append("")
    return "\n".join(lines)


def metric_name(metric: str) -> str:
    """Return the name of a metric such as ``test/mae`` for the table of recipes."""
    from results import label

    return "cross-entropy in nats per character" if metric == "test/loss" else label(metric)


def recipe_row(recipe: Any, names: dict[int, str]) -> str:
    """Return the table row of a recipe.

    ``names`` maps the id of each data class to its public name.
    """
    from edgewise.models import MODELS

    model, data = recipe.model.func.__name__, type(recipe.data)
    shown = f"[`{model}`](models/{model}.md)" if model in MODELS else f"`{model}`"
    reference = recipe.protocol.reference if recipe.protocol else ""
    metrics = recipe.protocol.metrics if recipe.protocol else ()
    data_name = names.get(id(data), data.__name__)
    cells = [f"`{recipe.name}`", cell(recipe.summary), shown, f"`{data_name}`"]
    cells += [", ".join(map(metric_name, metrics)), cell(reference)]
    return f"| {' | '.join(cell_text.replace('|', chr(92) + '|') for cell_text in cells)} |"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path in ``docs/reference`` and the text of each generated page."""
    from edgewise.models import MODELS

    for name in MODELS:
        yield f"models/{name}.md", model_page(name)
    yield "models/_table.md", model_table()
    yield "models/_architectures.md", architecture_table()
    yield "commands.md", commands_page()
    yield "recipes.md", recipes_page()
    yield from api_pages()


def write(app: Sphinx, _config: Config) -> None:
    """Write all pages, unless the tag ``handwritten`` is set."""
    if app.tags.has("handwritten"):
        return
    for folder in ("api", "models"):
        (REFERENCE / folder).mkdir(exist_ok=True)
    written = set()
    for name, text in pages():
        path = REFERENCE / name
        written.add(path)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in [*REFERENCE.glob("api/*.rst"), *REFERENCE.glob("models/*.md")]:
        if path not in written:
            path.unlink()
    draw_models(REFERENCE / "models")
    # If __name__ differs from the public name, autodoc shows "alias of" instead of the arguments.
    for full_name, (_, value) in homes().items():
        if inspect.isclass(value):
            value.__name__ = _last(full_name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register :func:`write`, which Sphinx calls before it reads the pages."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
