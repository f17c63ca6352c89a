"""Numbers of nodes: found by their values, learned, predicted, explained, and with baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("lightning")

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import NodeCases, NodeFiles
from edgewise.app.runs import Run, baselines, best_of, train, train_seeds, with_values
from edgewise.app.train import Recipe
from tests.errors import refused

COUNT = 90
FAST = {"trainer.accelerator": "cpu", "trainer.epochs": 120, "model.width": 16}


def write(folder: Path, *, numbers: bool = True) -> np.ndarray:
    """Houses whose price follows their own size and the mean size of their neighbours."""
    random = np.random.default_rng(0)
    size = random.normal(size=COUNT)
    pairs = [(i, (i + step) % COUNT) for i in range(COUNT) for step in (1, 3)]
    near: list[list[int]] = [[] for _ in range(COUNT)]
    for one, other in pairs:
        near[one].append(other)
        near[other].append(one)
    price = 500 + 20 * (size + 2 * np.array([size[each].mean() for each in near]))
    cells = ["" if i % 9 == 4 or not numbers else f"{price[i]:.2f}" for i in range(COUNT)]
    rows = [f"h{i},{size[i]:.3f},{cells[i]}" for i in range(COUNT)]
    (folder / "nodes.csv").write_text("\n".join(["house,size,price", *rows]))
    edges = [f"h{one},h{other}" for one, other in pairs]
    (folder / "edges.csv").write_text("\n".join(["from,to", *edges]))
    return price


def recipe(folder: Path, **fields: Any) -> Recipe:
    own = {"nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
    given = {f"data.{name}": value for name, value in {**own, "target": "price"}.items()}
    return with_values(find("nodes"), {**given, **FAST, **fields})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("houses")
    write(folder)
    train(recipe(folder), folder / "run")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return edgewise.load(folder / "run")


@pytest.mark.slow
def test_numbers_are_learned_in_their_unit(folder: Path, run: Run) -> None:
    assert {f"test/{name}" for name in ("rmse", "mae", "r2", "loss")} <= set(run.metrics)
    assert run.metrics["test/r2"] > 0.7
    price = write(folder)
    unknown = [i for i in range(COUNT) if i % 9 == 4]
    found = run.predict([f"h{i}" for i in unknown])
    error = np.abs([answer["price"] for answer in found] - price[unknown]).mean()
    assert error < 0.5 * np.abs(price[unknown] - price.mean()).mean()


def test_a_number_has_an_interval_and_no_classes(run: Run) -> None:
    (answer,) = run.predict(["h4"], interval=0.8)
    assert answer["price_low"] < answer["price"] < answer["price_high"]
    with refused("option", expected="interval", got="'top'", remedy="choose"):
        run.predict(["h4"], top=2)


def test_the_nodes_of_a_new_graph_have_numbers(run: Run, tmp_path: Path) -> None:
    write(tmp_path, numbers=False)
    found = run.predict(tmp_path)
    again = run.predict([f"h{i}" for i in range(COUNT)])
    assert [a["price"] for a in found] == pytest.approx([a["price"] for a in again], rel=1e-5)


def test_seeds_are_an_ensemble(folder: Path, tmp_path: Path) -> None:
    train_seeds(recipe(folder, **{"trainer.epochs": 5}), 2, tmp_path / "seeds")
    both = edgewise.load(tmp_path / "seeds")
    members = [edgewise.load(tmp_path / "seeds" / f"seed-{seed}") for seed in (0, 1)]
    each = np.array([[answer["price"] for answer in one.predict(folder)] for one in members])
    for found in (both.predict(folder), both.predict([f"h{i}" for i in range(COUNT)])):
        assert [one["price"] for one in found] == pytest.approx(each.mean(0), rel=1e-5)
        assert [one["price_std"] for one in found] == pytest.approx(
            each.std(0, ddof=1), rel=1e-3, abs=1e-3
        )
    numbers = both.predictor.all_outputs[[3, 40], 0]  # type: ignore[attr-defined]
    scores = NodeCases(both.predictor).case([3, 40]).score()  # type: ignore[arg-type]
    torch.testing.assert_close(scores, numbers, rtol=1e-5, atol=1e-4)
    (answer,) = both.predict(["h4"], interval=0.8)
    assert answer["price_low"] < answer["price"] < answer["price_high"]


def test_neighbours_are_named_as_reasons_in_the_unit(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    every = NodeCases(run.predictor)  # type: ignore[arg-type]
    assert every.hops == 2
    numbers = run.predictor.all_outputs[[3, 40], 0]  # type: ignore[attr-defined]
    torch.testing.assert_close(every.case([3, 40]).score(), numbers, rtol=1e-5, atol=1e-4)
    (found,) = run.explain(["h40"], top=20)
    assert found.answer == f"{float(numbers[1]):.4g}"
    assert found.meaning.startswith("decrease of the predicted value")
    assert {"h37", "h39", "h41", "h43"} <= {reason.part for reason in found.reasons}
    assert len(run.explain([f"h{i}" for i in range(COUNT)])) == COUNT
    assert main(["predict", str(run.path), "h40", "--why", "2"]) == 0
    assert "price" in capsys.readouterr().out
    main(["influence", str(run.path), "--top", "3"])
    assert "h" in capsys.readouterr().out


def test_the_baselines_are_ridge_regressions(folder: Path) -> None:
    found = list(baselines(recipe(folder)))
    assert [one.name for one in found] == [
        "ridge regression",
        "ridge regression on smoothed features",
    ]
    assert all({"test/rmse", "test/mae", "test/r2"} <= set(one.metrics) for one in found)
    best = best_of(recipe(folder), found)
    assert best.metrics["val/rmse"] == min(one.metrics["val/rmse"] for one in found)


@pytest.mark.parametrize(
    ("labels", "task_type", "numeric"),
    [
        ([f"{i / 3:.2f}" for i in range(60)], "auto", True),
        ([str(7 * i) for i in range(60)], "auto", True),
        ([str(i % 25) for i in range(60)], "auto", False),
        ([str(i % 3) for i in range(60)], "auto", False),
        ([str(i % 3) for i in range(60)], "regression", True),
        ([f"{i % 3 / 2}" for i in range(60)], "classification", False),
        (["NA", *[f"{i / 3:.2f}" for i in range(59)]], "auto", True),
        (["low", "high"] * 30, "auto", False),
    ],
)
def test_labels_are_numbers_by_their_values(
    tmp_path: Path, labels: list[str], task_type: str, numeric: bool
) -> None:
    rows = [f"n{i},{i % 7},{label}" for i, label in enumerate(labels)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,age,y", *rows]))
    (tmp_path / "edges.csv").write_text("a,b\nn0,n1\nn2,n3\n")
    files = {"nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}
    splits = NodeFiles(**files, task_type=task_type).load()
    assert bool(splits.targets) == numeric
    count = sum(len(part.make(torch.tensor([0])).target) for part in (splits.train, splits.val))
    count += len(splits.test.make(torch.tensor([0])).target)
    assert count == 60 - labels.count("NA")
    if numeric:
        assert splits.targets[0].name == "y"
        assert splits.model_arguments["out_width"] == 1


def test_a_label_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age,y\na,1,1.5\nb,2,high\n")
    (tmp_path / "edges.csv").write_text("a,b\n")
    files = {"nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}
    with refused("data.target", expected="finite numbers", got="'high' in row 3", remedy="correct"):
        NodeFiles(**files, task_type="regression").load()


def test_arrays_of_numbers_are_not_truncated_to_classes(tmp_path: Path) -> None:
    y = np.arange(40) / 4
    y[3] = np.nan
    pairs = np.array([[0, 1, 2], [1, 2, 3]])
    np.savez(tmp_path / "g.npz", edge_index=pairs, x=np.random.rand(40, 2), y=y)
    splits = NodeFiles(nodes=str(tmp_path / "g.npz")).load()
    parts = [part.make(torch.tensor([0])) for part in (splits.train, splits.val, splits.test)]
    for part in parts:
        torch.testing.assert_close(part.target[:, 0], part.select.double() / 4)
    assert sum(len(part.target) for part in parts) == 39
