"""Base class of predictors, which turn inputs into batches and model outputs into predictions."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.frames import is_frame
from edgewise.app.files.rows import frame_rows, read_rows
from edgewise.app.train.parsing import describe, read_value
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Data
from edgewise.app.train.task import Task
from edgewise.graphs import Graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from tokenizers import Tokenizer

Answer = dict[str, Any]


class Predictor(ABC):
    """Base of predictors for one kind of trained model, such as classifiers of sentences.

    A subclass names the data sets and the task that it supports, reads an input (:meth:`from_row`,
    :meth:`prepare`) and predicts on a batch of inputs (:meth:`answer`). The keyword arguments of
    :meth:`answer` are the options of ``Run.predict`` and ``edgewise predict``.

    Args:
        recipe: recipe of the run.
        model: trained model in evaluation mode.
        preprocessing: preprocessing values that the run saved, such as label names.
        tokenizer: tokenizer of the run, or ``None`` if its data are not texts.
        folder: run folder, for error messages.
    """

    data: ClassVar[type[Data]]
    """Class of the supported data sets; subclasses are included."""
    task: ClassVar[type[Task]]
    """Class of the supported task; subclasses are not included."""
    input: ClassVar[str]
    """Description of one input with an article, such as "a sentence", for messages."""
    text_key: ClassVar[str] = ""
    """Key of the text in a prediction. If set, `edgewise predict` prints only this text."""
    batch_size: ClassVar[int] = 64
    """Default number of inputs per batch."""
    ensembles: ClassVar[bool] = False
    """Whether several seeds in one run folder are loaded as an ensemble."""
    frame_is_one_input: ClassVar[bool] = False
    """Whether all rows of a data frame are one input."""
    ordered: ClassVar[bool] = False
    """Whether the nodes of an input have an order: tokens, patches or time steps."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        preprocessing: Preprocessing,
        tokenizer: Tokenizer | None,
        folder: Path,
    ) -> None:
        self.recipe, self.model = recipe, model
        self.preprocessing, self.folder = preprocessing, folder
        if tokenizer is not None:
            self.tokenizer = tokenizer
        self.set_up()

    def set_up(self) -> None:  # noqa: B027 - subclasses may override it
        """Compute values that all predictions use, such as the embeddings of a graph's nodes."""

    @classmethod
    def serves(cls, recipe: Recipe) -> bool:
        """Return whether this predictor supports runs of a recipe."""
        return isinstance(recipe.data, cls.data) and type(recipe.task) is cls.task

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        """Return the names of the nodes, and the index of the explained node, if there is one."""
        example = self.prepare(value)
        return [f"node {node}" for node in range(len(getattr(example, "x", ())))], None

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        """Return a function that computes all outputs on the run's graph, the graph, and node ids.

        Raises:
            ArgumentError: the data of the run are not a single graph.
        """
        raise ArgumentError(
            "run",
            expected="a run on one graph: node classification, link prediction or recommendation",
            got=f"a run of {self.recipe.name}",
            remedy="train for example gat-cora or sage-facebook",
        )

    def default_inputs(self) -> list[Any]:
        """Return the inputs to use if the caller gives none; raise ArgumentError if they are
        needed.
        """
        raise ArgumentError(
            "INPUT",
            expected="inputs, or a file of inputs with --input",
            got="neither",
            remedy=f"give {self.input}",
        )

    def from_python(self, inputs: Any) -> Iterable[Any]:
        """Return an iterable over one input, a list of inputs, or the rows of a data frame."""
        # A tensor of fewer than two dimensions holds ids or numbers, not an image.
        if isinstance(inputs, Tensor) and inputs.dim() < 2:
            inputs = inputs.tolist()
        if isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Iterable):
            return [inputs]  # The input is one value, such as an id or an image.
        if is_frame(inputs):
            return [row["input"] if set(row) == {"input"} else row for row in frame_rows(inputs)]
        return inputs

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """Return the inputs in command-line arguments; by default, each argument is one input."""
        yield from words

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Yield the line number, the columns and the input of each row of a file.

        A file is a table with a header (``.csv``, ``.parquet``, ...) or a text whose lines have
        the column ``input``; see :func:`edgewise.app.files.rows.read_rows`. The line number is
        ``None`` for inputs that are not lines, such as images in a folder.
        """
        for line, row in read_rows(path, self.columns()):
            yield line, row, row["input"] if set(row) == {"input"} else self.from_row(row)

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that a table must have."""

    def from_row(self, row: Mapping[str, Any]) -> Any:
        """Return the input in a row of a table that has the columns of :meth:`columns`."""
        return row[self.columns()[0]]

    @abstractmethod
    def prepare(self, value: Any) -> Any:
        """Check one input and return it as an example for :meth:`answer`.

        Raises:
            ArgumentError: the input is invalid. The other inputs are still predicted.
        """

    @abstractmethod
    def answer(self, examples: list[Any], *args: Any, **options: Any) -> list[Answer]:
        """Return the prediction for each example of a batch, as a dict.

        The options are keyword-only arguments of subclasses. The values of a prediction are
        numbers, strings or lists. If predictions are written as a table, a list of dicts, such as
        the items recommended to a user, becomes one row for each dict.
        """

    def show(self, value: Any) -> str:
        """Return an input as text, for the key ``input`` of the prediction."""
        return as_words(value)

    def details(self, value: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return further details of an input for :class:`edgewise.explain.Explanation`."""
        return {}

    def output_of(self, answer: str) -> int:
        """Return the column of the model's output for a predicted label."""
        labels: list[Any] = self.preprocessing.values["labels"]
        return list(map(str, labels)).index(answer)

    def notes(self, options: Mapping[str, Any]) -> list[str]:  # noqa: ARG002
        """Return remarks on predictions with these options, which `edgewise predict` prints."""
        return []

    def draw(self, answers: Sequence[Answer]) -> Figure:  # noqa: ARG002 - subclasses use it
        """Plot predictions.

        Raises:
            ArgumentError: predictions of this kind have no figure.
        """
        raise ArgumentError(
            "--draw",
            expected="a run whose predictions can be plotted, such as a run of forecasts",
            got=f"a run of {self.recipe.name}",
            remedy="omit --draw",
        )

    def check_draws(self) -> None:
        """Raise the error of :meth:`draw` if predictions of this kind have no figure."""
        if type(self).draw is Predictor.draw:
            self.draw([])

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """Return the keyword-only arguments of :meth:`answer`."""
        parameters = inspect.signature(cls.answer).parameters
        return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}

    def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Check options for :meth:`answer` and convert text to the annotated types.

        Raises:
            ArgumentError: an option is unknown, or a value has the wrong type.
        """
        parameters, hints = self.options(), get_type_hints(type(self).answer)
        for name in options:
            if not parameters:
                raise ArgumentError(
                    name,
                    expected="no options",
                    got=f"{name}, for a run of {self.recipe.name}",
                    remedy=f"omit {name}",
                )
            check_choice("option", name, parameters)
        return {
            name: read_value(
                name, value, hints[name], f"give {describe(hints[name])}, or omit {name}"
            )
            for name, value in options.items()
        }

    @torch.no_grad()
    def answers(self, values: Sequence[Any], options: Mapping[str, Any]) -> list[Answer]:
        """Return a prediction for each input, in order; that for an invalid one has the key
        ``error``.
        """
        predictions: list[Answer] = []
        examples, positions = [], []
        for position, value in enumerate(values):
            try:
                input_value = self.input_of(value)
                example = self.prepare(input_value)
            except ArgumentError as error:
                predictions.append({"input": str(value), "error": str(error)})
                continue
            predictions.append({"input": self.show(input_value)})
            examples.append(example)
            positions.append(position)
        if examples:
            for position, answer in zip(positions, self.answer(examples, **options), strict=True):
                predictions[position] |= answer
        return predictions

    def input_of(self, value: Any) -> Any:
        """Return the input in a row of a table; return a value that is not a row unchanged.

        Raises:
            ArgumentError: the row lacks a column, or a text cannot be encoded as UTF-8.
        """
        input_value = self._of_row(value) if isinstance(value, Mapping) else value
        check_unicode(input_value)
        return input_value

    def _of_row(self, row: Mapping[str, Any]) -> Any:
        missing = [name for name in self.columns() if name not in row]
        if missing:
            raise ArgumentError(
                "input",
                expected=f"a row with {', '.join(self.columns())}",
                got=f"a row without {', '.join(missing)}",
                remedy="name the columns as in the training table",
            )
        return self.from_row(row)


def top_labels(probabilities: Tensor, labels: list[str], top: int) -> list[Answer]:
    """Return the most probable label of each example, and a list of the ``top`` ones if above 1."""
    check_range("top", top, "choose a number of labels, such as 3", least=1)
    largest = torch.topk(probabilities, min(top, len(labels)), dim=-1)
    answers: list[Answer] = []
    for values, numbers in zip(largest.values.tolist(), largest.indices.tolist(), strict=True):
        ranked = [
            {"label": labels[number], "probability": value}
            for value, number in zip(values, numbers, strict=True)
        ]
        answers.append({**ranked[0], "top": ranked} if top > 1 else {**ranked[0]})
    return answers


def check_unicode(value: Any) -> None:
    """Raise ArgumentError for a text with surrogates, such as those of undecodable bytes."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "input",
            expected="a text in Unicode",
            got=f"{value[error.start]!r} at character {error.start}",
            remedy="remove this character, or decode the text from its true encoding",
        ) from error


def check_text(value: Any, what: str) -> str:
    """Return a text without surrounding white space; ``what`` names it in the error."""
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("input", expected=what, got=repr(value)[:60], remedy=f"give {what}")
    return value.strip()


def whole_numbers(value: Any, what: str) -> list[int]:
    """Return the integers of a list, or of a text separated by spaces, commas or semicolons."""
    items = re.split(r"[\s,;]+", value.strip()) if isinstance(value, str) else value
    try:
        numbers = [int(str(number)) for number in items]
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
    """Join the parts of a list with spaces; convert any other value to text."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    return " ".join(map(str, value)) if listed else str(value)
