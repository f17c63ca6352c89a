"""Pages of explanations, in a headless Chromium."""

from __future__ import annotations

import hashlib
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import explain, graphs
from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.explain import page as page_module
from edgewise.explain.attribution import Method
from edgewise.explain.page import html_page, write_page
from edgewise.explain.reasons import Reason, attribution
from edgewise.explain.record import LayerRecord, Recorded
from tests.explain import small_runs

FOLDER = Path(explain.__file__).parent / "page"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WORDS = "The film is a quiet , moving portrait of a family".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless browser, with a profile of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Opened:
    """A page in the browser, with what it printed and which addresses it asked for."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        width: int = 1280,
        scheme: str = "light",
        tab: str = "attention",
    ) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        # Each new tab would start a process, which takes longer than all that a test does in it.
        self.page = browser.contexts[0].pages[0] if browser.contexts else browser.new_page()
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(color_scheme=scheme)
        self.page.mouse.move(0, 0)
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready]")
        if tab == "attention" and self.page.is_visible("#tab-attention"):
            self.page.click("#tab-attention")

    def weights(self, column: int = 0) -> dict[int, float]:
        """Return the weights listed for the chosen node: 0 attends to, 1 attended to by."""
        items = self.page.locator("#lists > div").nth(column).locator("li")
        pairs = items.evaluate_all("all => all.map(one => [one.dataset.node, one.dataset.weight])")
        return {int(node): float(weight) for node, weight in pairs}

    def reasons(self) -> list[str]:
        """Return the reasons of the first tab as text, those for the answer first."""
        items = self.page.locator("#evidence li")
        return [" ".join(item.locator("span").all_text_contents()) for item in items.all()]

    def choose(self, layer: str, head: str) -> None:
        self.page.select_option("#layer", layer)
        self.page.select_option("#head", head)

    def find(self, text: str) -> None:
        """Pin the first node whose label contains a text."""
        self.page.fill("#search", text)
        self.page.press("#search", "Enter")


def layer(name: str, graph: graphs.Graph, heads: int = 2) -> LayerRecord:
    weights = ew.edge_softmax(2 * torch.randn(graph.num_edges, heads), graph)
    return LayerRecord(name, graph, weights, list(range(heads)), module=name)


def explanation(
    layers: list[LayerRecord], labels: list[str], kind: Any = "sequence", **more: Any
) -> explain.Explanation:
    recorded = Recorded()
    recorded.layers = layers
    return explain.Explanation(recorded, labels, kind, **more)


def sentence(heads: int = 2, depth: int = 2) -> explain.Explanation:
    graph = graphs.complete().bind(len(WORDS))
    return explanation([layer(f"layers.{i}", graph, heads) for i in range(depth)], WORDS)


def row(record: LayerRecord, target: int, head: int) -> dict[int, float]:
    """Return the weights of a target's sources."""
    source, targets = record.edge_index
    chosen = targets == target
    values = record.weights[chosen, head].tolist()
    return dict(zip(source[chosen].tolist(), values, strict=True))


def column(record: LayerRecord, source: int, head: int) -> dict[int, float]:
    """Return the weights with which targets attend to a source."""
    sources, target = record.edge_index
    chosen = sources == source
    values = record.weights[chosen, head].tolist()
    return dict(zip(target[chosen].tolist(), values, strict=True))


def test_a_click_shows_the_weights_that_python_computed(chromium: Any, tmp_path: Path) -> None:
    found = sentence()
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    opened.choose("1", "1")
    box = opened.page.locator("#drawing").bounding_box()
    opened.page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 0.3 * box["height"])
    target = int(opened.page.text_content("#pinned").split(":")[0])
    record = found.recorded.layers[1]
    assert opened.page.text_content("#pinned") == f"{target}: {WORDS[target]}"
    assert opened.weights() == pytest.approx(row(record, target, 1), abs=1e-4)
    assert opened.weights(1) == pytest.approx(column(record, target, 1), abs=1e-4)
    opened.page.mouse.move(0, 0)
    assert opened.weights() == pytest.approx(row(record, target, 1), abs=1e-4)  # pinned
    opened.page.keyboard.press("Escape")
    assert opened.weights() == {}
    assert opened.messages == []
    assert opened.requests == [(tmp_path / "page.html").as_uri()]


