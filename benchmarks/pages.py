"""HTML pages that show attention weights: size and speed in a browser, compared with bertviz.

    python -m benchmarks.pages [--tokens 64 128 256] [--scripts FOLDER] [--views head model]

Both tools draw the same random weights of 12 layers with 12 heads on all pairs of tokens. Edgewise
also draws 4 layers with 8 heads on a window of radius 8 over 16,384 tokens. The benchmark prints:

- the size of the page in bytes, and the processor time to write it
- the time until the page is drawn, and the browser's processor time until then
- the frames per second while the mouse drags over it (in bertviz, it scrolls and moves over tokens)

Each page is opened three times in a headless browser, the tools in alternation. Times are minima
and frames are maxima. bertviz is measured if it is installed. Its pages load scripts from the
network. The benchmark reads these scripts from ``FOLDER`` (``require.js``, ``d3.min.js`` and
``jquery.min.js``) instead, and adds their size to that of the page.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import edgewise as ew
from edgewise import explain, graphs
from edgewise._utils.errors import require
from edgewise.explain.record import LayerRecord, Recorded

LAYERS = HEADS = 12
SCRIPTS = {"require": "require.js", "d3": "d3.min.js", "jquery": "jquery.min.js"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu"]
ROUNDS, SECONDS, TIMEOUT = 3, 2.0, 120_000
COUNT = """() => {
  window.frames_drawn = 0;
  const count = () => { window.frames_drawn++; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


@dataclass
class Page:
    """An HTML page and its measurements.

    Attributes:
        name: name of the tool and contents of the page, for the table.
        path: HTML file.
        ready: CSS selector of an element that exists as soon as the page is drawn.
        area: CSS selector of the element over which the mouse moves.
        write: seconds of processor time to write the page.
        size: bytes of the page and its scripts.
    """

    name: str
    path: Path
    ready: str
    area: str
    write: float
    size: int
    opened: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    frames: list[float] = field(default_factory=list)
    error: str = ""


def weights_of(graph: Any, layers: int, heads: int) -> Recorded:
    """Return random attention weights on a graph, in the form that recording a model gives."""
    random = torch.Generator().manual_seed(0)
    recorded = Recorded()
    for number in range(layers):
        score = 2 * torch.randn(graph.num_edges, heads, generator=random)
        weights = ew.edge_softmax(score, graph)
        recorded.layers.append(LayerRecord(f"layers.{number}", graph, weights, list(range(heads))))
    return recorded


def written(name: str, path: Path, write: Callable[[], Any], ready: str, area: str) -> Page:
    """Write a page by calling ``write``, and return it with its size and processor time."""
    start = time.process_time()
    write()
    seconds = time.process_time() - start
    return Page(name, path, ready, area, seconds, path.stat().st_size)


def ours(name: str, recorded: Recorded, tokens: int, path: Path) -> Page:
    """Write a page with Edgewise, and return it."""
    shown = explain.Explanation(recorded, [f"token{i}" for i in range(tokens)], "sequence")
    return written(
        f"Edgewise, {name}",
        path,
        lambda: explain.write_page(shown, path),
        "body[data-ready]",
        "#drawing",
    )


def theirs(view: str, name: str, recorded: Recorded, tokens: int, path: Path) -> Page:
    """Write a page with this view of bertviz, and return it."""
    import bertviz

    dense = [
        layer.weights.view(tokens, tokens, -1).permute(2, 0, 1)[None] for layer in recorded.layers
    ]

    def write() -> None:
        show = getattr(bertviz, f"{view}_view")
        page = show(dense, [f"token{i}" for i in range(tokens)], html_action="return")
        path.write_text(page.data)

    return written(f"bertviz, {view} view, {name}", path, write, "#vis svg text", "#vis")


def processor_seconds() -> dict[int, float]:
    """Return the processor time of each child process and its children, by process id (Linux)."""
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has ended.
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    below = {os.getpid()}
    while more := {one for one, own in fields.items() if int(own[1]) in below} - below:
        below |= more
    tick = os.sysconf("SC_CLK_TCK")
    return {one: (int(fields[one][11]) + int(fields[one][12])) / tick for one in below}


def measure(browser: Any, page: Page, scripts: Path | None) -> None:
    """Open a page, drag the mouse over it, and add seconds and frames to its measurements."""
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    opened.set_default_timeout(TIMEOUT)

    def script(route: Any) -> None:
        name = next(name for word, name in SCRIPTS.items() if word in route.request.url)
        assert scripts is not None
        route.fulfill(path=scripts / name, content_type="text/javascript")

    opened.route(re.compile("^https:"), script)
    try:
        start, before = time.perf_counter(), processor_seconds()
        opened.goto(page.path.as_uri())
        opened.wait_for_selector(page.ready, state="attached")
        opened.evaluate("() => new Promise(done => requestAnimationFrame(() => done()))")
        page.opened.append(time.perf_counter() - start)
        spent = {one: s - before.get(one, 0.0) for one, s in processor_seconds().items()}
        page.spent.append(sum(spent.values()))
        box = opened.locator(page.area).first.bounding_box()
        x, y = box["x"] + min(box["width"], 900) / 2, box["y"] + min(box["height"], 500) / 2
        opened.evaluate(COUNT)
        opened.mouse.move(x, y)
        opened.mouse.down()
        start, step = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            step += 1
            opened.mouse.move(x + 100 * ((step % 40) / 20 - 1), y + 60 * ((step % 30) / 15 - 1))
            if "bertviz" in page.name:
                opened.mouse.wheel(0, 40 if step % 40 < 20 else -40)
        drawn = opened.evaluate("window.frames_drawn")
        page.frames.append(drawn / (time.perf_counter() - start))
        opened.mouse.up()
    except Exception as error:  # If a page does not open, the table shows the error.
        page.error = type(error).__name__
    finally:
        opened.close()


def show(pages: list[Page]) -> None:
    """Print the measurements of all pages as a Markdown table."""
    print("| page | bytes | write, s | until drawn, s | browser's processor, s | frames/s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for page in pages:
        times = (
            f"{min(page.opened):.1f} | {min(page.spent):.1f} | {max(page.frames):.0f}"
            if page.frames
            else f"{page.error or 'not opened'} | |"
        )
        print(f"| {page.name} | {page.size:,} | {page.write:.2f} | {times} |")


def main() -> None:
    """Write, open and measure all pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[64, 128, 256], help="numbers of tokens to draw"
    )
    parser.add_argument(
        "--scripts", type=Path, metavar="FOLDER", help="folder with the scripts of bertviz's pages"
    )
    parser.add_argument(
        "--views", nargs="*", default=["head", "model"], help="bertviz views to measure"
    )
    given = parser.parse_args()
    playwright = require("playwright.sync_api", extra="dev", purpose="opening pages")
    compared = importlib.util.find_spec("bertviz") is not None and given.scripts is not None
    scripts = sum((given.scripts / name).stat().st_size for name in SCRIPTS.values() if compared)
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        parser.error("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as started:
        path, pages = Path(folder), []
        for tokens in given.tokens:
            name = f"{tokens} tokens, 12 × 12 heads"
            recorded = weights_of(graphs.complete().bind(tokens), LAYERS, HEADS)
            pages.append(ours(name, recorded, tokens, path / f"ours-{tokens}.html"))
            for view in given.views if compared else ():
                page = theirs(view, name, recorded, tokens, path / f"{view}-{tokens}.html")
                page.size += scripts
                pages.append(page)
        tokens = 16_384
        recorded = weights_of(graphs.window(8).bind(tokens), 4, 8)
        name = f"{tokens:,} tokens on a window of 8, 4 × 8 heads"
        pages.append(ours(name, recorded, tokens, path / "window.html"))
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        for _ in range(ROUNDS):
            for page in pages:
                if not page.error:
                    measure(browser, page, given.scripts)
        browser.close()
        show(pages)


if __name__ == "__main__":
    main()
