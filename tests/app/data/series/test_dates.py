"""Dates as people write them: steps, gaps, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from edgewise.app.files.dates import Step, read_dates
from edgewise.app.files.read_table import read_table
from edgewise.app.kinds.series import TimeSeries
from edgewise.app.kinds.series.data import Series
from tests.errors import refused


def written(folder: Path, dates: list[str], values: list[str] | None = None) -> Path:
    path = folder / "mine.csv"
    values = values or [str(i * i) for i in range(len(dates))]
    lines = [f'"{date}";{value}' for date, value in zip(dates, values, strict=True)]
    path.write_text("\n".join(["day;sales", *lines]))
    return path


def series_of(path: Path, **fields: object) -> Series:
    series, _ = TimeSeries(path=str(path), **fields)._of_table()
    return series


START = datetime(2020, 1, 3)


@pytest.mark.parametrize(
    ("format_", "days", "season"),
    [("%d.%m.%Y", 1, 7), ("%m/%d/%Y", 7, 52), ("%Y-%m-%dT%H:%M:%S", 1 / 24, 24), ("%Y%m%d", 1, 7)],
)
def test_steps_of_equal_length(tmp_path: Path, format_: str, days: float, season: int) -> None:
    dates = [START + timedelta(days=days) * i for i in range(40)]
    path = written(tmp_path, [date.strftime(format_) for date in dates])
    found, step = read_dates(read_table(path), "day", "")
    assert found == dates
    assert step == Step(format_, seconds=days * 86400)
    assert step.season == season
    assert series_of(path).date(2) == (dates[-1] + timedelta(days=2 * days)).strftime(format_)


@pytest.mark.parametrize(
    ("dates", "months", "after"),
    [
        (["01/01/2020", "01/02/2020", "01/03/2020", "01/04/2020"], 1, "01/05/2020"),
        (["2020-01-31", "2020-02-29", "2020-03-31", "2020-04-30"], 1, "2020-05-31"),
        (["Jan 2020", "Apr 2020", "Jul 2020", "Oct 2020"], 3, "Jan 2021"),
        (["2017", "2018", "2019", "2020"], 12, "2021"),
    ],
)
def test_steps_of_months(tmp_path: Path, dates: list[str], months: int, after: str) -> None:
    path = written(tmp_path, dates)
    if dates[0] == "01/01/2020":  # days of January, or months: nobody knows
        with refused(
            "data.date_format", expected="unambiguous", got="%m/%d/%Y", remedy="name the format"
        ):
            series_of(path)
        series = series_of(path, date_format="%d/%m/%Y")
    else:
        series = series_of(path)
    assert series.step is not None
    assert series.step.months == months
    assert series.date(1) == after


@pytest.mark.parametrize("dated", [True, False])
def test_a_row_of_names_is_not_needed(tmp_path: Path, dated: bool) -> None:
    path = tmp_path / "mine.csv"
    days = [(START + timedelta(days=i)).strftime("%Y-%m-%d") for i in range(6)]
    rows = [f"{day},{i * i}.5" if dated else f"{i * i}.5" for i, day in enumerate(days)]
    path.write_text("\n".join(rows))
    series, names = TimeSeries(path=str(path))._of_table()
    assert series.values.tolist() == [0.5, 1.5, 4.5, 9.5, 16.5, 25.5]
    assert names == {"column": "value", "date": "date" if dated else ""}


def test_values_that_are_said_to_be_missing_are_filled(tmp_path: Path) -> None:
    days = [(START + timedelta(days=i)).strftime("%Y-%m-%d") for i in range(12)]
    values = [str(2 * i) for i in range(12)]
    values[4], values[7] = "NA", "NaN"
    with pytest.warns(UserWarning, match="2 of 12 dates without a value"):
        series = series_of(written(tmp_path, days, values))
    assert series.values.tolist() == [2.0 * i for i in range(12)]


def test_weekdays(tmp_path: Path) -> None:
    days = [START + timedelta(days=i) for i in range(30)]
    path = written(tmp_path, [f"{day:%Y-%m-%d}" for day in days if day.weekday() < 5])
    series = series_of(path)
    assert series.step == Step("%Y-%m-%d", weekdays=True)
    assert series.values.tolist() == [i * i for i in range(21)]
    assert series.date(1) == "2020-02-03"  # from Friday to Monday
    assert series.date(-5) == "2020-01-24"


def test_rows_are_sorted_and_gaps_are_filled_with_a_warning(tmp_path: Path) -> None:
    days = [f"2020-03-{day:02d}" for day in range(1, 13) if day != 5]
    values = [day[-2:] for day in days]
    values[7] = ""  # the 9th
    path = written(tmp_path, days[::-1], values[::-1])
    with pytest.warns(UserWarning, match=r"2 of 12 dates without a value \(2020-03-05, 2020-03-09"):
        series = series_of(path)
    assert series.values.tolist() == list(range(1, 13))
    assert series.date(1) == "2020-03-13"


def test_dates_that_cannot_be_used(tmp_path: Path) -> None:
    days = [f"2020-03-{day:02d}" for day in range(1, 21)]
    with refused("data.date", expected="each date", got="rows 5 and 22", remedy="keep one"):
        series_of(written(tmp_path, [*days, days[3]]))
    with refused("data.date", expected="4/5 of the dates", got="7 of 20", remedy="longer step"):
        series_of(written(tmp_path, days, [str(i) if i % 3 else "" for i in range(19)] + ["1"]))
    odd = [*days, "2020-03-21 07:30"]
    with refused("data.date", expected="dates of one format", got="row 22", remedy="date_format"):
        series_of(written(tmp_path, odd), date="day")
    hours = [f"{day} 00:00" for day in days]
    hours[10] = "2020-03-11 07:30"
    with refused("data.date", expected="regular steps", got="row 12", remedy="one row per day"):
        series_of(written(tmp_path, hours))


def test_columns_in_doubt_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"2020-03-{i:02d},{i * 2},{i * 3}" for i in range(1, 31)]
    path.write_text("\n".join(["day,cats,dogs", *lines]))
    with refused("data.target", expected="numbers", got="'cats', 'dogs'", remedy="cats"):
        TimeSeries(path=str(path)).load()
    splits = TimeSeries(path=str(path), target="dogs").load()
    assert splits.model_arguments == {"history": 10, "horizon": 3, "season": 7}
    assert splits.preprocessing["date"] == "day"
    assert splits.preprocessing["last"] == "2020-03-30T00:00:00"
    assert splits.preprocessing["series"].tolist() == [3 * i for i in range(18, 31)]


def test_without_dates_rows_are_steps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "".join(f"{i * 5}\n" for i in range(99)))
    splits = TimeSeries(path=str(path)).load()
    assert splits.preprocessing["last"] is None
    assert splits.model_arguments["season"] == 1
