"""Load finished runs and predict with them: ``edgewise.load("runs/mine").predict([...])``."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from edgewise._utils.arguments import check_range
from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError, EdgewiseError, printable_line
from edgewise.app.files.frames import is_frame, to_pandas
from edgewise.app.kinds import entry_for
from edgewise.app.predict.ensemble import Ensemble
from edgewise.app.predict.pages import explain_nodes
from edgewise.app.predict.predictor import Answer, Predictor
from edgewise.app.predict.rows import flat, is_of_dicts
from edgewise.app.runs.predictors import predictor_of
from edgewise.app.runs.record import check_finished, load_recipe
from edgewise.app.runs.recorded import prepare_recorded
from edgewise.app.runs.seeds import single_values
from edgewise.app.runs.train_recipe import build_model
from edgewise.app.runs.vocabulary import check_vocabulary
from edgewise.app.train.folder import CURVES, PREPROCESSING, RECIPE, RunFolder
from edgewise.app.train.preprocessing import (
    kept_preprocessing,
    load_preprocessing,
    with_known_targets,
)
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.text.tokenizer import TOKENIZER, load_tokenizer
from edgewise.explain.explanation import Explanation
from edgewise.explain.losses import warn_if_unused
from edgewise.explain.module_names import naming_the_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

T = TypeVar("T")
MAX_PICTURE = 5_000_000
"""Maximum size of ``curves.png`` that a notebook shows, in bytes."""
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, repr=False)
class Run:
    """Finished run, which predicts on new inputs.

    Attributes:
        path: run folder. No file outside it is read.
        recipe: recipe that the run was trained with.
        model: ``nn.Module`` with the weights of the kept epoch, in evaluation mode.
        predictor: predictor for the kind of data and task of the run.

    Example:
        >>> import edgewise
        >>> run = edgewise.load("runs/sst2")  # doctest: +SKIP
        >>> run.predict(["A dull film."])[0]["label"]  # doctest: +SKIP
        'negative'
    """

    path: Path
    recipe: Recipe
    model: nn.Module
    predictor: Predictor

    @property
    def metrics(self) -> dict[str, float]:
        """Final metrics of the run; NaN for a metric that could not be computed.

        The metrics of an ensemble are those of its mean prediction.
        """
        return single_values(RunFolder(self.path).read_metrics())

    @cached_property
    def splits(self) -> Splits:
        """Data that the run was trained on, loaded at the first use."""
        return prepare_recorded(replace(self.recipe, start=""), RunFolder(self.path))[1]

    def explanation(self, value: Any, recording: Mapping[str, Any]) -> Explanation:
        """Predict on one input, and record the attention and the reasons for the prediction;
        see :func:`edgewise.explain.explanation`.
        """
        warn_if_unused(self.model)
        explain = entry_for(self.predictor, "explanations") or explain_nodes
        if value is None:
            value = next(iter(self.predictor.default_inputs()))
        value = self.predictor.input_of(value)
        self.predictor.prepare(value)  # This raises an error if the input is invalid.
        with (
            torch.no_grad(),
            naming_the_run(self, "a run whose model computes attention over its inputs"),
        ):
            explained: Explanation = explain(self, value, recording)
        # Imported by name, because edgewise.app.explain imports this package.
        explainer = import_module("edgewise.app.explain")
        try:
            explained.reasons = explainer.all_attributions(self, value)
        except ArgumentError as error:
            if error.argument not in ("run", "input"):
                raise
            # The page has the attention alone, and says why.
            explained.details["no_reasons"] = f"expected {error.expected}; got {error.got}"
        text = value.name if isinstance(value, Path) else self.predictor.show(value)
        explained.details["input"] = text
        explained.details["fidelity"] = explainer.fidelities_for(self.predictor)
        return explained

    def predict(self, inputs: Any = None, *, batch_size: int | None = None, **options: Any) -> Any:
        """Return the predictions, in the order of the inputs.

        Args:
            inputs: a list of inputs, such as sentences or SMILES; rows as dicts; a data frame of
                pandas, PyArrow or Polars; a single input; or a ``pathlib.Path`` of a file. If
                omitted, a run of a time series forecasts from the end of the training data.
            batch_size: number of inputs in a batch.
            options: options of this kind of run, such as ``top=3``; `edgewise predict --help` lists
                all options.

        Returns:
            A dict for each input: ``input`` and the prediction, or ``error`` if the input is
            invalid. For a data frame, a pandas ``DataFrame`` with the columns of the input and the
            predictions as further columns; a prediction of several parts, as with ``top=3``, has a
            row for each part.

        Raises:
            ArgumentError: an option is unknown, or a file has an unsupported format.
            MissingDataError: the file does not exist.
        """
        answers = list(self.stream(inputs, batch_size=batch_size, **options))
        return self._joined_frame(inputs, answers) if is_frame(inputs) else answers

    def stream(
        self, inputs: Any = None, *, batch_size: int | None = None, **options: Any
    ) -> Iterator[Answer]:
        """Yield the predictions of :meth:`predict` in turn, with one batch in memory at a time."""
        size = self.predictor.batch_size if batch_size is None else batch_size
        check_range("batch_size", size, "choose for example 64", least=1)
        chosen = self.predictor.check_options(options)
        if isinstance(inputs, Path):
            return self._of_file(inputs, size, chosen)
        if inputs is None:
            return self._of_values(self.predictor.default_inputs(), size, chosen)
        return self._of_values(self.predictor.from_python(inputs), size, chosen)

    def _joined_frame(self, inputs: Any, answers: list[Answer]) -> DataFrame:
        frame = to_pandas(inputs)
        if self.predictor.frame_is_one_input:
            return type(frame)([row for answer in answers for row in flat(answer)])
        columns = dict.fromkeys(map(str, frame.columns))
        new_rows, positions = [], []
        for position, answer in enumerate(answers):
            prediction = {name: value for name, value in answer.items() if name != "input"}
            for row in flat(columns | _prefixed(prediction, columns)):
                new_rows.append({name: v for name, v in row.items() if name not in columns})
                positions.append(position)
        joined = frame.iloc[positions].copy()
        for name in dict.fromkeys(name for row in new_rows for name in row):
            joined[name] = [row.get(name) for row in new_rows]
        return joined

    def explain(self, inputs: Any = None, *, top: int = 5, **options: Any) -> Any:
        """Explain predictions by the words, atoms, neighbours or items that contribute most:
        :func:`edgewise.app.explain.attributions`, which has the ``options``.
        """
        # Imported by name, because edgewise.app.explain imports this package.
        explain = import_module("edgewise.app.explain")
        return explain.attributions(self, inputs, top=top, **options)

    def draw(self, answers: list[Answer]) -> Figure:
        """Plot predictions; only forecasts have a figure."""
        return self.predictor.draw(answers)

    def _of_values(
        self, values: Iterable[Any], size: int, options: Mapping[str, Any]
    ) -> Iterator[Answer]:
        for chunk in _chunks(values, size):
            yield from self._answers(chunk, options)

    def _answers(self, values: list[Any], options: Mapping[str, Any]) -> list[Answer]:
        try:
            return list(self.predictor.answers(values, options))
        except EdgewiseError:
            raise
        except Exception as error:  # Files that do not fit together raise many types of errors.
            if os.environ.get("EDGEWISE_TRACEBACK"):
                raise
            raise ArgumentError(
                str(self.path),
                expected="a run folder whose files belong together",
                got=f"{type(error).__name__}: {error}",
                remedy="restore the folder, or train again. If you have just trained this run, "
                "set EDGEWISE_TRACEBACK=1, and report the error with its output",
            ) from error

    def _of_file(self, path: Path, size: int, options: Mapping[str, Any]) -> Iterator[Answer]:
        rows = 0
        for chunk in _chunks(self.predictor.from_file(path), size):
            rows += len(chunk)
            answers = self._answers([value for _, _, value in chunk], options)
            for (line, row, _), answer in zip(chunk, answers, strict=True):
                if "error" in answer and line is not None:
                    answer["error"] = f"line {line} of {path.name}: {answer['error']}"
                yield _joined(row, answer)
        if not rows:
            raise ArgumentError(
                str(path),
                expected="at least one input",
                got="none",
                remedy=f"give {self.predictor.input} in each row",
            )

    def __repr__(self) -> str:
        name, path = printable_line(self.recipe.name), str(self.path)
        return f"<Run of {name} in {path!r}, input: {self.predictor.input}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: recipe, model, inputs, metrics and learning curves."""
        count = sum(weight.numel() for weight in self.model.parameters())
        rows = [
            ("recipe", f"{self.recipe.name}: {self.recipe.summary}"),
            ("model", f"{self.recipe.model.func.__name__}, {count:,} parameters"),
            ("input", self.predictor.input),
            ("options", ", ".join(self.predictor.options()) or "none"),
        ]
        rows += [(name, rounded(value)) for name, value in self.metrics.items()]
        cells = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in rows)
        table = f"<table><caption>{escape(str(self.path))}</caption>{cells}</table>"
        folder = RunFolder(self.path)
        with suppress(ArgumentError):  # The file is a link, so the picture is left out.
            if folder.has(CURVES) and folder.file(CURVES).stat().st_size <= MAX_PICTURE:
                content = folder.file(CURVES).read_bytes()
                if content.startswith(PNG):
                    source = f"data:image/png;base64,{b64encode(content).decode()}"
                    return f'{table}<img alt="learning curves" src="{source}"/>'
        return table


