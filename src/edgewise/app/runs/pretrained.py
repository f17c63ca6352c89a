"""Settings of fine-tuning: defaults of a recipe that starts from a Hugging Face folder."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgewise._utils.errors import reading
from edgewise._utils.limits import read_json_object
from edgewise.app.train.folder import RECIPE
from edgewise.app.train.recipe import OptimizerSettings, Recipe
from edgewise.app.train.schedule import LinearSchedule
from edgewise.app.train.text.text_data import TextData

CONFIG = "config.json"
OPTIMIZER = OptimizerSettings("adamw", lr=5e-5, weight_decay=0.01)
SCHEDULE = LinearSchedule(warmup=0.1)
TRAINER: dict[str, Any] = {"epochs": 3, "min_steps": 200, "clip_norm": 1.0}
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
    dropout = config.get("hidden_dropout_prob", 0.1)  # The default of BERT and RoBERTa.
    head_dropout = config.get("classifier_dropout")
    # Without a graph in the recipe, the model has that of its pre-training.
    model = {name: value for name, value in recipe.model.keywords.items() if name != "graph"}
    task = {"dropout": dropout if head_dropout is None else head_dropout, "pool": "class"}
    return replace(
        recipe,
        model=partial(recipe.model.func, **{**model, "dropout": dropout}),
        data=_with_fields(recipe.data, DATA),
        task=_with_fields(recipe.task, task),
        optimizer=OPTIMIZER,
        schedule=SCHEDULE,
        trainer=replace(recipe.trainer, **TRAINER),
    )


def fine_tuning_note(recipe: Recipe) -> str:
    """Return the settings with which a Hugging Face folder is fine-tuned; "" without a folder."""
    if not is_hugging_face(recipe.start):
        return ""
    trainer, least = recipe.trainer, f", at least {recipe.trainer.min_steps} steps"
    words = [
        f"learning rate {recipe.optimizer.lr:g}",
        f"{trainer.epochs} epochs{least * bool(trainer.min_steps)}",
        f"dropout {recipe.model.keywords.get('dropout', 0.1):g}",
        *(f"{name} {getattr(recipe.data, name)}" for name in DATA if hasattr(recipe.data, name)),
    ]
    return f"fine-tuning {recipe.start}: {', '.join(words)}"


def _with_fields(settings: Any, values: dict[str, Any]) -> Any:
    """Return settings with new values for the fields that they have."""
    names = {field.name for field in fields(settings)}
    return replace(settings, **{name: value for name, value in values.items() if name in names})
