"""Data frames (pandas, PyArrow, Polars) in place of files, with all cells as text."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise._utils.errors import ArgumentError, require

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    Source = Any
else:
    Source = str
"""Type of a field that holds a path or a data frame; a recipe records it as text."""

FRAME = "DataFrame "


class FrameSource(str):
    """Data frame in place of a path, with cells as text. As a string it is a digest of the content,
    which a recipe records, so that a run can be resumed only with the same frame.
    """

    frame: DataFrame

    @classmethod
    def of(cls, value: Any) -> FrameSource:
        """Create a source from a pandas, PyArrow or Polars table; its cells are copied as text."""
        frame = as_text(to_pandas(value))
        pandas = pandas_for("reading a data frame")
        digest = hashlib.sha256(json.dumps(list(frame.columns)).encode())
        digest.update(pandas.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
        rows, columns = frame.shape
        text = f"{FRAME}of {rows} rows and {columns} columns, sha256 {digest.hexdigest()[:32]}"
        source = cls(text)
        source.frame = frame
        return source

    @property
    def name(self) -> str:
        """Name in messages, instead of ``Path.name``."""
        return "the DataFrame"


def as_source(value: Any) -> str:
    """Convert a path to text, or a data frame to a :class:`FrameSource`."""
    if is_frame(value):
        return FrameSource.of(value)
    return value if isinstance(value, str) else str(value)


def take_frames(data: Any, *fields: str) -> None:
    """Replace data frames and ``Path`` objects in these fields by the result of `as_source`."""
    for name in fields:
        object.__setattr__(data, name, as_source(getattr(data, name)))


def open_source(text: str | Path, argument: str = "data.path") -> Path | FrameSource:
    """Return the frame, or the path with ``~`` expanded; ArgumentError for a digest without its
    frame.
    """
    if isinstance(text, (Path, FrameSource)):
        return text
    if text.startswith(FRAME) and "sha256" in text:
        raise ArgumentError(
            argument,
            expected="a file, or (in Python) the data frame",
            got=f"only the digest of a {text}",
            remedy="pass the frame that the run was trained on in Python, or save it as a file "
            "and name the file",
        )
    return Path(text).expanduser()


def is_frame(value: Any) -> bool:
    """Return whether a value is a table of pandas, PyArrow, Polars or another such library."""
    streams = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__dataframe__")
    return streams and hasattr(value, "columns")


def to_pandas(value: Any) -> DataFrame:
    """Convert a data frame of any library to pandas, by PyArrow or the interchange protocol."""
    pandas = pandas_for("reading a data frame")
    if isinstance(value, pandas.DataFrame):
        frame: DataFrame = value
    elif hasattr(value, "__arrow_c_stream__"):
        pyarrow = require("pyarrow", extra="tables", purpose="reading a data frame")
        # Otherwise, integers with missing values would become floats, and the id 3 would be "3.0".
        frame = pyarrow.table(value).to_pandas(integer_object_nulls=True)
    else:
        frame = pandas.api.interchange.from_dataframe(value)
    return frame


def as_text(frame: DataFrame) -> DataFrame:
    """Convert cells to the text that ``frame.to_csv()`` writes, missing values to ""."""
    pandas = pandas_for("reading a table")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise ArgumentError(
            "data.path",
            expected="columns with different names",
            got=f"two columns named {Counter(names).most_common(1)[0][0]!r}",
            remedy="rename one of the two columns",
        )
    columns = {name: _text_column(frame.iloc[:, i]) for i, name in enumerate(names)}
    text_frame: DataFrame = pandas.DataFrame(columns, columns=names, dtype=str)
    return text_frame


def _text_column(values: Series[Any]) -> Series[Any]:
    pandas = pandas_for("reading a table")
    missing = values.isna()
    if isinstance(values.dtype, pandas.CategoricalDtype):
        kind = values.cat.categories.dtype
        # Integers and booleans cannot represent a missing value.
        values = values.astype(object if missing.any() and kind.kind in "iub" else kind)
    if values.dtype.kind == "f" and missing.any() and (values[~missing] % 1 == 0).all():
        # pandas has converted integers to floats if values are missing.
        values = values.astype("Int64")
    if values.dtype == object:
        values = values.map(cell_text)
    return values.astype(str).where(~missing, "").reset_index(drop=True)


def cell_text(value: Any) -> str:
    """Return a cell as text: lists and dicts as JSON, dates without a time of midnight."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        # Lists in Parquet files are read as NumPy arrays, which json cannot encode.
        return json.dumps(value, default=lambda array: array.tolist())
    return "" if value is None else str(value).removesuffix(" 00:00:00")


def pandas_for(purpose: str) -> Any:
    """Import pandas, or raise an error that says how to install it."""
    return require("pandas", extra="predict", purpose=purpose)
