"""Checks of a built site: links, files of other hosts, and what the search finds first.

python docs/_ext/built_site.py build/site
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("link", "href"), ("source", "src")}
"""Pairs of element and attribute whose files a browser loads together with the page."""
NOT_LOADED = {"canonical", "search", "index", "genindex", "next", "prev", "help", "about"}
"""Values of ``rel`` in ``<link rel=...>`` that name a page without loading it."""
FOREIGN = re.compile(r"(?:https?:)?//[\w.-]+", re.IGNORECASE)
CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
JAVASCRIPT = re.compile(
    r"""(?:import\s*\(?|fetch\(|importScripts\(|\.src\s*=)\s*["'`]((?:https?:)?//[^"'`]+)"""
)

SEARCHES = {
    "howto/explain": "visualize attention, heatmap, saliency, explain prediction",
    "howto/your_data": "custom dataset, own csv",
    "howto/molecules": "SMILES",
    "howto/flex_attention": "packed sequences, varlen, FlexAttention",
    "howto/huggingface": "KV cache",
    "howto/recommendation": "recommender",
    "howto/text": "sentiment",
    "howto/training": "early stopping, resume, batch size",
    "howto/gpu": "GPU",
    "start": "install",
}
"""Pages, and the words of users for which the search shows them first."""


class Page(HTMLParser):
    """Links, loaded files and ids in the HTML of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the links, loaded files and ids of one element."""
        attributes = {name: value or "" for name, value in attrs}
        self.ids.update(attributes[name] for name in ("id", "name") if name in attributes)
        if tag == "link" and set(attributes.get("rel", "").split()) <= NOT_LOADED:
            return
        for name, value in attributes.items():
            if (tag, name) in LOADED:
                self.loaded.append(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif name == "srcdoc":
                self.loaded.extend(Page(value).loaded)


@cache
def page_of(path: Path) -> Page:
    """Return the parsed page of an HTML file."""
    return Page(path.read_text(encoding="utf-8"))


def foreign(folder: Path) -> Iterator[str]:
    """Yield each file that a page, style sheet or script loads from another host."""
    for path in sorted(folder.rglob("*.html")):
        yield from (f"{path}: {url}" for url in page_of(path).loaded if FOREIGN.match(url))
    for kind, pattern in (("css", CSS), ("js", JAVASCRIPT), ("html", CSS)):
        for path in sorted(folder.rglob(f"*.{kind}")):
            urls = pattern.findall(path.read_text(encoding="utf-8"))
            yield from (f"{path}: {url}" for url in urls)


def broken(folder: Path) -> Iterator[str]:
    """Yield the local links whose file or anchor does not exist."""
    for path in sorted(folder.rglob("*.html")):
        if "_static" in path.parts:  # These are templates of the theme.
            continue
        for url in {*page_of(path).links, *page_of(path).loaded}:
            if re.match(r"[a-z]+:|//", url):
                continue
            name, anchor = urldefrag(url)
            target = (path.parent / unquote(name.partition("?")[0])) if name else path
            if not target.is_file():
                yield f"{path}: {url}"
            elif anchor and target.suffix == ".html":
                ids = page_of(target.resolve()).ids
                if unquote(anchor) not in ids:
                    yield f"{path}: {url}"


def unfound(folder: Path) -> Iterator[str]:
    """Yield the searches for which the index does not name their page as the only main entry."""
    text = (folder / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    for page, searches in SEARCHES.items():
        for search in searches.split(", "):
            entries = index["indexentries"].get(search.lower(), [])
            pages = [index["docnames"][number] for number, _, is_main in entries if is_main]
            if pages != [page]:
                yield f"{search!r} leads to {pages}, not to {page}"


def main() -> int:
    """Check the site in a folder, and print up to 50 faults; return 1 if there is any."""
    folder = Path(sys.argv[1])
    wrong = [f"broken link in {fault}" for fault in broken(folder)]
    wrong += [f"loaded from another host: {fault}" for fault in foreign(folder)]
    wrong += [f"search: {fault}" for fault in unfound(folder)]
    print("\n".join(wrong[:50]), end="\n" if wrong else "")
    files = [path for path in folder.rglob("*") if path.is_file()]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    pages = sum(path.suffix == ".html" for path in files)
    print(f"{folder}: {pages} pages, {megabytes:.0f} MB, {len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
