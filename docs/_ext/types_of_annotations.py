"""Links of type annotations: names of Edgewise by their last part, other packages without a link."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def missing(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.Element | None:
    """Resolve a name that is imported in a module for annotations or for a docstring.

    Annotations name a class as its module does, where the reference has the name of the package.
    Names of other packages stay without a link, as their pages are on other hosts.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    objects: dict[str, Any] = env.domains.python_domain.objects
    last = target.rpartition(".")[2]
    found = {entry.node_id: entry for name, entry in objects.items() if _named(name, target, last)}
    if len(found) == 1:
        (entry,) = found.values()
        assert app.builder is not None
        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode)
    return None if target.startswith("edgewise") else contnode


def _named(name: str, target: str, last: str) -> bool:
    if target.startswith("edgewise.") or "." not in target:
        return name.rpartition(".")[2] == last and name.startswith("edgewise.")
    return name.endswith(f".{target}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the search for names."""
    app.connect("missing-reference", missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
