"""Configuration of the site, which ``make site`` builds."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_ext"))
# Executed pages are timed and drawn as on a reader's machine: no progress bars, no hidden threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import edgewise  # noqa: E402

project = "Edgewise"
author = "the Edgewise authors"
copyright = author
version = release = edgewise.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "generated_pages",
    "mathematics",
    "search_keywords",
    "source_links",
    "types_of_annotations",
]
exclude_patterns = ["_ext", "reference/models/_table.md", "reference/models/_architectures.md"]
nitpicky = True
show_warning_types = True

# Pages: Markdown, whose cells are executed. The cache is kept as long as the library is the same.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_update_mathjax = False
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # Pages write files, such as start.md.
nb_execution_timeout = 600
nb_execution_show_tb = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_merge_streams = True


def digest_of_library() -> str:
    """Return a digest of the library and the examples, on which the outputs of cells depend."""
    digest = hashlib.sha256()
    for folder in ("src/edgewise", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".so"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


nb_execution_cache_path = str(ROOT / "build" / "cells" / digest_of_library())
if not os.environ.get("EDGEWISE_DATA"):  # This page needs a data set, and is shown without outputs.
    nb_execution_excludepatterns = ["*26_observations.md"]
    suppress_warnings = ["myst-nb.lexer"]

# Docstrings: Google style, formulas and code in plain text.
default_role = "code"
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
add_module_names = False
python_maximum_signature_line_length = 88
viewcode_line_numbers = True

html_theme = "pydata_sphinx_theme"
html_title = "Edgewise"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["edgewise.css"]
html_js_files = ["files.js"]
html_search_scorer = str(DOCS / "_ext" / "search_scorer.js")
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "Edgewise"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "collapse_navigation": True,
    "navigation_depth": 3,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "start": []}
html_context = {"default_mode": "auto"}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)"]