def _chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(values)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _joined(row: Mapping[str, Any], answer: Answer) -> Answer:
    """Join a row of the input table, whose column ``error`` is renamed, with its prediction."""
    if set(row) == {"input"}:
        return answer | dict(row) if "error" in answer else answer
    columns = {f"own_{n}" if n == "error" else n: v for n, v in row.items()}
    prediction = {name: value for name, value in answer.items() if name != "input"}
    return columns | _prefixed(prediction, columns)


def _prefixed(prediction: Mapping[str, Any], row: Mapping[str, Any]) -> Answer:
    """Prefix keys of a prediction, also in lists, by ``predicted_`` if the row has them, too."""
    return {
        f"predicted_{name}" if name in row else name: [_prefixed(entry, row) for entry in value]
        if is_of_dicts(value)
        else value
        for name, value in prediction.items()
    }


def load(path: Path | str) -> Run:
    """Load a finished run for prediction. The run folder may have been moved.

    A folder with several seeds (``edgewise train ... --seeds K``) is loaded as an ensemble, whose
    predictions are means over the seeds, if the run predicts properties of molecules, texts or
    nodes. (A single label of a text or a node is not such a property.)

    Args:
        path: run folder of ``edgewise train`` or :func:`edgewise.app.runs.train`.

    Raises:
        MissingDataError: the run does not exist or has not finished.
        ArgumentError: a file of the run is damaged, the folder has several runs, no predictor
            supports the recipe's kind of data, or the package that provides the recipe is not
            installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import edgewise
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> folder = Path(mkdtemp())  # or the folder that `edgewise train --out` wrote
        >>> _ = runs.train(runs.with_values(find("digits"), {"trainer.epochs": 1}), folder)
        >>> run = edgewise.load(folder)
        >>> type(run.model).__name__, run.recipe.name
        ('Sequential', 'digits')
    """
    folder = RunFolder(Path(path))
    recipe = load_recipe(folder)
    members = [path for path in folder.runs() if path.name.startswith("seed-")]
    preprocessing = kept_preprocessing(RunFolder(next(iter(members), folder.path)))
    predictor_class = predictor_of(with_known_targets(recipe, preprocessing))
    tokenizer = None
    if members and predictor_class.ensembles:
        runs = [load(member) for member in members]
        first = runs[0].predictor
        model: nn.Module = Ensemble([run.model for run in runs], first.preprocessing.targets)
        preprocessing, tokenizer = first.preprocessing, getattr(first, "tokenizer", None)
        predictor = predictor_class(recipe, model.eval(), preprocessing, tokenizer, folder.path)
        return Run(folder.path, recipe, model, predictor)
    check_finished(folder, recipe)
    if members or preprocessing is None:
        preprocessing = load_preprocessing(folder)
    if folder.has(TOKENIZER):
        tokenizer = load_tokenizer(folder.path / TOKENIZER)
    check_vocabulary(folder, tokenizer, TOKENIZER)
    with folder.reading(PREPROCESSING, f"the properties of the data of the run in {RECIPE}"):
        model = build_model(recipe, preprocessing, folder.count_weights())
        folder.load_weights(model)
        predictor = predictor_class(recipe, model.eval(), preprocessing, tokenizer, folder.path)
    return Run(folder.path, recipe, model, predictor)
