"""What turns a user's inputs into batches for a trained model, and its outputs into answers."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.data import Data
from edgewise.data.tables.frames import is_frame
from edgewise.data.tables.rows import frame_rows, read_rows
from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe
from edgewise.runs.fitted import Fitted
from edgewise.runs.parsing import describe, read_value
from edgewise.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from tokenizers import Tokenizer

Answer = dict[str, Any]


class Predictor(ABC):
    """Answers of one kind of trained model, such as labels of sentences.

    A kind of model is one file of this room: a subclass, which says what it answers for, reads an
    input (:meth:`from_row`, :meth:`prepare`) and answers a batch of them (:meth:`answer`), whose
    keyword arguments are the options of ``Run.predict`` and of ``edgewise predict``.

    Args:
        recipe: of the run.
        model: with its weights, in evaluation mode.
        fitted: what the run has kept of its data.
        tokenizer: that of the run, where it is of texts.
        folder: of the run, for messages.

    """

    data: ClassVar[type[Data]]
    """The data sets that it answers for, with their subclasses."""
    task: ClassVar[type[Task]]
    """The task, and no other."""
    input: ClassVar[str]
    """An input in words, with its article: "a sentence"."""
    text_key: ClassVar[str] = ""
    """The key of an answer that is a text by itself; a terminal shows nothing else then."""
    batch_size: ClassVar[int] = 64
    """Inputs that are answered side by side."""
    frame_is_one_input: ClassVar[bool] = False
    """Whether all rows of a data frame are one input."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        fitted: Fitted,
        tokenizer: Tokenizer | None,
        folder: Path,
    ) -> None:
        self.recipe, self.model, self.fitted, self.folder = recipe, model, fitted, folder
        if tokenizer is not None:
            self.tokenizer = tokenizer
        self.set_up()

    def set_up(self) -> None:  # noqa: B027 - most have nothing to do
        """Whatever is wanted once: tables of ids, the states of a graph's nodes."""

    @classmethod
    def serves(cls, recipe: Recipe) -> bool:
        """Whether it answers for runs of this recipe."""
        return isinstance(recipe.data, cls.data) and type(recipe.task) is cls.task

    def default_inputs(self) -> list[Any]:
        """The inputs where none is given.

        Raises:
            ArgumentError: it needs some; only a series can go on from its own end.

        """
        raise ArgumentError(
            "INPUT",
            expected="inputs, or a file of them with --input",
            got="neither",
            remedy=f"give {self.input}",
        )

    def from_python(self, inputs: Any) -> Iterable[Any]:
        """Return the inputs in a Python value: one, several, or the rows of a data frame."""
        if isinstance(inputs, Tensor) and inputs.dim() < 2:  # ids, or numbers
            inputs = inputs.tolist()
        if isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Iterable):
            return [inputs]  # the last is such as an id that is a number, or an image
        if is_frame(inputs):
            return [row["input"] if set(row) == {"input"} else row for row in frame_rows(inputs)]
        return inputs

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """The inputs that words on a command line stand for; each is one."""
        yield from words

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """The rows of a file: the number of the line, the columns, and the input in them.

        What is no line of a text, such as an image of a folder, has no number.

        Rows are those of a table with a header (``.csv``, ``.tsv``, ``.jsonl``), or lines of a
        text under the name ``input``; see :func:`edgewise.data.tables.rows.read_rows`.
        """
        for line, row in read_rows(path, self.columns()):
            yield line, row, row["input"] if set(row) == {"input"} else self.from_row(row)

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""

    def from_row(self, row: Mapping[str, Any]) -> Any:
        """The input in a row of a table, which has the columns; a dict in Python is one, too."""
        return row[self.columns()[0]]

    @abstractmethod
    def prepare(self, value: Any) -> Any:
        """Check one input, and what it is as an example of a batch.

        Raises:
            ArgumentError: the model cannot answer it. The others are answered nevertheless.

        """

    @abstractmethod
    def answer(self, examples: list[Any], *args: Any, **options: Any) -> list[Answer]:
        """The answer to each example of a batch; subclasses name their options, by keyword alone.

        A value is a number, a text or a list; a list of dicts, such as the items recommended to a
        user, becomes a row each in a table.
        """

    def show(self, value: Any) -> str:
        """An input as the answer repeats it."""
        return as_words(value)

    def draw(self, answers: Sequence[Answer]) -> Figure:  # noqa: ARG002 - see the subclasses
        """A picture of some answers.

        Raises:
            ArgumentError: these have none.

        """
        raise ArgumentError(
            "--draw",
            expected="a run whose answers have a picture, such as a forecast",
            got=f"a run of {self.recipe.name}",
            remedy="leave it out",
        )

    def check_draws(self) -> None:
        """Raise the error of :meth:`draw` where answers of this kind have no picture."""
        if type(self).draw is Predictor.draw:
            self.draw([])

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """The keyword arguments of :meth:`answer`."""
        known = inspect.signature(cls.answer).parameters
        return {name: p for name, p in known.items() if p.kind is p.KEYWORD_ONLY}

    def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options as :meth:`answer` takes them; text is read as the types say.

        Raises:
            ArgumentError: an option that it does not have, or a value that does not fit.

        """
        known, hints = self.options(), get_type_hints(type(self).answer)
        for name in options:
            if not known:
                raise ArgumentError(
                    name,
                    expected="no options",
                    got=f"{name}, for a run of {self.recipe.name}",
                    remedy="leave it out",
                )
            check_choice("option", name, known)
        return {
            name: read_value(
                name, value, hints[name], f"give {describe(hints[name])}, or leave it out"
            )
            for name, value in options.items()
        }

    @torch.no_grad()
    def answers(self, values: Sequence[Any], options: Mapping[str, Any]) -> list[Answer]:
        """The answer to each of some inputs; one that cannot be answered has ``error`` instead."""
        found: list[Answer] = []
        examples, places = [], []
        for place, value in enumerate(values):
            try:
                given = self._of_row(value) if isinstance(value, Mapping) else value
                check_unicode(given)
                example = self.prepare(given)
            except ArgumentError as error:
                found.append({"input": str(value), "error": str(error)})
                continue
            found.append({"input": self.show(given)})
            examples.append(example)
            places.append(place)
        if examples:
            for place, answer in zip(places, self.answer(examples, **options), strict=True):
                found[place] |= answer
        return found

    def _of_row(self, row: Mapping[str, Any]) -> Any:
        missing = [name for name in self.columns() if name not in row]
        if missing:
            raise ArgumentError(
                "input",
                expected=f"a row with {', '.join(self.columns())}",
                got=f"one without {', '.join(missing)}",
                remedy="name its columns as in the table that was trained on",
            )
        return self.from_row(row)


def check_unicode(value: Any) -> None:
    """Refuse a text that no tokenizer and no file takes, with half a letter or bytes of none.

    Raises:
        ArgumentError: it has such.

    """
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "input",
            expected="a text in Unicode",
            got=f"{value[error.start]!r} at character {error.start}",
            remedy="give it in UTF-8",
        ) from error


def check_text(value: Any, what: str) -> str:
    """The text without white space around it.

    Raises:
        ArgumentError: it is none, or blank.

    """
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("input", expected=what, got=repr(value)[:60], remedy=f"give {what}")
    return value.strip()


def whole_numbers(value: Any, what: str) -> list[int]:
    """Whole numbers in a list, or in a text with spaces, commas or semicolons between them.

    Raises:
        ArgumentError: there are none, or something else.

    """
    given = re.split(r"[\s,;]+", value.strip()) if isinstance(value, str) else value
    try:
        numbers = [int(str(one)) for one in given]
    except (ValueError, TypeError):
        numbers = []
    if not numbers:
        raise ArgumentError(
            "input",
            expected=f"{what}, such as 3 1 2",
            got=repr(value)[:60],
            remedy="write whole numbers with spaces between them",
        )
    return numbers


def as_words(value: Any) -> str:
    """The parts of a list with spaces between them; anything else, such as a text, as it is."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    return " ".join(map(str, value)) if listed else str(value)