SOON = """name => {
  const [layer, canvas] = ["layer", "drawing"].map((id) => document.getElementById(id));
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + 0.2 * box.width, clientY: box.top + 0.3 * box.height };
  const texts = [];
  for (const type of ["pointermove", "click"]) {
    layer.value = "1";
    layer.dispatchEvent(new Event("change"));
    canvas.dispatchEvent(new PointerEvent(type, { ...at, bubbles: true }));
    texts.push(document.getElementById("pinned").textContent);
  }
  return texts;
}"""
"""Choose a layer and point at a node, without a drawing in between."""


def test_a_click_before_the_next_drawing_counts(chromium: Any, tmp_path: Path) -> None:
    opened = Opened(chromium, write_page(sentence(), tmp_path / "page.html"))
    hovered, pinned = opened.page.evaluate(SOON)
    assert opened.messages == []
    assert hovered == pinned
    assert re.fullmatch(r"\d+: \w+", pinned), pinned


def test_the_tooltip_does_not_outlast_the_drawing_it_is_about(
    chromium: Any, tmp_path: Path
) -> None:
    page = Opened(chromium, write_page(sentence(), tmp_path / "page.html")).page
    box = page.locator("#drawing").bounding_box()
    for number, key in enumerate(["ArrowRight", "ArrowDown", "v", "+", "j"]):
        x = box["x"] + (0.3 if number > 2 else 0.2) * box["width"] + number
        page.mouse.move(x, box["y"] + 0.3 * box["height"])
        assert page.is_visible("#tip"), key
        page.keyboard.press(key)
        assert page.is_hidden("#tip"), key


OPACITY = """() => {
  const canvas = document.getElementById("drawing");
  const height = Math.floor(canvas.height / 3);
  const column = canvas.getContext("2d").getImageData(canvas.width / 2, height, 1, height).data;
  return Array.from({ length: height }, (_, row) => column[4 * row + 3]);
}"""


def test_thousands_of_equal_lines_show_no_moire(chromium: Any, tmp_path: Path) -> None:
    graph = graphs.complete().bind(64)
    even = LayerRecord("layer", graph, torch.full((64 * 64, 1), 1 / 64), [0])
    found = explanation([even], [f"token{i}" for i in range(64)])
    page = Opened(chromium, write_page(found, tmp_path / "page.html")).page
    page.wait_for_function("document.getElementById('status').textContent")
    opacity = page.evaluate(OPACITY)
    for row in range(len(opacity) - 24):
        near = opacity[row : row + 24]  # the height of a token
        assert min(near) > 0.6 * max(near) > 0


