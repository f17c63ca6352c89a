"""Predictor for time series: forecasts, as rows and as figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from edgewise._utils.errors import ArgumentError, counted, require
from edgewise.app.files.dates import Step
from edgewise.app.files.frames import is_frame, to_pandas
from edgewise.app.files.read_table import read_table
from edgewise.app.files.rows import check_columns
from edgewise.app.files.table import Table, as_number
from edgewise.app.kinds.series.data import Series, TimeSeries, history_of
from edgewise.app.kinds.series.task import Forecast
from edgewise.app.predict.predictor import Answer, Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"history": "#8795a8", "truth": "#444f5d", "forecast": "#1f6feb"}


class Forecasts(Predictor):
    """Forecast of the values that follow a history, by default the training series."""

    ordered = True

    data, task, input = TimeSeries, Forecast, "a history of values"
    frame_is_one_input = True

    def set_up(self) -> None:
        values = self.preprocessing.values
        self.column, self.date = values["column"], values["date"]
        self.length = self.preprocessing.model_arguments["history"]
        self.horizon = self.preprocessing.model_arguments["horizon"]
        self.step = Step(**values["step"]) if values["step"] else None
        last = datetime.fromisoformat(values["last"]) if values["last"] else None
        self.training_series = Series(values["series"], last, self.step)
        self.histories: dict[str, Series] = {}

    def columns(self) -> tuple[str, ...]:
        return (self.date, self.column) if self.date else (self.column,)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return steps_of(self.prepare(value), self.length), None

    def details(self, value: Any) -> dict[str, Any]:
        return {"values": self.prepare(value).values[-self.length :].tolist()}

    def default_inputs(self) -> list[Any]:
        return [self.training_series]

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """Read all arguments as the values of one history."""
        yield list(words)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read all rows of the file as one history."""
        table = read_table(path, argument=str(path))
        check_columns(path, self.columns(), list(table.columns))
        yield None, {"input": path.name}, table

    def from_python(self, inputs: Any) -> list[Any]:
        """Accept one history or a list of histories."""
        if is_frame(inputs):
            return [to_pandas(inputs).to_dict("list")]
        several = list(super().from_python(inputs))
        return several if several and not isinstance(several[0], (int, float, str)) else [several]

    def from_row(self, row: Mapping[str, Any]) -> Table:
        date_format = self.step.format if self.step else ""
        columns = {
            name: [_cell(value, date_format) for value in row[name]] for name in self.columns()
        }
        lengths = {len(texts) for texts in columns.values()}
        if len(lengths) > 1:
            raise ArgumentError(
                "input",
                expected="as many dates as values",
                got=" and ".join(map(str, sorted(lengths))),
                remedy="give a value for each date",
            )
        return Table.of("input", columns)

    def prepare(self, value: Any) -> Series:
        if isinstance(value, Table):
            series = history_of(value, self.column, self.date, self.step)
        elif isinstance(value, Series):
            series = value
        else:
            series = Series(torch.tensor([as_number(str(number)) for number in value]))
        if len(series.values) < self.length or not series.values.isfinite().all():
            raise ArgumentError(
                "input",
                expected=f"at least {self.length} numbers, the history of the model, without "
                "missing values",
                got=f"{counted(int(series.values.isfinite().sum()), 'number')} in "
                f"{counted(len(series.values), 'value')}",
                remedy="give a longer history, and fill in missing values",
            )
        self.histories[self.show(value)] = series
        return series

    def answer(self, examples: list[Series], *, backtest: int = 0) -> list[Answer]:
        read = []
        for series in examples:
            if not 0 <= backtest <= len(series.values) - self.length:
                raise ArgumentError(
                    "backtest",
                    expected=f"a number from 0 to {len(series.values) - self.length}, so that "
                    f"{self.length} values remain as history",
                    got=str(backtest),
                    remedy="give a smaller number or a longer history",
                )
            end = len(series.values) - backtest
            read.append(series.values[end - self.length : end])
        outputs = self.model(torch.stack(read))
        return [
            {"forecast": self._rows(series, values, backtest)}
            for series, values in zip(examples, outputs.tolist(), strict=True)
        ]

    def _rows(self, series: Series, values: Sequence[float], backtest: int) -> list[dict[str, Any]]:
        name = "date" if series.step else "step"
        rows: list[dict[str, Any]] = []
        for ahead, value in enumerate(values, 1):
            row = {name: series.date(ahead - backtest) if series.step else ahead, "value": value}
            if ahead <= backtest:
                row["truth"] = float(series.values[ahead - backtest - 1])
            rows.append(row)
        return rows

    def show(self, value: Any) -> str:
        if isinstance(value, Series):
            return f"{self.column} of the training data"
        return value.path.name if isinstance(value, Table) else counted(len(value), "value")

    def draw(self, answers: Sequence[Answer]) -> Figure:
        """Plot the history, the forecast and, in a backtest, the true values, for each series."""
        require("matplotlib", extra="plot", purpose="drawing a forecast")
        from matplotlib.figure import Figure

        if not answers:
            raise ArgumentError(
                "--draw", expected="at least one forecast", got="none", remedy="correct the input"
            )
        figure = Figure(figsize=(9.6, 3.6 * len(answers)), layout="constrained")
        for axes, answer in zip(
            figure.subplots(len(answers), squeeze=False)[:, 0], answers, strict=True
        ):
            series, rows = self.histories[answer["input"]], answer["forecast"]
            truth = [row["truth"] for row in rows if "truth" in row]
            end = len(series.values) - len(truth)
            first = max(0, end - self.length)
            read = series.values[first:end].tolist()
            # Later lines start at the last value of the history, so that the curves are connected.
            lines = {
                "history": (1 - len(read), read),
                "truth": (0, [*read[-1:], *truth]),
                "forecast": (0, [*read[-1:], *(row["value"] for row in rows)]),
            }
            for name, (begin, values) in lines.items():
                if len(values) > 1:
                    steps = range(begin - len(truth), begin - len(truth) + len(values))
                    x = [self._x(series, step) for step in steps]
                    axes.plot(x, values, color=COLOURS[name], label=name, linewidth=1.6)
            axes.set_title(answer["input"], loc="left", fontsize=10)
            axes.set_ylabel(self.column)
            axes.set_xlabel("" if series.step else "steps ahead")
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, loc="upper left")
        return figure

    def _x(self, series: Series, ahead: int) -> Any:
        if series.step is None or series.last is None:
            return ahead
        return series.step.after(series.last, ahead)


def _cell(value: Any, date_format: str) -> str:
    """Return a cell of a ``DataFrame`` as the text that a file would contain."""
    if hasattr(value, "strftime"):
        return str(value.strftime(date_format))
    return "" if value is None or str(value) == "nan" else str(value)


def steps_of(series: Any, count: int) -> list[str]:
    """Return names of the last time steps of a series: dates, or numbers from the end."""
    if series.step:
        return [str(series.date(step - count + 1)) for step in range(count)]
    return [f"{counted(count - 1 - step, 'step')} before the end" for step in range(count)]
