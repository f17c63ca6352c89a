"""The site: a small one is built with the configuration of docs, checked and opened."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgewise.models import MODELS
from tests.explain.test_page import chromium  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "docs" / "_ext"
BUILT = runpy.run_path(str(EXTENSIONS / "built_site.py"))
PAGE = """---
file_format: mystnb
kernelspec:
  name: python3
myst:
  html_meta:
    keywords: forty-two, own answer
---

# A page that runs

The weights are $\\operatorname{softmax}_j(q_i k_j / \\sqrt{d}), \\dots$,
and [another page](other.md) has `attend`.

```{code-cell} python
from edgewise import graphs

assert graphs.window(1).bind(4).num_edges == 10
print("executed", 6 * 7)
```

```{toctree}
other
```
"""
OTHER = """# Another page

$$
\\begin{cases} 1 & x > 0 \\\\ 0 & \\text{otherwise} \\end{cases}
$$

```{eval-rst}
.. autofunction:: edgewise.attend
```

The source is [here](../../src/edgewise/attention/attend.py).
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, str, Path]]:
    """Return a function that builds a site of the given pages, in a folder of its own."""
    for module in (
        "sphinx",
        "myst_nb",
        "pydata_sphinx_theme",
        "sphinx_design",
        "sphinx_copybutton",
    ):
        pytest.importorskip(module, reason="the extra docs is not installed")

    def build(**pages: str) -> tuple[int, str, Path]:
        folder = tmp_path_factory.mktemp("site")
        source, out = folder / "docs" / "pages", folder / "site"
        source.mkdir(parents=True)
        (folder / "src").symlink_to(ROOT / "src")
        for name, text in pages.items():
            (source / f"{name}.md").write_text(text)
        (source / "_static").symlink_to(ROOT / "docs" / "_static")
        settings = {"nb_execution_cache_path": folder / "cells", "root_doc": "index"}
        words = [f"-D{name}={value}" for name, value in settings.items()]
        command = ["-m", "sphinx", "-W", "--keep-going", "-b", "html", "-t", "handwritten", *words]
        done = subprocess.run(
            [sys.executable, *command, "-c", str(ROOT / "docs"), str(source), str(out)],
            env={**os.environ, "PYTHONWARNINGS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, out

    return build


@pytest.fixture(scope="module")
def site(build: Callable[..., tuple[int, str, Path]]) -> Path:
    """The folder of a site of two pages."""
    code, said, out = build(index=PAGE, other=OTHER)
    assert code == 0, said
    return out


@pytest.mark.slow
def test_cells_are_executed_and_formulas_are_mathml(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert "executed 42" in page
    assert "<msqrt>" in page
    assert "\\operatorname" not in page
    other = (site / "other.html").read_text()
    assert 'id="edgewise.attend"' in other
    assert 'class="cases"' in other
    assert "_modules/edgewise/attention/attend.html" in other


@pytest.mark.slow
def test_a_site_has_no_broken_link_and_loads_nothing_from_another_host(site: Path) -> None:
    assert list(BUILT["foreign"](site)) == []
    assert list(BUILT["broken"](site)) == []


FAULTS = """# A

$\\unheard{x}$ and [nowhere](nowhere.md)

```{eval-rst}
:class:`edgewise.graphs.Windw`
```
"""


@pytest.mark.slow
def test_a_formula_link_or_name_that_is_wrong_fails_the_build(
    build: Callable[..., tuple[int, str, Path]],
) -> None:
    code, output, _ = build(index=FAULTS)
    assert code != 0
    for said in ("unheard", "nowhere.md", "edgewise.graphs.Windw"):
        assert said in output


@pytest.mark.slow
def test_a_cell_that_raises_fails_the_build(build: Callable[..., tuple[int, str, Path]]) -> None:
    code, output, _ = build(index=PAGE.replace("== 10", "== 11"), other=OTHER)
    assert code != 0
    assert "AssertionError" in output


def test_files_of_other_hosts_and_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="//cdn.example/a.css"><script src="https://x.example/a.js">'
        '</script><a href="https://fine.example">b</a><a href="#here">c</a><a href="b.html">d</a>'
        '<iframe srcdoc="&lt;img src=&quot;http://i.example/a.png&quot;&gt;"></iframe>'
    )
    (tmp_path / "a.css").write_text('@import "https://css.example/a"; a { color: url(b.png) }')
    (tmp_path / "a.js").write_text('// https://comment.example\nimport("https://js.example/a.js")')
    found = "\n".join(BUILT["foreign"](tmp_path))
    hosts = ("cdn", "x", "i", "css", "js")
    assert all(f"//{host}.example" in found for host in hosts), found
    assert found.count("\n") == len(hosts) - 1
    assert sorted(one.split(": ")[1] for one in BUILT["broken"](tmp_path)) == ["#here", "b.html"]


def test_searches_that_do_not_lead_to_their_page_are_found(tmp_path: Path) -> None:
    pages = list(BUILT["SEARCHES"])
    searches = {s.lower(): p for p, words in BUILT["SEARCHES"].items() for s in words.split(", ")}
    entries = {search: [[pages.index(page), "", True]] for search, page in searches.items()}

    def wrong() -> list[str]:
        text = json.dumps({"docnames": pages, "indexentries": entries})
        (tmp_path / "searchindex.js").write_text(f"Search.setIndex({text})")
        return list(BUILT["unfound"](tmp_path))

    assert wrong() == []
    entries["gpu"] = [[pages.index("start"), "", True]]
    entries["smiles"].append([pages.index("start"), "", True])
    entries["heatmap"][0][2] = False
    del entries["resume"]
    assert len(wrong()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("search", ["forty-two", "own answer", "answers", "Forty-Two"])
def test_a_keyword_leads_to_its_page(site: Path, chromium: Any, search: str) -> None:  # noqa: F811
    page = chromium.new_page()
    page.goto((site / "search.html").as_uri() + f"?q={search}")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").first.text_content() == "A page that runs"


@pytest.mark.slow
def test_the_site_works_without_a_server_or_network(site: Path, chromium: Any) -> None:  # noqa: F811
    requests: list[str] = []
    errors: list[str] = []
    page = chromium.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.goto((site / "search.html").as_uri() + "?q=softmax")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").first.text_content() == "A page that runs"
    page.locator("#search-results li a").first.click()
    page.wait_for_selector("math msqrt")
    assert requests
    assert not [url for url in requests if not url.startswith(("file:", "data:"))]
    assert not [text for text in errors if not text.startswith("[PST]")]  # notes of the theme


def test_every_model_has_pictures_of_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), str(ROOT / "docs"), *sys.path])
    drawn = runpy.run_path(str(EXTENSIONS / "model_graphs.py"))["MODEL_GRAPHS"]
    assert drawn.keys() == MODELS.keys()
    assert all(drawn.values())


