"""Windows of a series: cut in time, with what the last season says beside the truth."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgewise import models
from edgewise.app.kinds import find
from edgewise.app.kinds.series import Forecast, TimeSeries
from tests.errors import refused

metrics = pytest.importorskip("edgewise.app.train.tasks.regression_metrics")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "series.csv"
    path.write_text("when,value\n" + "".join(f"{i},{i}\n" for i in range(100)))
    return str(path)


def counted(table: str, **fields: int) -> TimeSeries:
    sizes = {"season": 4, "history": 8, "horizon": 6, "batch_size": 5, **fields}
    return TimeSeries(path=table, target="value", **sizes)


def test_windows_are_cut_in_time(table: str) -> None:
    splits = counted(table).load()
    assert splits.model_arguments == {"history": 8, "horizon": 6, "season": 4}
    spans = {}
    for name in ("train", "val", "test"):
        split = getattr(splits, name)
        batch = split.make(torch.arange(split.count))
        (history,), value = batch.inputs, batch.target[..., 0]
        assert torch.equal(history[:, -1] + 1, value[:, 0]), "the horizon follows at once"
        assert history.shape[1] == 8
        assert (value.diff(dim=1) == 1).all()
        spans[name] = (int(value.min()), int(value.max()))
    assert spans == {"train": (8, 69), "val": (70, 79), "test": (80, 99)}


def test_the_last_season_is_what_was_known(table: str) -> None:
    batch = counted(table).load().test.make(torch.tensor([0]))
    value, seasonal, _ = batch.target[0].unbind(-1)
    assert value.tolist() == [80, 81, 82, 83, 84, 85]
    assert seasonal.tolist() == [76, 77, 78, 79, 76, 77]
    model = models.forecaster(8, 6, 4, width=8, heads=2)
    assert torch.equal(model(*batch.inputs)[0], seasonal), "it begins by repeating it"


def test_a_history_that_does_not_fit_is_refused() -> None:
    with refused("history", expected="at least 2", got="1", remedy="history"):
        models.forecaster(1, 3, 1)  # has no standard deviation
    with refused("season", expected="from 1 to 4", got="6", remedy="shorter season"):
        models.forecaster(4, 3, 6)
    with refused("history", expected="[B, 8]", got="[2, 6]", remedy="past values"):
        models.forecaster(8, 3, 4)(torch.randn(2, 6))


def test_errors_by_hand() -> None:
    target = torch.tensor([[[1.0, 3.0], [2.0, 2.0]], [[0.0, 1.0], [0.0, 1.0]]])
    outputs = torch.tensor([[1.0, 3.0], [0.5, 0.5]])
    mae, ratio = metrics.ForecastError(), metrics.SeasonalRatio()
    for meter in (mae, ratio):
        for out, wanted in zip(outputs, target, strict=True):
            meter.update(out[None], wanted[None])
    assert float(mae.compute()) == 2 / 4
    assert float(ratio.compute()) == 2 / 4
    loss = Forecast(delta=0.5).loss(outputs, target)
    assert float(loss) == pytest.approx((0.5 * (1 - 0.25) + 2 * 0.125) / 4 / 0.5**2)


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"name": "lynx"}, "data.name"),
        ({"horizon": -1}, "data.horizon"),
        ({"history": 1, "season": 1}, "data.history"),
        ({"season": 200, "history": 156}, "data.season"),
        ({"val": 0.6, "test": 0.4}, "data.val, data.test"),
    ],
)
def test_bad_fields(fields: dict[str, object], argument: str) -> None:
    with refused(argument, expected="", got="", remedy=""):
        TimeSeries(**fields)


def test_without_a_table_it_asks_for_one() -> None:
    with refused("data.path", expected="a table", got="none", remedy="--data.path"):
        find("series").data.load()


def test_dates_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("when,value\n" + "".join(f"day {i} or so,{i % 7}\n" for i in range(100)))
    odd = TimeSeries(path=str(path), season=4, history=8, horizon=6)
    with pytest.warns(UserWarning, match=r"parsed as dates \('when'\).*--data.date_format"):
        assert odd.load().preprocessing["date"] == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace(odd, date="none").load()


def test_a_series_that_is_too_short_or_has_holes(table: str, tmp_path: Path) -> None:
    with refused("data.history, data.horizon", expected="every part", got="100", remedy="shorter"):
        counted(table, horizon=30).load()
    with refused("data.history", expected="52 steps", got="20", remedy="longer"):
        TimeSeries(name="co2", history=20).load()
    holes = tmp_path / "holes.csv"
    for text in ("nan", "1e39"):
        holes.write_text(f"value\n1\n3\n{text}\n")
        with refused("data.target", expected="finite", got="row 4", remedy="fill in"):
            counted(str(holes)).load()
    holes.write_text("value\n1\n\n3\n")  # skipped, it would shift what follows
    with refused("data.path", expected="values", got="an empty line, row 3", remedy="correct"):
        counted(str(holes)).load()


def test_a_series_that_never_varies_is_named(tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("sales\n" + "3\n" * 80 + "4\n" * 20)
    expected, got = "different numbers in column 'sales' of flat.csv", "3 in all 70 training rows"
    with refused("data.target", expected=expected, got=got, remedy="another column"):
        TimeSeries(path=str(path), history=4, horizon=2).load()


@pytest.mark.parametrize(("name", "length"), [("co2", 2284), ("elnino", 732), ("sunspots", 309)])
def test_bundled_series(name: str, length: int) -> None:
    pytest.importorskip("statsmodels")
    from edgewise.app.kinds.series.data import _bundled

    series = _bundled(name).values
    assert series.shape == (length,)
    first = {"co2": 316.1, "elnino": 23.11, "sunspots": 5.0}[name]
    assert float(series[0]) == pytest.approx(first)
