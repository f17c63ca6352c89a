"""Data, model and evaluation of a recorded recipe, which may come from someone else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torch import nn

from edgewise._utils.errors import ArgumentError, MissingDataError, MissingExtraError, WriteError
from edgewise.app.runs.recipe_fields import part_fields
from edgewise.app.runs.record import check_finished, load_recipe
from edgewise.app.runs.train_recipe import checked_model
from edgewise.app.runs.vocabulary import with_vocabulary
from edgewise.app.train.fitting import evaluate_with_examples
from edgewise.app.train.folder import RECIPE, TEST_EXAMPLES, RunFolder
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits


def prepare_recorded(recipe: Recipe, folder: RunFolder) -> tuple[nn.Module, Splits]:
    """Build the model and load the data of the recipe in a run folder. Hazard: the recipe may come
    from someone else and name any file of this computer, so errors do not show file contents.
    """
    with _without_content(recipe, folder):
        recipe = with_vocabulary(recipe, folder)
        splits = recipe.data.load()
    return checked_model(recipe, splits), splits


@contextmanager
def _without_content(recipe: Recipe, folder: RunFolder) -> Iterator[None]:
    """Replace errors about data files by one that does not show the content of these files."""
    try:
        yield
    except (MissingDataError, MissingExtraError):
        raise
    except Exception as error:
        files = _data_files(recipe, folder)
        if not files:
            raise
        position = re.search(r"\bin ((?:line|row|column) \d+)\b", str(error))
        where = f", in {position[1]}" if position else ""
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


def evaluate_one(path: Path) -> dict[str, float]:
    """Return metrics of a finished run; those of each test example are written to its folder."""
    folder = RunFolder(path)
    recipe = load_recipe(folder)
    check_finished(folder, recipe)
    model, splits = prepare_recorded(recipe, folder)
    folder.load_weights(model)
    loaders = splits.loaders(recipe.seed)
    task = recipe.task.with_targets(splits.targets, splits.class_counts)
    metrics, examples = evaluate_with_examples(model, task, loaders, recipe.trainer.accelerator)
    if examples:
        with suppress(WriteError):
            folder.write_tensors(TEST_EXAMPLES, examples)
    return metrics
