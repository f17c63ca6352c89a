"""Every pattern has a picture (warnings are errors)."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from edgewise import graphs
from edgewise.graphs import Graph
from edgewise.graphs.drawing import MOST_LINES
from tests.graphs.specification import REPRESENTATIVES, Spec

LineCollection = pytest.importorskip("matplotlib.collections").LineCollection


def picture(graph: Graph) -> torch.Tensor:
    """The pixels of the drawn graph."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(graph.draw())
    canvas.figure.set_dpi(30)
    canvas.draw()
    return torch.frombuffer(bytearray(canvas.buffer_rgba()), dtype=torch.uint8)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("spec", REPRESENTATIVES, ids=str)
def test_every_pattern_has_a_picture(spec: Spec) -> None:
    sizes = [n for n in (8, 6, 5, 4, 3, 2, 1, 0) if spec.matrix(n, n) is not None]
    assert picture(spec.bind(sizes[0], sizes[0])).unique().numel() > 1


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(
    "sizes", [(0, 0), (1, 1), (0, 3), (3, 0), (1, 4), (4, 1), (40, 40)], ids=str
)
@pytest.mark.parametrize("pattern", [graphs.complete(), graphs.empty()], ids=repr)
def test_odd_sizes_have_a_picture(pattern: graphs.Pattern, sizes: tuple[int, int]) -> None:
    assert picture(pattern.bind(*sizes)).unique().numel() > 1


def test_the_picture_shows_the_edges() -> None:
    plain, looped = graphs.empty().bind(4), graphs.window(0).bind(4)
    linked = graphs.edges(torch.tensor([[0], [2]]), 4)
    assert not picture(plain).equal(picture(looped))
    assert not picture(plain).equal(picture(linked))
    assert picture(plain).equal(picture(graphs.empty().bind(4)))


def test_a_large_graph_is_thinned() -> None:
    """10,000 edges would be a grey disc, and take seconds."""
    figure = graphs.random(20).draw(nodes=500)
    lines = [c for axes in figure.axes for c in axes.collections if isinstance(c, LineCollection)]
    assert 0 < sum(len(collection.get_segments()) for collection in lines) <= MOST_LINES


def test_saving(tmp_path: Path) -> None:
    path = tmp_path / "window.png"
    graphs.window(2).draw(path, nodes=5)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("spec", REPRESENTATIVES, ids=str)
def test_every_small_graph_is_drawn_in_a_notebook(spec: Spec) -> None:
    sizes = [n for n in (8, 6, 5, 4, 3, 2, 1, 0) if spec.matrix(n, n) is not None]
    graph = spec.bind(sizes[0], sizes[0])
    tree = ElementTree.fromstring(graph._repr_html_())
    (loops, own) = (sum(i == j for j, i in graph.edge_index.t().tolist()), graph.num_edges)
    assert len(tree.findall(".//{*}line")) == own - loops
    assert len(tree.findall(".//{*}circle")) == loops + sizes[0]
    for circle in tree.findall(".//{*}circle"):
        assert 0 <= float(circle.get("cx")) <= 220
        assert 0 <= float(circle.get("cy")) <= 220


def test_a_pattern_is_shown_on_some_nodes_and_by_its_name() -> None:
    shown = ElementTree.fromstring(graphs.window(2)._repr_html_())
    assert len(shown.findall(".//{*}line")) == graphs.window(2).bind(16).num_edges - 16
    assert "".join(shown.itertext()) == "window(2), on 16 nodes"
    assert graphs.grid(3, 7)._repr_html_() == "<code>grid(3, 7)</code>"


def test_a_large_graph_is_counted_in_a_notebook() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2], [5, 5, 5]]), 100)
    text = " ".join(ElementTree.fromstring(graph._repr_html_()).itertext())
    assert "0 to 3, mean 0.0" in text
    assert "99 nodes" in text
    assert "0.03% of all pairs" in text
    assert "svg" not in graph._repr_html_()
    assert "3 edges" in graph.to("meta")._repr_html_()
