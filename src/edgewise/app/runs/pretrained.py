"""Settings of fine-tuning: defaults of a recipe that starts from a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import counted, reading
from edgewise._utils.limits import read_json_object
from edgewise.app.train.folder import RECIPE
from edgewise.app.train.parsing import read_value
from edgewise.app.train.recipe import OptimizerSettings, Recipe
from edgewise.app.train.schedule import SCHEDULES, LinearSchedule, Schedule
from edgewise.app.train.text.text_data import TextData

CONFIG = "config.json"
OPTIMIZER = OptimizerSettings("adamw", lr=5e-5, weight_decay=0.01)
SCHEDULE = LinearSchedule(warmup=0.1)
TRAINER: dict[str, Any] = {"epochs": 3, "min_steps": 200, "keep": "last", "clip_norm": 1.0}
DATA = {"word_dropout": 0.0, "naive_bayes": False}
"""Fields that help a model from random weights only, with the values that disable them."""


def is_hugging_face(start: str) -> bool:
    """Return whether a path is a folder that ``save_pretrained`` wrote, and not a run folder."""
    folder = Path(start)
    return bool(start) and (folder / CONFIG).is_file() and not (folder / RECIPE).exists()


def with_fine_tuning(recipe: Recipe, start: str) -> Recipe:
    """Return a recipe of texts with the settings of fine-tuning the Hugging Face folder ``start``;
    unchanged for other recipes and folders.
    """
    if not (is_hugging_face(start) and isinstance(recipe.data, TextData)):
        return recipe
    path = Path(start) / CONFIG
    with reading(path, expected="the configuration of a model as JSON"):
        config = read_json_object(path)
    dropout = _probability(path, config, "hidden_dropout_prob")
    if config.get("classifier_dropout") is None:  # The default of transformers.
        head_dropout = dropout
    else:
        head_dropout = _probability(path, config, "classifier_dropout")
    # Without a graph in the recipe, the model has that of its pre-training.
    model = {name: value for name, value in recipe.model.keywords.items() if name != "graph"}
    task = {"dropout": head_dropout, "pool": "class"}
    return replace(
        recipe,
        model=partial(recipe.model.func, **{**model, "dropout": dropout, **_ffn_dropout(recipe)}),
        data=_with_fields(recipe.data, DATA),
        task=_with_fields(recipe.task, task),
        optimizer=OPTIMIZER,
        schedule=SCHEDULE,
        trainer=replace(recipe.trainer, **TRAINER),
    )


def _ffn_dropout(recipe: Recipe) -> dict[str, float]:
    """Return the dropout within feed-forward networks, which models of transformers do not have."""
    return {"ffn_dropout": 0.0} if "ffn_dropout" in signature(recipe.model.func).parameters else {}


def fine_tuning_note(recipe: Recipe) -> str:
    """Return the settings with which a Hugging Face folder is fine-tuned; "" without a folder."""
    if not is_hugging_face(recipe.start):
        return ""
    optimizer, trainer, data, model = (
        recipe.optimizer,
        recipe.trainer,
        recipe.data,
        recipe.model.keywords,
    )
    least = f", at least {counted(trainer.min_steps, 'step')}" if trainer.min_steps else ""
    words = [
        f"{optimizer.name} with learning rate {optimizer.lr:g} and weight decay "
        f"{optimizer.weight_decay:g}",
        _schedule_words(recipe.schedule),
        f"{counted(trainer.epochs, 'epoch')}{least}",
        f"weights of the {trainer.keep} epoch",
        f"gradient norm at most {trainer.clip_norm:g}" if trainer.clip_norm else "no clipping",
        f"dropout {model.get('dropout', 0.1):g}",
        f"graph {model.get('graph', 'complete()')}",
    ]
    if hasattr(recipe.task, "pool"):
        words.append(f"pooling {recipe.task.pool}")
    if hasattr(data, "word_dropout"):
        words.append(
            f"word dropout {data.word_dropout:g}" if data.word_dropout else "no word dropout"
        )
    if hasattr(data, "naive_bayes"):
        words.append("naive Bayes" if data.naive_bayes else "no naive Bayes")
    return f"fine-tuning {recipe.start}: {', '.join(words)}"


def _schedule_words(schedule: Schedule) -> str:
    """Return a description such as "linear schedule with warm-up over 10 % of the steps"."""
    names = {cls: name for name, cls in SCHEDULES.items()}
    name = names.get(type(schedule), type(schedule).__name__)
    warmup = getattr(schedule, "warmup", 0)
    return f"{name} schedule" + (
        f" with warm-up over {100 * warmup:.3g} % of the steps" if warmup else ""
    )


def _probability(path: Path, config: Mapping[str, Any], name: str) -> float:
    """Return a dropout probability of a configuration, by default that of BERT and RoBERTa."""
    remedy = "write a number, such as 0.1"
    value: float = read_value(f"{path}: {name}", config.get(name, 0.1), float, remedy)
    check_range(f"{path}: {name}", value, remedy, least=0, most=1)
    return value


def _with_fields(settings: Any, values: dict[str, Any]) -> Any:
    """Return settings with new values for the fields that they have."""
    names = {field.name for field in fields(settings)}
    return replace(settings, **{name: value for name, value in values.items() if name in names})
