"""Links from pages to source files.

A link to a module of Edgewise leads to the page with its highlighted source. Other files are copied
into the site.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

MODULE = re.compile(r"(?:\.\./)+src/(edgewise/.*)\.py$")


class LinksToModules(SphinxPostTransform):
    """Replace links to ``src/edgewise/*.py`` by links to the pages of ``sphinx.ext.viewcode``."""

    default_priority = 5

    def run(self, **_kwargs: Any) -> None:
        """Replace the links on one page."""
        for node in list(self.document.findall(download_reference)):
            match = MODULE.search(node["reftarget"])
            if match is None:
                continue
            module = match[1].removesuffix("/__init__").replace("/", ".")
            node.replace_self(_reference(self, module, node))


def _reference(transform: LinksToModules, module: str, node: nodes.Element) -> nodes.Element:
    up = "../" * transform.env.current_document.docname.count("/")
    pages = getattr(transform.env, "_viewcode_modules", {})
    if not pages.get(module):  # Without a documented object, viewcode makes no page.
        return nodes.inline("", "", *node.children)
    path = f"{up}_modules/{module.replace('.', '/')}.html"
    return nodes.reference("", "", *node.children, refuri=path, internal=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform that replaces links."""
    app.add_post_transform(LinksToModules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
