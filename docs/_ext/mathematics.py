"""Formulas as MathML, which browsers display without JavaScript or a file from another host."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
SPELLINGS = [
    (re.compile(r"…|\\dots\b"), r"\\ldots "),
    (re.compile(r"\\([Bb]igg?)(?=\s*(?:[(\[|]|\\[{lL]))"), r"\\\1l"),
    (re.compile(r"\\([Bb]igg?)(?=\s*(?:[)\]]|\\[}rR]))"), r"\\\1r"),
]
"""LaTeX that the converter does not support, as patterns with supported replacements."""


def converted(node: nodes.Element, *, as_block: bool) -> str:
    """Return a formula as MathML. If a command is unknown, warn and return the LaTeX code."""
    latex = node.astext()
    for pattern, standard in SPELLINGS:
        latex = pattern.sub(standard, latex)
    try:
        return " ".join(tex2mathml(latex, as_block=as_block).split())
    except MathError as error:
        LOGGER.warning("%s in the formula %r", error, latex, location=node, type="mathematics")
        return f"<code>{escape(latex)}</code>"


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula within a sentence to the HTML page."""
    self.body.append(converted(node, as_block=False))
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, on lines of its own, to the HTML page."""
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(converted(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml`` for formulas."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