def test_a_molecule_has_its_smiles_and_a_note_on_rollout_where_it_is_shown(
    chromium: Any, tmp_path: Path
) -> None:
    pytest.importorskip("rdkit")
    bonds = graphs.edges(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    layers = [layer(f"layers.{i}", bonds) for i in range(2)]
    layers.append(layer("attention", graphs.complete().bind(1, 3)))
    details = {"smiles": "CCO"}
    labels, places = ["C1", "C2", "O3"], torch.tensor([[0.0, 0], [1, 1], [2, 0]])
    found = explanation(layers, labels, "molecule", positions=places, details=details)
    found.answer = "y 1.5"
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    assert opened.page.text_content("#answer") == "CCO: y 1.5"
    aside = opened.page.locator("#attention aside")
    assert "Atoms are numbered from 1, in the order of the SMILES." in aside.text_content()
    assert "rollout" not in aside.text_content()
    opened.page.select_option("#layer", "rollout")
    note = "The rollout is of the 2 layers with the nodes of the first layer."
    assert note in aside.text_content()
    assert opened.messages == []


def test_means_maxima_and_rollout(chromium: Any, tmp_path: Path) -> None:
    found = sentence()
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    opened.find("quiet")
    weights = torch.stack([one.weights for one in found.recorded.layers])
    graph = found.recorded.layers[0].graph

    def expected(values: Tensor) -> Any:
        one = LayerRecord("", graph, values[:, None], [0])
        return pytest.approx(row(one, WORDS.index("quiet"), 0), abs=1e-4)

    opened.choose("0", "mean")
    assert opened.weights() == expected(weights[0].mean(-1))
    opened.choose("0", "maximum")
    assert opened.weights() == expected(weights[0].amax(-1))
    opened.choose("all", "mean")
    assert opened.weights() == expected(weights.mean((0, 2)))
    opened.page.select_option("#layer", "rollout")
    rollout = found.recorded.rollout()
    assert opened.weights() == expected(rollout[graph.target, graph.source])
    assert opened.messages == []


def test_cross_attention_names_both_sequences(chromium: Any, tmp_path: Path) -> None:
    read, written = ["ein", "Hund", "läuft"], ["<bos>", "a", "dog", "runs"]
    layers = [
        layer("encoder.0", graphs.complete().bind(3)),
        layer("encoder.1", graphs.complete().bind(3)),
        layer("decoder.0.attention", graphs.causal().bind(4)),
        replace(layer("decoder.0.cross_attention", graphs.complete().bind(4, 3)), is_cross=True),
    ]
    layers.append(layer("decoder.1.attention", graphs.causal().bind(4)))
    found = explanation(layers, read, "pair of sequences", target_labels=written)
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    assert opened.page.text_content("#pinned").startswith("3: decoder.0.cross_attention")
    opened.choose("3", "0")
    opened.find("dog")
    assert opened.weights() == pytest.approx(row(layers[3], 2, 0), abs=1e-4)
    names = opened.page.locator("#lists span").all_text_contents()[::2]
    assert sorted(names) == sorted(read)
    opened.choose("2", "1")
    assert opened.weights() == pytest.approx(row(layers[2], 2, 1), abs=1e-4)
    opened.page.select_option("#layer", "rollout")  # of the encoder
    opened.find("Hund")
    expected = dict(enumerate(found.recorded.rollout("encoder")[1].tolist()))
    assert opened.weights() == pytest.approx(expected, abs=1e-4)
    assert opened.messages == []


def test_a_graph_without_coordinates_gets_a_layout(chromium: Any, tmp_path: Path) -> None:
    graph = graphs.random(degree=3, seed=1).bind(60)
    names = [f"paper <{i}>" for i in range(60)]
    found = explanation([layer("convs.0", graph, 4)], names, "graph")
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    opened.choose("0", "2")
    opened.find("paper <17>")
    assert opened.weights() == pytest.approx(row(found.recorded.layers[0], 17, 2), abs=1e-4)
    assert opened.messages == []


def test_an_image_lies_under_its_patches(chromium: Any, tmp_path: Path) -> None:
    graph = graphs.complete().bind(17)  # a class token and 4 x 4 patches
    records = [layer(f"blocks.{i}", graph) for i in range(2)]
    names = ["class token", *(f"patch {i}" for i in range(16))]
    details = {"image": torch.rand(3, 16, 16)}
    found = explanation(records, names, "image", details=details)
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    opened.choose("1", "0")
    box = opened.page.locator("#drawing").bounding_box()
    middle = {"x": box["width"] / 2, "y": box["height"] / 2}
    opened.page.click("#drawing", position=middle)
    target = names.index(opened.page.text_content("#pinned"))
    assert target in (6, 7, 10, 11, 1 + 8)  # patches around the middle
    assert opened.weights() == pytest.approx(row(records[1], target, 0), abs=1e-4)
    assert opened.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_keys_and_exports(chromium: Any, tmp_path: Path, scheme: str) -> None:
    found = sentence(heads=12)
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"), 390, scheme)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.get_attribute("html", "data-theme") == scheme
    page.focus("#drawing")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.text_content("#pinned") == "1: film"
    assert page.input_value("#head") == "mean"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.input_value("#head") == "0"
    assert opened.weights() == pytest.approx(row(found.recorded.layers[0], 1, 0), abs=1e-4)
    for view in ("lines", "matrix"):
        assert page.get_attribute(f"[data-view={view}]", "aria-pressed") == "true"
        with page.expect_download() as saved:
            page.click("#svg")
        text = Path(saved.value.path()).read_text()
        assert text.startswith("<svg")
        assert "portrait" in text
        page.focus("#drawing")
        page.keyboard.press("v")
    with page.expect_download() as saved:
        page.click("#png")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == {"light": "dark", "dark": "light"}[scheme]
    assert page.text_content("#theme") == scheme.capitalize()
    assert page.text_content("#pinned") == "1: film"
    assert opened.messages == []


def test_a_page_in_a_notebook(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "notebook.html").write_text(f"<body data-ready>{sentence()._repr_html_()}")
    opened = Opened(chromium, tmp_path / "notebook.html")
    frame = opened.page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    assert "529" not in frame.locator("#status").text_content()
    assert frame.locator("#status").text_content() == f"{len(WORDS) ** 2} edges"
    assert opened.messages == []


def test_a_long_window_is_less_than_a_megabyte(chromium: Any, tmp_path: Path) -> None:
    graph = graphs.window(8).bind(16_384)
    words = [WORDS[i * 7919 % len(WORDS)] for i in range(16_384)]
    layers = [layer(f"layers.{i}", graph, 8) for i in range(4)]
    path = write_page(explanation(layers, words), tmp_path / "page.html")
    assert path.stat().st_size < 1_000_000
    opened = Opened(chromium, path)
    notes = opened.page.text_content("#notes")
    assert "4 of 32 heads are in full" in notes
    assert f"The strongest 100,000 of {graph.num_edges:,} edges are in the page" in notes
    number, head = map(int, (opened.page.input_value(f"#{name}") for name in ("layer", "head")))
    opened.page.focus("#drawing")
    opened.page.keyboard.press("j")
    shown, all_weights = opened.weights(), row(layers[number], 0, head)
    assert shown == pytest.approx({node: all_weights[node] for node in shown}, abs=0.01)
    assert max(all_weights, key=all_weights.__getitem__) in shown
    assert opened.messages == []


@pytest.mark.slow
def test_a_graph_of_100_000_edges_is_less_than_a_megabyte() -> None:
    ends = torch.randint(20_000, (2, 100_000))
    graph = graphs.edges(ends, (20_000, 20_000))
    layers = [layer(f"layers.{i}", graph, 4) for i in range(2)]
    page = html_page(explanation(layers, [f"node {i}" for i in range(20_000)], "graph"))
    assert len(page.encode()) < 1_000_000


def test_a_graph_that_is_too_large_is_shown_in_part(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes of the strongest edges keep their names and weights."""
    monkeypatch.setattr(page_module, "MAX_EDGES", 400)
    monkeypatch.setattr(page_module, "MAX_NODES", 300)
    graph = graphs.edges(torch.randint(2000, (2, 6000)), 2000)
    record = layer("layers.0", graph)
    recorded = Recorded()
    recorded.layers = [record]
    names = [f"node {i}" for i in range(2000)]
    details = {"node": 1234}
    found = explain.Explanation(recorded, names, "graph", details=details)
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    notes = opened.page.text_content("#notes")
    assert "The strongest 150 of 6,000 edges are in the page" in notes
    shown = int(re.search(r"The (\d+) of 2,000 nodes", notes)[1])  # type: ignore[index]
    assert 150 <= shown <= 301
    assert opened.page.text_content("#pinned").endswith("node 1234")
    for side, ends in enumerate((graph.target, graph.source)):
        assert len(opened.weights(side)) == int((ends == 1234).sum()) > 0
    parts = page_module._Page(found, None)
    parts.data()
    opened.choose("0", "1")
    for name in parts.sides[0][::40]:
        opened.find(name)
        assert opened.page.text_content("#pinned") == name
        exact = [0.0, *row(record, names.index(name), 1).values()]
        for value in opened.weights().values():
            assert min(abs(value - other) for other in exact) < 1e-3
    assert opened.messages == []


NUMBERS = [8.25, -3.99996, 1.0, -0.75, 0.1, -0.0123456, 2.5e-5, -1e-9, 311026.48, 2.5e16]


def test_the_reasons_have_the_digits_of_python(chromium: Any, tmp_path: Path) -> None:
    """The page opens on them: evidence for the answer, then evidence against it."""
    found = sentence()
    values = torch.tensor([*NUMBERS, 0.0], dtype=torch.double)
    case = explain.Case(lambda: torch.ones(1), torch.arange(11), WORDS, "praise")
    scores = explain.Contributions(values, torch.zeros(2, 0), torch.zeros(0), "removed")
    found.reasons = [attribution("a film", case, scores, None, [Reason("network", 1.0)])]
    found.details |= {"input": "a film", "fidelity": ("sst2", {"removed": 0.528})}
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"), tab="reasons")
    named = found.reasons[0].reasons
    ordered = [r for r in named if r.contribution > 0] + [r for r in named if r.contribution < 0]
    assert opened.reasons() == list(map(str, ordered))
    page = opened.page
    assert page.text_content("#title") == "a film"
    assert page.locator("#method option").all_text_contents() == ["removed, fidelity 0.528"]
    assert page.locator("#evidence h3").all_text_contents() == [
        *("Evidence for praise", "Evidence against praise")
    ]
    assert "network +1.000 (100 %)" in page.text_content("#parts")
    assert page.locator(".word").count() == len(WORDS)
    assert page.is_hidden("#drawing")
    page.click("#tab-attention")
    assert page.is_visible("#drawing")
    assert opened.messages == []


@pytest.mark.slow("nodes", "images")
@pytest.mark.parametrize("kind", ["molecules", "nodes", "images", "series", "tags", "links"])
def test_the_reasons_of_a_page_are_those_of_python(
    kind: str, chromium: Any, tmp_path: Path, run_of: Callable[[str], Any]
) -> None:
    run = run_of(kind)
    values = {"molecules": "CC(=O)O", "nodes": "p3", "tags": "the cat sat", "links": "m3"}
    value = values.get(kind)
    if kind == "images":
        value = pytest.importorskip("PIL.Image").new("L", (8, 8), 99)
    elif kind == "series":
        value = run.predictor.training_series
    found = explain.explanation(run, value)
    path = write_page(found, tmp_path / "page.html")
    opened = Opened(chromium, path, 390, tab="reasons")
    (expected, *_) = run.explain([value], top=100)
    assert sorted(opened.reasons()) == sorted(map(str, expected.reasons))
    if kind == "images":
        assert opened.page.text_content("#title") == "image of 8 × 8 pixels"
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.page.locator("#input > *").count() == 1
    if kind == "links":
        link = f"a link between m3 and {expected.answer}"
        headings = opened.page.locator("#evidence h3").all_text_contents()
        assert headings == [f"Evidence for {link}", f"Evidence against {link}"]
        verdict = opened.page.text_content("#verdict")
        assert verdict == f"{link}, score {rounded(expected.score)}"
    methods = opened.page.locator("#method option").count()
    most = len(get_args(Method)) - 1  # all but "auto"
    assert methods == {"links": 1, "series": most - 1}.get(kind, most)  # series: not "removed"
    opened.page.select_option("#method", str(methods - 1))
    if kind == "tags":  # the second word
        opened.page.click("#answers button:nth-child(2)")
        opened.page.select_option("#method", "0")
        expected = run.explain([value], top=100)[1]
        assert sorted(opened.reasons()) == sorted(map(str, expected.reasons))
    assert opened.messages == []


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_of_nodes_are_short_inside_the_drawing_and_apart(
    width: int, chromium: Any, tmp_path: Path
) -> None:
    count = 30
    labels = [f"http://example.org/people#person{n}" for n in range(count - 1)]
    labels.append('"http://example.org/a/"^^<http://www.w3.org/2001/XMLSchema#string>')
    star = torch.stack([torch.arange(1, count), torch.zeros(count - 1, dtype=torch.long)])
    found = explanation([layer("convs.0", graphs.edges(star, count))], labels, "graph")
    case = explain.Case(
        lambda: torch.ones(1), torch.arange(count), labels, own=torch.tensor([0]), by_edge=True
    )
    values = torch.linspace(1, 2, count - 1)
    scores = explain.Contributions(torch.zeros(count), star.flip(0), values, "removed")
    found.reasons = [attribution(labels[0], case, scores, None, [])]
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"), width, tab="reasons")
    assert opened.reasons()[0] == f'person0-"a/" {rounded(2.0, "+")}'
    box = (
        "one => { const b = one.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]}"
    )
    left, right, *_ = opened.page.locator("#input svg").evaluate(box)
    names = opened.page.locator("#input svg > text")
    boxes = names.evaluate_all(f"all => all.map({box})")
    assert len(boxes) > 8
    assert "person0" in names.all_text_contents()[0]
    for index, (first, last, top, bottom) in enumerate(boxes):
        assert left - 1 <= first
        assert last <= right + 1
        for other, stop, high, low in boxes[:index]:
            overlap = min(last, stop) - max(first, other), min(bottom, low) - max(top, high)
            assert min(overlap) < 6, names.all_text_contents()
    unnamed = "some nodes have no room for a name" in opened.page.text_content("#colours")
    assert unnamed == (len(boxes) < opened.page.locator("#input svg > circle.node").count())
    assert opened.messages == []


def test_many_answers_are_a_list_to_choose_from(chromium: Any, tmp_path: Path) -> None:
    found = sentence()
    for number in range(25):
        case = explain.Case(lambda: torch.ones(1), torch.arange(11), WORDS, f"step {number}")
        values = torch.full((11,), number + 1.0)
        scores = explain.Contributions(values, torch.zeros(2, 0), torch.zeros(0), "removed")
        found.reasons.append(attribution("a film", case, scores, None, []))
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"), tab="reasons")
    assert opened.page.locator("#answers button").count() == 0
    opened.page.select_option("#answers select", "7")
    assert opened.reasons()[0].endswith("+8.000")
    assert opened.page.text_content("#verdict").startswith("step 7, probability")


def test_an_only_source_is_faint_and_two_hops_are_drawn(chromium: Any, tmp_path: Path) -> None:
    """The weight of an only source is 1 for any model. Classes colour the nodes."""
    chain = graphs.edges(torch.tensor([[1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]), 6)
    details = {"node": 0, "classes": (["art", "law"], [0, 1, 0, 1, 0, 1])}
    found = explanation([layer("convs.0", chain)], list("abcdef"), "graph", details=details)
    opened = Opened(chromium, write_page(found, tmp_path / "page.html"))
    page = opened.page
    page.wait_for_selector("#status:has-text('drawn')")
    assert page.text_content("#status") == "2 of 5 edges drawn"  # 1 → 0 and 2 → 1
    bars = page.locator("#lists i").evaluate_all("all => all.map((bar) => bar.style.width)")
    assert bars[0] == "2%"
    assert "the only source of a target" in page.text_content("#legend")
    assert page.text_content("#classes") == "Predicted class:artlaw"
    assert opened.messages == []


def test_chosen_heads_are_in_full() -> None:
    page = html_page(sentence(), heads=[("layers.1", 0)])
    assert len(page) < len(html_page(sentence()))
    with pytest.raises(ArgumentError, match=r"recorded layers and heads: layers.0 \[0, 1\]"):
        html_page(sentence(), heads=[("layers.1", 2)])


def test_a_page_says_that_a_sum_is_not_attention() -> None:
    graph = graphs.complete().bind(3)
    records = {
        reduce: LayerRecord("sum", graph, torch.full((9, 1), weight), [0], kind="aggregation")
        for reduce, weight in (("sum", 1.0), ("mean", 1 / 3))
    }
    for reduce, record in records.items():
        page = page_module._Page(explanation([record], ["a", "b", "c"], "graph"), None)
        page.data()
        assert page.layers[0].entropy == pytest.approx([math.log(3)], rel=1e-5)
        assert any("a sum, not attention" in note for note in page.notes) == (reduce == "sum")


def test_weights_of_a_sum_are_not_called_attention(chromium: Any, tmp_path: Path) -> None:
    graph = graphs.complete().bind(3)
    for kind, words in (("attention", "attends to"), ("aggregation", "receives from")):
        record = replace(layer("layers.0", graph), kind=kind)
        explained = explanation([record], ["a", "b", "c"], "graph", details={"node": 0})
        page = Opened(chromium, write_page(explained, tmp_path / f"{kind}.html")).page
        title = "Attention" if kind == "attention" else "Weights"
        assert page.text_content("#title") == f"{title} over a graph"
        assert page.text_content("#tab-attention") == title
        assert page.text_content("#lists h3") == words
        assert ("attend" in page.text_content("#stage")) == (kind == "attention")


def test_the_bundle_is_made_of_the_sources() -> None:
    """`make page` makes it."""
    names = sorted(path.name for path in FOLDER.iterdir())
    kept = re.compile(r"(?!page\.html$).*\.(js|css|html)$|package\.json$")
    digest = hashlib.sha256()
    for name in filter(kept.match, names):
        digest.update(f"{name}\n{(FOLDER / name).read_text()}".encode())
    bundle = (FOLDER / "page.html").read_text()
    assert f"sources: {digest.hexdigest()}" in bundle
    assert len(bundle.encode()) < 400_000
    assert "https://" not in bundle.replace("https://opensource.org/licenses", "")


def test_the_command_writes_a_page(
    chromium: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_runs.sentences(tmp_path)
    capsys.readouterr()
    out = tmp_path / "pages" / "page.html"
    assert main(["explain", str(run), "a big film", "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out)
    opened = Opened(chromium, out)
    assert "praise" in opened.page.text_content("#answer")
    found = explain.explanation(ew.load(run), "a big film")
    opened.choose("1", "3")
    opened.find("film")
    target = [label.strip() for label in found.labels].index("film")
    assert opened.weights() == pytest.approx(row(found.recorded.layers[1], target, 3), abs=1e-4)
    assert opened.messages == []
    several = ["explain", str(run), "a film", "a cat", "--out", str(out)]
    assert main(several) == 0
    assert sorted(path.name for path in out.parent.iterdir()) == [
        *("page-1.html", "page-2.html", "page.html")
    ]


def test_a_page_needs_the_name_of_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nowhere", "x", "--out", "page.png"]) == 2
    assert "--out attention.html" in capsys.readouterr().err
