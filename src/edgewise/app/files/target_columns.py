"""Target columns of a table: numbers, or classes if there are few distinct texts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Sequence
from itertools import compress
from operator import not_
from typing import Literal

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.labels import NUMBER, distinct_labels
from edgewise.app.files.reading import log
from edgewise.app.files.table import Table, as_number, check_varies, is_missing, misread_number
from edgewise.app.files.targets import Target

TaskType = Literal["auto", "regression", "classification"]
MANY = 20
"""Maximum number of classes of a target."""
SHOWN = 12  # Maximum number of columns that an error lists.


class TargetColumns:
    """Target columns of a table: ``classes`` of each column, empty for numbers; and ``values``,
    numbers or class indices ``[rows, columns]``, NaN for a missing value. The argument ``classes``
    has the classes of the training table, if they are known.
    """

    def __init__(
        self,
        table: Table,
        names: Sequence[str],
        task_type: TaskType = "auto",
        *,
        argument: str = "data.target",
        classes: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        self.table, self.names, self.argument = table, names, argument
        classes_by_column: Sequence[tuple[str, ...] | None] = classes or [None] * len(names)
        columns = [
            _read(table, name, task_type, argument, column_classes)
            for name, column_classes in zip(names, classes_by_column, strict=True)
        ]
        self.classes = [classes for classes, _ in columns]
        self.values = torch.tensor(
            [values for _, values in columns], dtype=torch.double
        ).T.contiguous()

    def describe(self, train: Tensor, *, fraction: bool = False) -> tuple[Target, ...]:
        """Return a description of each column, with statistics of the training rows ``[rows,
        columns]``. A warning names the columns with a single class; fractions need no scale.
        """
        targets, constant = [], []
        for name, classes, column in zip(self.names, self.classes, train.unbind(1), strict=True):
            values = column[~column.isnan()]
            if not len(values):
                raise ArgumentError(
                    self.argument,
                    expected=f"a value of {name!r} in the training rows",
                    got="none",
                    remedy="name another column, or split the rows in another way",
                )
            if classes:
                counts = torch.bincount(values.long(), minlength=len(classes)).tolist()
                targets.append(Target(name, classes, counts=tuple(counts)))
                if max(counts) == len(values):
                    got = f"{classes[counts.index(len(values))]} in all {len(values)} rows"
                    constant.append((name, got))
                continue
            check_varies(values, self.argument, name, self.table.path)
            mean, std = float(values.mean()), float(values.std(correction=0))
            targets.append(Target(name) if fraction else Target(name, mean=mean, std=std))
        if constant:
            (name, got), num_others = constant[0], len(constant) - 1
            expected = f"at least two classes of {name!r} in the training rows"
            if len(constant) == len(targets):
                raise ArgumentError(
                    self.argument,
                    expected=expected,
                    got=got,
                    remedy="name another column, add rows, or split the rows in another way",
                )
            others = f", and {num_others} more such columns" * (num_others > 0)
            warnings.warn(
                f"`{self.argument}`: expected {expected}; got {got}{others}", stacklevel=3
            )
        return tuple(targets)


def target_names(
    table: Table,
    requested: str | Sequence[str],
    taken: Collection[str],
    skip: Callable[[Sequence[str]], bool] = lambda _: False,
    argument: str = "data.target",
) -> list[str]:
    """Return the names of the target columns, ``requested`` as a list or separated by commas. By
    default, it is the only column of numbers or of few distinct texts that is not ``taken`` and
    whose texts ``skip`` does not exclude.
    """
    text = requested if isinstance(requested, str) else ",".join(requested)
    if text:
        # A column name may itself contain commas.
        names = text.split(",") if isinstance(requested, str) else requested
        names = [text] if text in table.columns else list(dict.fromkeys(names))
        return [table.choose(argument, name, (), "a target column", taken) for name in names]
    free = [name for name in table.frame.columns if name not in taken]
    numeric = set(table.numeric)
    candidates = [
        name
        for name in free
        if name in numeric or (_holds_classes(table, name) and not skip(table.columns[name]))
    ]
    candidates = [name for name in candidates if not table.counts_rows(name)] or candidates
    if len(candidates) > 1:
        shown = ", ".join(map(repr, candidates[:SHOWN]))
        num_hidden = len(candidates) - SHOWN
        raise ArgumentError(
            argument,
            expected=f"the names of the columns of {table.path.name} to predict",
            got=f"none, and there are {len(candidates)} candidates: {shown}"
            + f" and {num_hidden} more" * (num_hidden > 0),
            remedy=f"name one column, or several to train them together: "
            f"--{argument} {_typed(candidates[:1])} or --{argument} {_typed(candidates[:2])}",
        )
    what = "the column of numbers or of few classes to predict"
    target = table.choose(argument, "", candidates, what, taken)
    note_target(target, "the only column of numbers or of few classes that has no other use")
    return [target]


def note_target(name: str, reason: str) -> None:
    """Log which column is predicted, if the user has named none."""
    log.info(f"data.target: column {name!r} is predicted, {reason}")


def _typed(names: Sequence[str]) -> str:
    text = ",".join(names)
    return text if all(name.isidentifier() for name in names) else f"'{text}'"


def missing_cells(
    table: Table, name: str, task_type: TaskType = "auto", classes: Collection[str] = ()
) -> list[bool]:
    """Return for each cell of a target column whether its value is missing. ``NA``, ``NaN`` and
    ``null`` are missing numbers; in a column of other texts, they are labels.
    """
    numeric = task_type == "regression" or name in table.numeric
    return [
        not text.strip() or (numeric and is_missing(text) and text not in classes)
        for text in table.columns[name]
    ]


def _labels(table: Table, name: str) -> list[str]:
    """Return the labels of a column, without missing ones."""
    missing = missing_cells(table, name)
    return list(compress(table.columns[name], map(not_, missing)))


def _holds_classes(table: Table, name: str) -> bool:
    """Return whether a column has only 0 and 1, or few distinct texts that are not all numbers."""
    labels = set(_labels(table, name))
    if name in table.numeric:
        return {as_number(label, table.delimiter) for label in labels} == {0, 1}
    return 1 < len(labels) <= min(MANY, max(2, len(table) // 2))


def _ordered(labels: Sequence[str]) -> tuple[str, ...]:
    """Sort classes, the positive one last: inactive, active."""

    def negates(label: str) -> bool:
        return any(label != other and label.lower().endswith(other.lower()) for other in labels)

    if all(map(NUMBER.fullmatch, labels)):
        return tuple(labels)
    return tuple(sorted(labels, key=lambda label: not negates(label)))


def _read(
    table: Table,
    name: str,
    task_type: TaskType,
    argument: str,
    training_classes: tuple[str, ...] | None,
) -> tuple[tuple[str, ...], list[float]]:
    """Return the classes of a column, and its values."""
    texts = table.texts(argument, name)
    column = f"column {name!r} of {table.path.name}"
    classes = training_classes or ()
    if training_classes is None and (
        task_type == "classification" or (task_type == "auto" and _holds_classes(table, name))
    ):
        classes = _ordered(distinct_labels(_labels(table, name), argument, column))
        if not 1 < len(classes) <= MANY:
            raise ArgumentError(
                argument,
                expected=f"2 to {MANY} classes in {column}",
                got=f"{len(classes)}: {', '.join(classes[:SHOWN])}",
                remedy="name another column, or set --data.task_type regression",
            )
        if task_type == "auto":
            warn_misread(table, name, classes, argument)
    if not classes:
        numbers = table.numbers(argument, [name], allow_missing=True)[:, 0].tolist()
        if task_type == "auto" and training_classes is None:
            _note_numbers(name, numbers, argument)
        return (), numbers
    index = {label: float(number) for number, label in enumerate(classes)}
    missing = missing_cells(table, name, classes=classes)
    for row, (text, is_blank) in enumerate(zip(texts, missing, strict=True)):
        if not is_blank and text not in index:
            raise ArgumentError(
                argument,
                expected=f"one of the classes {', '.join(classes)} in column {name!r}, as in the "
                "training table",
                got=table.cell(name, row),
                remedy="correct this row, or add training rows of this class",
            )
    return classes, [
        math.nan if is_blank else index[text] for text, is_blank in zip(texts, missing, strict=True)
    ]


def warn_misread(table: Table, name: str, classes: Sequence[str], argument: str) -> None:
    """Warn if classes such as ``5%`` and ``<5`` may be numbers."""
    text = misread_number(classes, table.delimiter)
    if text:
        warnings.warn(
            f"`{argument}`: column {name!r} of {table.path.name} is read as classes, because "
            f"{text!r} is not a number; write it as a number to predict numbers, or set "
            "--data.task_type classification",
            stacklevel=2,
        )


def _note_numbers(name: str, numbers: Sequence[float], argument: str) -> None:
    """Log that integers are predicted as numbers, if they are few and may be classes."""
    distinct = sorted({value for value in numbers if not math.isnan(value)})
    if 1 < len(distinct) <= MANY and all(value.is_integer() for value in distinct):
        log.info(
            f"{argument}: column {name!r} has {len(distinct)} different integers and is predicted "
            "as numbers; for classes, set --data.task_type classification"
        )
