"""Figures of weights: what is on their axes, and files that they are saved to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from edgewise import explain, graphs, models
from edgewise.explain.explanation import Explanation
from edgewise.explain.figures import draw_head, draw_heads, draw_rollout
from edgewise.explain.record import Recorded
from tests.errors import refused

pytest.importorskip("matplotlib")
TOKENS = ["<cls>", "a", "$big$", "film", "<sep>"]


@pytest.fixture
def recorded() -> Recorded:
    torch.manual_seed(0)
    model = models.bert(11, width=8, depth=3, heads=2, ffn_dim=8).eval()
    with explain.record(model) as found:
        model(torch.arange(2, 7)[None])
    return found


def drawn(figure: Any) -> Any:
    """Draw the figure, so that its layout and texts are computed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    return figure


def texts(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_a_head_has_its_tokens_on_both_axes(recorded: Recorded, tmp_path: Path) -> None:
    found = Explanation(recorded, TOKENS, "sequence", answer="praise")
    figure = drawn(draw_head(found, 1, 1, path=tmp_path / "head.png"))
    matrix, bar = figure.axes
    assert texts(matrix) == ["<cls>", "a", r"\$big\$", "film", "<sep>"]
    assert (matrix.get_xlabel(), matrix.get_ylabel()) == ("source", "target")
    assert bar.get_ylabel() == "attention weight"
    assert "layers.1" in figure.get_suptitle()
    assert "head 1" in figure.get_suptitle()
    assert "praise" in figure.get_suptitle()
    shown = torch.tensor(matrix.images[0].get_array().filled(float("nan")))
    expected = torch.zeros(5, 5)
    layer = recorded[1]
    expected[layer.graph.target, layer.graph.source] = layer.weights.view(25, 2)[:, 1]
    torch.testing.assert_close(shown.float(), expected)
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")


def test_some_of_many_nodes_are_named_by_their_own_names() -> None:
    model = models.transformer_encoder(8, depth=1, heads=2).eval()
    with explain.record(model) as recorded:
        model(torch.randn(100, 8), graphs.complete())
    names = [f"{step} before" for step in range(100)]
    matrix = drawn(draw_head(Explanation(recorded, names, "sequence"), 0, 0)).axes[0]
    assert texts(matrix) == names[::3]
    assert matrix.get_xticks().tolist() == list(range(0, 100, 3))


def test_without_a_head_the_mean_is_drawn(recorded: Recorded) -> None:
    figure = drawn(draw_head(recorded, 0))
    assert "mean over heads" in figure.get_suptitle()
    values = figure.axes[0].images[0].get_array()
    assert float(values.sum()) == pytest.approx(5, abs=1e-4)


@pytest.mark.slow
def test_all_heads_are_a_grid(recorded: Recorded, tmp_path: Path) -> None:
    figure = drawn(draw_heads(recorded, path=tmp_path / "heads.svg"))
    grid = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in grid] == ["head 0", "head 1"] * 3
    assert [axes.get_ylabel() for axes in grid[::2]] == [f"layer {i}\ntarget" for i in range(3)]
    assert [axes.get_xlabel() for axes in grid[-2:]] == ["source"] * 2
    assert "<svg" in (tmp_path / "heads.svg").read_text()
    assert len(drawn(draw_heads(recorded, [2])).axes) == 3


@pytest.fixture
def pruned() -> Recorded:
    torch.manual_seed(0)
    model = models.bert(11, width=8, depth=2, heads=4, ffn_dim=8).eval()
    explain.prune(model, {next(iter(explain.layers_with_heads(model))): [0, 2]})
    with explain.record(model) as found:
        model(torch.arange(2, 7)[None])
    return found


