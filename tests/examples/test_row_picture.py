"""What the last token reads, layer by layer: the weights are the model's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from edgewise_examples import row_picture
from edgewise_examples.row_picture import attention_by_layer, pools_last_of_a_row

from edgewise import graphs, models
from edgewise.app.cli import main


def row_model(pool: str = "last", image_size: tuple[int, int] = (8, 64), graph: str = "window(2)"):
    torch.manual_seed(0)
    numbers = {"patch": 8, "width": 16, "depth": 2, "heads": 2, "pool": pool}
    return models.vit(image_size, 1, 10, graph=graphs.parse(graph), **numbers).eval()


def test_only_models_that_answer_at_the_last_of_a_row_are_drawn() -> None:
    assert pools_last_of_a_row(row_model())
    assert not pools_last_of_a_row(row_model("mean"))
    assert not pools_last_of_a_row(row_model(image_size=(64, 64)))


@pytest.mark.parametrize("graph", ["window(1)", "window(2)", "window(4)", "complete()"])
def test_the_weights_are_on_the_edges_and_sum_to_one(graph: str) -> None:
    model = row_model(graph=graph)
    weights, _ = attention_by_layer(model, torch.rand(1, 1, 8, 64))
    reads = graphs.parse(graph).bind(8).dense()
    assert len(weights) == 2
    for layer in weights:
        assert torch.equal(layer > 0, reads)
        torch.testing.assert_close(layer.sum(1), torch.ones(8))


def test_two_layers_reach_as_far_as_the_walks_of_the_graph() -> None:
    """The first digit moves the answer where, and only where, word of it can come."""
    for radius in range(1, 5):
        model = row_model(graph=f"window({radius})")
        image = torch.rand(1, 1, 8, 64, requires_grad=True)
        (grad,) = torch.autograd.grad(model(image).sum(), image)
        moved = grad[0, 0, :, :8].abs().sum() > 0
        (first, second), _ = attention_by_layer(model, image.detach())
        assert bool(moved) == bool((second @ first)[-1, 0] > 0) == (2 * radius >= 7)


@pytest.mark.slow
def test_the_picture_of_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("matplotlib")
    tiny = ["--model.width=8", "--model.heads=1", "--data.count=64", "--data.tested=32"]
    tiny += ["--trainer.epochs=1", "--trainer.accelerator=cpu", "--out", str(tmp_path / "runs")]
    words = ["compare", "digit-rows", "model.graph", "empty()", "complete()", "--seeds", "2"]
    assert main([*words, *tiny]) == 0
    assert " ± " in capsys.readouterr().out
    assert row_picture.main([str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert "attention.png" in out
    assert "attention.html" in out
    assert "With complete(), " in out
    assert "With empty(), no attention can reach it" in out
    assert "over an image" in (tmp_path / "runs" / "attention.html").read_text()
    from matplotlib.image import imread

    picture = imread(tmp_path / "runs" / "attention.png")
    drawn = (picture[200:] < 0.9).any(-1).mean()
    assert drawn > 0.01, "digits and lines below the title"
    page = (tmp_path / "runs" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 1
    assert "2 seeds" in page
