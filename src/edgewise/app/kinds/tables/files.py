"""Databases: a folder of tables, an SQLite file, or the URL of a database server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from edgewise._utils.errors import ArgumentError, MissingDataError, reading, require
from edgewise._utils.limits import LIMITS
from edgewise.app.files.frames import as_text, pandas_for
from edgewise.app.files.read_table import form_of, is_table, read_table
from edgewise.app.files.table import Table

SQLITE = (".db", ".sqlite", ".sqlite3")
PURPOSE = "reading a database"
PASSWORD = re.compile(r"[^:/]+://[^:/@]*:[^@]+@")  # As SQLAlchemy reads it, also with a slash.

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Database:
    """Tables by name, and the keys that the database itself declares: the columns of the primary
    key of a table by its name, and for columns ``(table, columns)`` the table and columns to which
    they refer.
    """

    name: str
    tables: Mapping[str, Table]
    primary: Mapping[str, Columns] = field(default_factory=dict)
    foreign: Mapping[tuple[str, Columns], tuple[str, Columns]] = field(default_factory=dict)


def read_database(path: str, argument: str = "data.path") -> Database:
    """Read all tables of a folder, an SQLite file or a server such as ``postgresql://host/shop``.

    Raises:
        MissingDataError: there is no such file or folder.
        ArgumentError: there is no table, a table is damaged, or the URL is malformed or has a
            password.
        MissingExtraError: SQLAlchemy, or the driver of the server, is not installed.
    """
    is_sqlite = path.startswith(("sqlite:", "sqlite+"))
    if "://" in path:
        _check_url(path, argument)
        if not is_sqlite:
            return _read_sql(path, path, argument)
        database = path.partition("://")[2].removeprefix("/").partition("?")[0]
        path = unquote(database.removeprefix("file:"))
    file = Path(path).expanduser()
    if is_sqlite or file.suffix.lower() in SQLITE:
        if not file.is_file():
            raise MissingDataError(f"{file}: no such file. Remedy: give an existing database.")
        # Otherwise SQLite could write to the file.
        database = f"file:{quote(file.resolve().as_posix())}"
        url = require("sqlalchemy", extra="sql", purpose=PURPOSE).URL.create(
            "sqlite", database=database, query={"mode": "ro", "uri": "true"}
        )
        return _read_sql(url, file.name, argument)
    return _read_folder(file, argument)


def _check_url(url: str, argument: str) -> None:
    try:
        parsed = urlsplit(url)
    except ValueError as error:
        raise ArgumentError(
            argument,
            expected="a URL such as postgresql+psycopg://host/shop",
            got="a malformed URL",  # The message of urllib can have the password.
            remedy="correct the host of the URL",
        ) from error
    words = ("password", "passwd", "pwd")
    in_query = any(word in name.lower() for name in parse_qs(parsed.query) for word in words)
    if in_query or PASSWORD.match(url):
        raise ArgumentError(
            argument,
            expected="a URL without a password, because run folders store it",
            got=f"a URL of {parsed.hostname} with a password",
            remedy="omit the password, and set PGPASSWORD or write it to ~/.pgpass",
        )


def _read_folder(folder: Path, argument: str) -> Database:
    if not folder.is_dir():
        got = "a file" if folder.is_file() else "no such folder"
        raise MissingDataError(
            f"{folder}: {got}. Remedy: give a folder with one CSV or Parquet file for each table, "
            "an SQLite file (.db, .sqlite), or a URL such as postgresql://host/shop."
        )
    tables: dict[str, Table] = {}
    for file in sorted(folder.iterdir()):
        if not (file.is_file() and is_table(file)) or file.name.startswith("."):
            continue
        is_compressed = file.suffix.lower() != form_of(file)
        name = Path(file.stem).stem if is_compressed else file.stem
        if name in tables:
            raise ArgumentError(
                argument,
                expected=f"one file for each table of {folder}",
                got=f"{tables[name].path.name} and {file.name}",
                remedy="remove one of the two files",
            )
        tables[name] = read_table(file, argument=argument)
    return Database(str(folder), _some(tables, str(folder), argument))


def _some(tables: dict[str, Table], source: str, argument: str) -> dict[str, Table]:
    if not tables:
        raise ArgumentError(
            argument,
            expected=f"at least one table in {source}",
            got="none",
            remedy="give a folder with CSV or Parquet files, or a database with tables",
        )
    return tables


def _read_sql(url: Any, name: str, argument: str) -> Database:
    """Read all tables, with the keys that the database declares."""
    sql = require("sqlalchemy", extra="sql", purpose=PURPOSE)
    tables: dict[str, Table] = {}
    primary: dict[str, Columns] = {}
    foreign: dict[tuple[str, Columns], tuple[str, Columns]] = {}
    expected, remedy = "a database that can be read", "check the file, the URL and the server"
    with reading(name, expected=expected, remedy=remedy):
        try:
            engine = sql.create_engine(url)
        except ImportError as error:  # The driver of the server is missing.
            raise ArgumentError(
                argument,
                expected="an installed driver for this URL",
                got=str(error),
                remedy="pip install psycopg, and write postgresql+psycopg://host/shop",
            ) from error
        try:
            with engine.connect() as connection:
                inspector = sql.inspect(connection)
                for table in inspector.get_table_names():
                    frame = _frame(sql, connection, table, name)
                    if len(frame):
                        rows = list(range(len(frame)))
                        tables[table] = Table(Path(table), as_text(frame), rows, named=True)
                    columns = inspector.get_pk_constraint(table)["constrained_columns"]
                    if columns:
                        primary[table] = tuple(columns)
                    for key in inspector.get_foreign_keys(table):
                        parent = ".".join(
                            filter(None, (key["referred_schema"], key["referred_table"]))
                        )
                        columns = tuple(key["constrained_columns"])
                        foreign[table, columns] = (parent, tuple(key["referred_columns"]))
        finally:
            engine.dispose()
    return Database(name, _some(tables, name, argument), primary, foreign)


def _frame(sql: Any, connection: Any, table: str, name: str) -> Any:
    selected = sql.table(table)
    count = connection.execute(sql.select(sql.func.count()).select_from(selected)).scalar()
    columns = len(sql.inspect(connection).get_columns(table))
    LIMITS["table_cells"].check(count * columns, name)
    query = sql.select(sql.text("*")).select_from(selected)
    return pandas_for(PURPOSE).read_sql_query(query, connection)
