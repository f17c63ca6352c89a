"""Keywords of a page, which the search of the site finds first.

The front matter of a page lists them: ``myst: {html_meta: {keywords: "heatmap, own csv"}}``.
"""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform


class Keywords(SphinxTransform):
    """Make each keyword an index entry, and each of its words a term of the search."""

    default_priority = 840  # The index domain collects the entries at 850.

    def apply(self) -> None:
        """Read the keywords of one page."""
        for meta in self.document.findall(nodes.meta):
            section = self.document.next_node(nodes.section)
            if meta.get("name") != "keywords" or section is None:
                continue
            phrases = [phrase.strip() for phrase in meta["content"].split(",")]
            words = [word for phrase in phrases for word in phrase.replace("-", " ").split()]
            meta["content"] = ", ".join(dict.fromkeys([*phrases, *words]))
            entries = [("single", phrase, section["ids"][0], "main", None) for phrase in phrases]
            section.insert(1, addnodes.index(entries=entries))


def pages_with_keywords(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write again, because Sphinx forgets the entries of unchanged pages."""
    entries = env.get_domain("index").data["entries"]
    return [page for page, values in entries.items() if any(value[3] for value in values)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Keywords)
    app.connect("env-updated", pages_with_keywords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