def test_generated_pages_have_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), str(ROOT / "docs"), *sys.path])
    generated = runpy.run_path(str(EXTENSIONS / "generated_pages.py"))
    known = generated["homes"]()
    for name in ("edgewise.attend", "edgewise.graphs.window", "edgewise.layers.MultiHeadAttention"):
        assert name in known
    assert "edgewise.Graph" not in known  # it is edgewise.graphs.Graph
    assert "```{figure} gat-1.png" in generated["model_page"]("gat")
    recipes = generated["recipes_page"]()
    assert "`gat-cora`" in recipes
    assert "| MAE, R² |" in recipes
    assert "| cross-entropy in nats per character |" in recipes
    assert "## edgewise predict" in generated["commands_page"]()
    assert r"$1/\sqrt{d_{i}\,d_{j}}$" in generated["architecture_table"]()


def test_every_public_class_has_an_example() -> None:
    generated = runpy.run_path(str(EXTENSIONS / "generated_pages.py"))
    for name, (_, value) in generated["homes"]().items():
        if inspect.isclass(value):
            members = (vars(value).get(member) for member in ("__init__", *vars(value)))
            texts = [value.__doc__, *(getattr(member, "__doc__", None) for member in members)]
            assert any(">>>" in text for text in texts if text), name


FORMULAS = {
    "1/√(d_i d_j), with degrees d": r"$1/\sqrt{d_{i}\,d_{j}}$, with degrees $d$",
    "h_i' = Σ_j leaky(a·h_j) v_j": (
        r"$h_{i}^{\prime} = \sum _{j}\,\operatorname{leaky}(a\cdot h_{j})\,v_{j}$"
    ),
    "Zᵏ⁺¹ = D̂^-½ Zᵏ": r"$Z^{k+1} = \hat{D}^{-1/2}\,Z^{k}$",
    "(D^-½ A)^k e; x1 = |x|²": r"$(D^{-1/2}\,A)^{k}\,e$; $x_{1} = \vert x\vert ^{2}$",
    "``Dot`` (scaled) or α-entmax (α learned)": "`Dot` (scaled) or α-entmax ($α$ learned)",
    "a = step + x, then a norm": r"$a = \operatorname{step} + x$, then a norm",
}


@pytest.mark.parametrize("plain", FORMULAS)
def test_plain_formulas_become_latex(plain: str) -> None:
    formulas = runpy.run_path(str(EXTENSIONS / "plain_formulas.py"))
    assert formulas["with_formulas"](plain) == FORMULAS[plain]
