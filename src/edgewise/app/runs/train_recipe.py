"""Training and evaluation of one recipe in a run folder."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from edgewise._utils.errors import ArgumentError, MissingDataError, MissingExtraError, WriteError
from edgewise._utils.limits import built_within
from edgewise.app.runs.combining import combining
from edgewise.app.runs.fine_tuning import check_start, load_trunk
from edgewise.app.runs.hugging_face import is_hugging_face, load_their_weights, with_their_model
from edgewise.app.runs.launch import launch
from edgewise.app.runs.recipe_fields import model_fields, part_fields
from edgewise.app.runs.record import check_finished, differences, load_recipe, to_record
from edgewise.app.runs.vocabulary import (
    check_vocabulary,
    keep_vocabulary,
    vocabulary_record,
    with_vocabulary,
)
from edgewise.app.train.distributed import rank_and_world_size
from edgewise.app.train.fitting import evaluate_with_examples, fit
from edgewise.app.train.folder import METRICS, RECIPE, RunFolder
from edgewise.app.train.held_out import keep_held_out
from edgewise.app.train.preprocessing import Preprocessing, keep_preprocessing, preprocessing_of
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.rng import seed_everything
from edgewise.app.train.splits import Data, Splits, TextSplits
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.app.train.text.naive_bayes import CombinedClassifier, NaiveBayes
from edgewise.layers import GraphLayer, TextClassifier, shares_nodes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SWITCHES = {"edge_width": "bonds", "descriptor_width": "descriptors"}
"""For each model argument that the data determine: the field of the data that enables it."""


def train(
    recipe: Recipe, path: Path, *, resume: bool = False, title: str | None = None
) -> dict[str, float]:
    """Train a recipe, and return the final metrics.

    All values are checked before the folder is created.

    Args:
        recipe: recipe to train.
        path: run folder.
        resume: whether to resume an interrupted run in the folder. The results are those of an
            uninterrupted run. For a finished run, its metrics are returned.
        title: title of the progress display. Defaults to the recipe's name.

    Raises:
        RunExistsError: the folder is not empty, and ``resume`` is false.
        MissingDataError: there is no run to resume, or a data file is missing.
        ArgumentError: the run in the folder has another recipe, or a value is invalid.
        Interrupted: on Ctrl-C or SIGTERM, after a checkpoint has been saved, from which ``resume``
            continues.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> recipe = runs.with_values(find("digits"), {"trainer.epochs": 1})
        >>> metrics = runs.train(recipe, Path(mkdtemp()))
        >>> sorted(name for name in metrics if name.startswith("test"))
        ['test/accuracy', 'test/loss']
    """
    folder = RunFolder(path)
    recipe = with_their_model(recipe)
    if resume:
        check_same(recipe, load_recipe(folder), path)
        refuse_other_kind(folder, "one")
        if folder.has(METRICS):
            return folder.read_metrics()
    else:
        folder.refuse_existing()
    model, splits = _started(recipe, folder)
    tokenizer = _tokenizer(splits)
    # to_record raises an error if the run could not be resumed from its record.
    record = to_record(recipe) | vocabulary_record(tokenizer)
    with folder.claimed(RECIPE, record, resume=resume):
        keep_vocabulary(folder, tokenizer)
        keep_preprocessing(folder, splits)
        title = title or recipe.name
        if recipe.trainer.devices > 1 and rank_and_world_size()[1] == 1:
            del model, splits
            launch(path, recipe.trainer.devices, title)
            return folder.read_metrics()
        return _fit(recipe, model, splits, folder, title)


def train_here(recipe: Recipe, folder: RunFolder, title: str) -> dict[str, float]:
    """Train a recipe in the current process, which is the only or one of several processes.

    Args:
        recipe: recipe to train.
        folder: existing run folder.
        title: title of the progress display.
    """
    model, splits = _started(recipe, folder)
    return _fit(recipe, model, splits, folder, title)


def _started(recipe: Recipe, folder: RunFolder | None) -> tuple[nn.Module, Splits]:
    """Build the model and load the data for training.

    If ``recipe.start`` is set, the backbone is initialised with the weights in that folder, unless
    training is resumed.

    Args:
        recipe: recipe to train.
        folder: run folder. Training is resumed if the folder has a checkpoint.
    """
    begins = recipe.start and not (folder and folder.checkpoint.is_file())
    if begins and not is_hugging_face(recipe.start):
        check_start(recipe)
    model, splits = _prepared(with_vocabulary(recipe, folder))
    if begins:
        if is_hugging_face(recipe.start):
            inner = model.model if isinstance(model, TargetScaling) else model
            labels = splits.preprocessing.get("labels") or [one.name for one in splits.targets]
            load_their_weights(inner, recipe.start, labels)
            return model, splits
        start = RunFolder(Path(recipe.start))
        check_vocabulary(start, _tokenizer(splits), "data.tokenizer")
        load_trunk(model, recipe, start)
    return model, splits


def _tokenizer(splits: Splits) -> Tokenizer | None:
    return splits.tokenizer if isinstance(splits, TextSplits) else None


def _fit(
    recipe: Recipe, model: nn.Module, splits: Splits, folder: RunFolder, title: str
) -> dict[str, float]:
    recipe = recipe.for_targets(splits.targets, splits.class_counts)
    loaders = splits.loaders(recipe.seed)
    # Reseed, so that training does not repeat the random numbers of the initial weights.
    seed_everything(recipe.seed + 1)
    metrics = fit(
        model,
        recipe.task,
        loaders,
        folder,
        optimizer=recipe.optimizer,
        schedule=recipe.schedule,
        trainer=recipe.trainer,
        callbacks=combining(model, loaders["val"]),
        title=title,
    )
    if rank_and_world_size()[0] == 0:
        keep_held_out(folder, model, splits)
    return metrics


def prepare(recipe: Recipe) -> tuple[nn.Module, Splits]:
    """Build the model, load the data, and compute the loss of one batch as a test.

    Raises:
        EdgewiseError: a value of the recipe is invalid, such as a graph that cannot be bound to the
            sizes of the data.
    """
    return _started(with_their_model(recipe), None)


def prepare_recorded(recipe: Recipe, folder: RunFolder) -> tuple[nn.Module, Splits]:
    """Build the model and load the data of the recipe in a run folder.

    The recipe may come from someone else, and name any file of this computer as its data.
    Therefore errors do not show what these files contain.

    Raises:
        ArgumentError: a data file is invalid.
    """

    def load(data: Data) -> Splits:
        with _without_content(recipe, folder):
            return data.load()

    with _without_content(recipe, folder):
        recipe = with_vocabulary(recipe, folder)
    return _prepared(recipe, load)


@contextmanager
def _without_content(recipe: Recipe, folder: RunFolder) -> Iterator[None]:
    """In a ``with`` block, replace errors about data files by one that does not show their content.

    Args:
        recipe: recipe that names the files.
        folder: its run folder.
    """
    try:
        yield
    except (MissingDataError, MissingExtraError):
        raise
    except Exception as error:
        files = _data_files(recipe, folder)
        if not files:
            raise
        place = re.search(r"\bin ((?:line|row|column) \d+)\b", str(error))
        where = f", in {place[1]}" if place else ""
        raise ArgumentError(
            ", ".join(files),
            expected=f"the data that {folder.path / RECIPE} was trained with",
            got=f"an error about {', '.join(map(repr, files.values()))}{where}. The content is not "
            f"shown, because {RECIPE} names the file, not you",
            remedy="correct the file; to see the whole error, name it yourself: `edgewise baseline "
            f"{shlex.quote(recipe.name)} {' '.join(f'--{name} FILE' for name in files)}`",
        ) from None


def _data_files(recipe: Recipe, folder: RunFolder) -> dict[str, str]:
    """Return the fields of the data that name files outside the run folder, with their values."""
    files = {}
    for name, field in part_fields(recipe.data).items():
        for value in field.value if isinstance(field.value, tuple) else (field.value,):
            with suppress(OSError, ValueError):  # The name is too long, or not a name.
                if (
                    isinstance(value, str)
                    and value
                    and Path(value).exists()
                    and not Path(value).resolve().is_relative_to(folder.path.resolve())
                ):
                    files[f"data.{name}"] = value
    return files


def _load(data: Data) -> Splits:
    return data.load()


def _prepared(recipe: Recipe, load: Callable[[Data], Splits] = _load) -> tuple[nn.Module, Splits]:
    recipe.trainer.check(recipe.task.possible_metrics())
    splits = load(recipe.data)
    described = recipe.for_targets(splits.targets, splits.class_counts)
    seed_everything(recipe.seed)
    model = build_model(recipe, preprocessing_of(splits))
    if splits.codes is not None:
        splits.codes.prepare(encodings_of(model), shared=shares_nodes(model))
    described.trainer.check(described.task.metrics(), model)
    recipe.optimizer.build(model)  # This checks decay_only and layer_decay.
    batch = next(iter(splits.loaders(recipe.seed)["val"]))
    with torch.no_grad():
        outputs = batch.select_outputs(model.eval()(*batch.inputs, **batch.keywords))
        described.task.loss(outputs, batch.target)
    return model, splits


def encodings_of(model: nn.Module) -> dict[str, Any]:
    """Return the encodings of nodes or edges that batches must contain for a model.

    Returns:
        The encodings, by the keyword argument of the model that receives them.
    """
    known = (part.encodings() for part in model.modules() if isinstance(part, GraphLayer))
    return next((encodings for encodings in known if encodings), {})


def evaluate_one(path: Path) -> dict[str, float]:
    """Evaluate the weights of one finished run, and return its metrics.

    The metrics of each test example are written to the run folder, if it can be written.
    """
    folder = RunFolder(path)
    recipe = load_recipe(folder)
    check_finished(folder, recipe)
    model, splits = prepare_recorded(recipe, folder)
    folder.load_weights(model)
    loaders = splits.loaders(recipe.seed)
    task = recipe.task.with_targets(splits.targets, splits.class_counts)
    metrics, examples = evaluate_with_examples(model, task, loaders, recipe.trainer.accelerator)
    with suppress(WriteError):
        folder.write_test_examples(examples)
    return metrics


def build_model(
    recipe: Recipe, preprocessing: Preprocessing, saved: int | None = None
) -> nn.Module:
    """Build the model of a recipe with the arguments that the data determine.

    Args:
        recipe: recipe of the model.
        preprocessing: properties of the training data, which contain these arguments.
        saved: number of weights in the file that will be loaded, if there is one.

    Raises:
        ArgumentError: the model does not fit the data or the memory, or is much larger than its
            file.
    """
    wanted = model_fields(recipe.model, ())
    arguments = dict(preprocessing.model_arguments)
    data_sizes = {name: arguments.pop(name) for name in recipe.task.takes if name in arguments}
    # A width of 0 means the feature is absent, so models without this argument ignore it.
    arguments = {n: size for n, size in arguments.items() if n in wanted or size != 0}
    strange = [name for name in arguments if name not in wanted]
    if strange:
        fields = [SWITCHES[n] for n in strange if n in SWITCHES]
        optional = [field for field in fields if hasattr(recipe.data, field)]
        switched = " ".join(f"--data.{field} false" for field in optional)
        raise ArgumentError(
            "model",
            expected=f"a model with the arguments that the data determine: {', '.join(arguments)}",
            got=f"{recipe.model.func.__name__}, which has no {', '.join(strange)}",
            remedy=f"omit the features that the model does not use: {switched}"
            if len(optional) == len(strange)
            else "choose another model or other data",
        )
    missing = [
        name
        for name, field in wanted.items()
        if field.value is inspect.Parameter.empty and name not in arguments
    ]
    if missing:
        raise ArgumentError(
            "model",
            expected=f"data that determine {', '.join(missing)}, or a recipe that sets them",
            got=f"data that determine {', '.join(arguments) or 'no argument'}",
            remedy="choose another model or other data",
        )
    with built_within(f"model of {recipe.name}", saved):
        model = recipe.task.complete(recipe.model(**arguments), data_sizes)
    prefix = "naive_bayes."
    counted = {
        n.removeprefix(prefix): x for n, x in preprocessing.values.items() if n.startswith(prefix)
    }
    # Naive Bayes contains the frequencies of the classes, which class weights are to remove.
    weighted = getattr(recipe.task, "class_weight", "none") != "none"
    if counted and not recipe.start and not weighted and isinstance(model, TextClassifier):
        model = CombinedClassifier(model, NaiveBayes(**counted))
    return (
        TargetScaling(model, *preprocessing.target_scale) if preprocessing.target_scale else model
    )


def check_same(recipe: Recipe, recorded: Recipe, path: Path) -> None:
    """Raise ArgumentError if the recipe differs from that of the run to resume.

    Args:
        recipe: recipe of the new command.
        recorded: recipe of the run.
        path: run folder.
    """
    differing = differences(recorded, recipe)
    if differing:
        raise ArgumentError(
            "--resume",
            expected=f"the fields with which the run in {path} was started",
            got=f"different values ({'; '.join(differing)})",
            remedy="give the values of the run, or start a new run in another folder with --out",
        )


def refuse_other_kind(folder: RunFolder, kind: str) -> None:
    """Raise ArgumentError unless ``--seeds`` or ``--folds`` are used as when the run started.

    Args:
        folder: folder of the run to resume.
        kind: "seed" with ``--seeds``, "fold" with ``--folds``, "one" without both.
    """
    ways = {"one": "neither --seeds nor --folds", "seed": "--seeds N", "fold": "--folds"}
    begun = [several for several in ("seed", "fold") if any(folder.path.glob(f"{several}-*"))]
    if not begun and (folder.checkpoint.exists() or folder.weights.exists()):
        begun = ["one"]
    if begun and kind not in begun:
        raise ArgumentError(
            "--resume",
            expected=f"{ways[begun[0]]}, as in the command that started the run in {folder.path}",
            got=ways[kind],
            remedy="repeat the command that started the run, or start a new run with --out",
        )