def test_statistics_are_drawn_under_the_numbers_of_the_heads(pruned: Recorded) -> None:
    scores = {layer.module: torch.arange(1.0, 1 + len(layer.heads)) for layer in pruned}
    figure = drawn(explain.draw_statistics(pruned, scores))
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert texts(panels["importance"]) == ["0", "1", "2", "3"]
    shown = panels["importance"].images[0].get_array().filled(-1).tolist()
    assert shown == [[-1, 1, -1, 2], [1, 2, 3, 4]]
    assert panels["weight of hubs"].images[0].get_clim() == (0, 1)  # all values are 0
    assert len(panels) == 6
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    few = drawn(explain.draw_statistics(pruned, ordered=False))
    titles = {axes.get_title() for axes in few.axes} - {""}
    assert titles == {"entropy / entropy of equal weights", "weight of the node itself",
                      "weight of hubs"}  # fmt: skip
    pruned[0].heads, pruned[0].weights = [1], pruned[0].weights[..., :1]
    with refused("recorded", expected="all 2 heads", got="1 head", remedy="heads="):
        explain.draw_statistics(pruned, scores)


def test_rollout_has_a_matrix_for_each_layer(recorded: Recorded) -> None:
    found = Explanation(recorded, TOKENS, "sequence")
    figure = drawn(draw_rollout(found))
    matrices = [axes for axes in figure.axes if axes.images]
    titles = [axes.get_title() for axes in matrices if axes.get_title()]
    assert titles == [f"up to layer {i}" for i in range(3)]
    assert len({axes.images[0].get_clim() for axes in matrices[:3]}) == 1  # of one colour bar
    shown = torch.tensor(matrices[2].images[0].get_array().filled(float("nan")))
    torch.testing.assert_close(shown.float(), recorded.rollout().view(5, 5))


def test_nodes_with_positions_are_drawn_beside_the_matrix() -> None:
    model = models.transformer_encoder(8, depth=1, heads=2).eval()
    with explain.record(model) as recorded:
        model(torch.randn(9, 8), graphs.grid(3, 3))
    figure = drawn(draw_head(recorded, 0, 0))
    assert figure.axes[0].get_title() == "edges, darker for larger weights"
    assert figure.axes[0].collections
    matrix = figure.axes[1].images[0].get_array()
    assert matrix.mask.sum() == 81 - recorded[0].graph.num_edges  # no edge is not a weight of 0


def test_large_matrices_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.explain.figures.MAX_PIXELS", 4)
    graph = graphs.complete().bind(8)
    recorded = Recorded()
    weights = torch.eye(8).flatten()[:, None]
    recorded.layers.append(explain.LayerRecord("layer", graph, weights, [0]))
    matrix = drawn(draw_head(recorded, 0)).axes[0]
    torch.testing.assert_close(
        torch.tensor(matrix.images[0].get_array().filled(float("nan"))).float(), 0.5 * torch.eye(4)
    )
    assert "means over nodes" in matrix.get_xlabel()


def test_bad_requests_are_named(recorded: Recorded) -> None:
    with refused("member", expected="from 0 to 0", got="1", remedy="choose"):
        draw_head(recorded, 0, member=1)
    with refused("head", expected="0, 1", got="2", remedy="choose"):
        draw_head(recorded, 0, 2)
    with refused("layer", expected="3 recorded layers", got="7", remedy="layers"):
        draw_heads(recorded, [7])


def test_a_graph_is_drawn_with_weights() -> None:
    graph = graphs.window(1).bind(4)
    weights = torch.arange(1.0, graph.num_edges + 1)
    figure = drawn(graph.draw(weights=torch.stack([weights, 3 * weights], dim=1)))
    nodes, matrix, bar = figure.axes
    assert bar.get_ylabel() == "weight"
    values = matrix.images[0].get_array()
    assert float(values.sum()) == pytest.approx(float(2 * weights.sum()))
    assert values.mask.sum() == 16 - graph.num_edges
    widths = nodes.collections[0].get_linewidths()
    assert max(widths) == pytest.approx(2.3)
    assert len(set(widths)) == 6  # without the four self-loops
    with refused("weights", expected="[10], or [10, heads]", got="[9]", remedy="edge_index"):
        graph.draw(weights=weights[1:])
