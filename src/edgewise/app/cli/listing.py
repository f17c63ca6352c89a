"""Commands ``edgewise list`` and ``edgewise show``."""

from __future__ import annotations

import inspect
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, get_type_hints

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.app.cli.names import KINDS
from edgewise.app.cli.output import say, table
from edgewise.app.kinds import DATA, RECIPES, TASKS
from edgewise.app.runs.recipe_fields import fields_of, part_fields
from edgewise.app.train.parsing import as_typed, describe
from edgewise.app.train.recipe import Recipe
from edgewise.encodings import ENCODINGS, shortest_paths
from edgewise.graphs import PATTERNS, Graph, Pattern, parse
from edgewise.models import MODELS

INDENT = " " * 4
MARKUP = re.compile(r":\w+:`(?:\w+\.)*([^`]+)`")


def first_line(entry: Any) -> str:
    """Return the first line of an object's docstring, without markup."""
    line = (inspect.getdoc(entry) or "").partition("\n")[0].rstrip(".")
    return MARKUP.sub(r"\1", line).replace("``", "`")


def _module(model: Any) -> Any:
    return sys.modules[model.__module__]


ENTRIES: dict[str, tuple[Mapping[str, Any], Callable[[Any], str]]] = {
    "recipes": (RECIPES, lambda recipe: recipe.summary),
    "models": (MODELS, lambda model: first_line(_module(model))),
    "data": (DATA, first_line),
    "tasks": (TASKS, first_line),
    "graphs": (PATTERNS, first_line),
    "encodings": (ENCODINGS, first_line),
}
"""For each kind of name: its entries, and a function that describes an entry on one line."""


def list_names(arguments: Namespace) -> int:
    """Run ``edgewise list``: print names with one-line descriptions."""
    tables = []
    for kind in [arguments.kind] if arguments.kind else KINDS:
        entries, describe_entry = ENTRIES[kind]
        rows = [[f"  {name}", describe_entry(entry)] for name, entry in entries.items()]
        tables.append(f"{kind}\n{table(rows, header=False, left=2)}")
    say("\n\n".join(tables))
    return 0


def show(arguments: Namespace) -> int:
    """Run ``edgewise show``: print the description of one name."""
    say(_description(arguments.name, arguments.draw, arguments.nodes))
    return 0


def _description(name: str, draw: Path | None, nodes: int) -> str:
    """Return the description of a name of ``ENTRIES``, or of a graph such as "window(2)"."""
    graph = _graph(name)
    check_range("--nodes", nodes, "choose for example 16", least=1)
    if draw is not None and graph is None:
        raise ArgumentError(
            "--draw",
            expected="a graph with its arguments, such as 'window(2)' or 'complete()'",
            got=repr(name),
            remedy="name one of " + ", ".join(PATTERNS),
        )
    if draw is not None and graph is not None:
        if not draw.absolute().parent.is_dir():
            raise ArgumentError(
                "--draw",
                expected="a file in a folder that exists",
                got=str(draw),
                remedy="create the folder first",
            )
        graph.draw(draw, nodes=nodes)
    if name in RECIPES:
        return recipe_text(RECIPES[name])
    if name in MODELS:
        return f"{inspect.getdoc(_module(MODELS[name]))}\n\n{_signature(name, MODELS[name])}"
    if name in ENCODINGS:
        return f"{_signature(name, ENCODINGS[name])}\n\n{inspect.getdoc(ENCODINGS[name])}"
    for classes in (DATA, TASKS):
        if name in classes:
            return _class_text(name, classes[name])
    if name in PATTERNS:
        return f"{_signature(name, PATTERNS[name])}\n\n{inspect.getdoc(PATTERNS[name])}"
    if graph is not None:
        return _graph_text(graph, nodes)
    raise unknown_name("name", name, [name for entries, _ in ENTRIES.values() for name in entries])


def recipe_text(recipe: Recipe) -> str:
    """Return the summary of a recipe, with the value, type and description of each field."""
    rows = [["field", "value", "type"]]
    fields = fields_of(recipe)
    rows += [[f"--{n}", as_typed(field.value), describe(field.kind)] for n, field in fields.items()]
    header, rule, *lines = table(rows, left=3).split("\n")
    described = [header, rule]
    for line, field in zip(lines, fields.values(), strict=True):
        described.append(line)
        if field.meaning:
            described += wrap(field.meaning, 96, initial_indent=INDENT, subsequent_indent=INDENT)
    model = recipe.model.func.__name__
    objects = {"data": recipe.data, "task": recipe.task, "schedule": recipe.schedule}
    names = ", ".join(f"{key} {type(value).__name__.lower()}" for key, value in objects.items())
    about = [f"{recipe.name}: {recipe.summary}", f"model {model}, {names}"]
    if recipe.protocol:
        command = f"edgewise train {recipe.name} {recipe.protocol.options}".rstrip()
        about.append(f"results measured with `{command}`; reference: {recipe.protocol.reference}")
    return "\n".join([*about, "", *described])


def _class_text(name: str, cls: Any) -> str:
    """Return the description of a data set or task, with the default and type of each field."""
    rows = [
        [f"  {field}", as_typed(about.value), describe(about.kind)]
        for field, about in part_fields(cls()).items()
    ]
    text = f"{name}: {inspect.getdoc(cls)}"
    return f"{text}\n\nfields\n{table(rows, header=False, left=3)}" if rows else text


def _graph(name: str) -> Pattern | None:
    if "(" not in name and ":" not in name:
        # The name of a pattern without required arguments is enough.
        pattern = PATTERNS.get(name)
        needed = inspect.signature(pattern).parameters.values() if pattern else ()
        free = pattern and all(p.default is not p.empty for p in needed)
        return pattern() if pattern and free else None
    return parse(name)


def _graph_text(graph: Pattern, nodes: int) -> str:
    bound: Graph = graph if isinstance(graph, Graph) else graph.bind(nodes)
    rows = ["".join("■ " if cell else "· " for cell in row) for row in bound.dense().tolist()]
    reach = f"{_reach(bound)}\n" if bound.num_targets > 1 else ""
    head = f"{bound!r}\n{reach}row i marks the nodes that node i attends to"
    return "\n".join([head, "", *rows])


def _reach(graph: Graph) -> str:
    """Return a sentence on how many layers let information pass between all pairs of nodes."""
    steps = shortest_paths(graph)
    if (steps < 0).any():
        return "some nodes never receive information from some others, however many layers"
    layers = int(steps.max())
    return f"after {layers} layer{'s' * (layers != 1)}, every node has information from every other"


def _signature(name: str, function: Callable[..., Any]) -> str:
    parameters = inspect.signature(function).parameters.values()
    hints = get_type_hints(function if inspect.isroutine(function) else function.__init__)
    evaluated = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in parameters]
    return f"{name}{inspect.Signature(evaluated)}"
