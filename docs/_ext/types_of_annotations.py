"""Links from type annotations and docstrings to the reference pages of classes and functions.

Sphinx knows a class by the name in its module (``edgewise.graphs.window.Window``), but the
reference pages have its public name (``edgewise.graphs.window``). This module finds the public
name. Classes that are not public or belong to another package get no link. A name that does not
exist is an error of the build.
"""

from __future__ import annotations

import sys
from typing import Any

from docutils import nodes
from generated_pages import homes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def find(name: str) -> Any:
    """Return the object of Edgewise with this full name, or ``None`` if it does not exist."""
    path = name.split(".")
    for split in range(len(path), 0, -1):
        value: Any = sys.modules.get(".".join(path[:split]))
        if value is None:
            continue
        for attribute in path[split:]:
            value = getattr(value, attribute, None)
        if value is not None:
            return value
    return None


def missing(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.Element | None:
    """Return a link for a Python name that Sphinx could not resolve, or ``None``."""
    target = node["reftarget"]
    if node.get("refdomain") != "py":
        return None
    if not target.startswith("edgewise."):
        last = target.rpartition(".")[2]
        names = [name for name in homes() if target == last == name.rpartition(".")[2]]
        is_role = node.get("reftype") not in ("class", "obj", "exc")
        return link(app, env, node, contnode, names) or (None if is_role else contnode)
    documented = find(target)
    names = [name for name, (_, value) in homes().items() if value is documented]
    return link(app, env, node, contnode, names) or (None if documented is None else contnode)


def link(
    app: Sphinx,
    env: BuildEnvironment,
    node: pending_xref,
    contnode: nodes.TextElement,
    names: list[str],
) -> nodes.Element | None:
    """Return a link to the object with one of these names, if exactly one of them has a page."""
    objects = env.domains.python_domain.objects
    targets = [objects[name] for name in names if name in objects]
    if len(targets) != 1:
        return None
    return make_refnode(
        app.builder, node["refdoc"], targets[0].docname, targets[0].node_id, contnode
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register :func:`missing`, which Sphinx calls for names that it cannot resolve."""
    app.connect("missing-reference", missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
