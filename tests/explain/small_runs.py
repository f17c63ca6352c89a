"""Small trained runs of several kinds."""

from __future__ import annotations

import csv
import random
from functools import partial
from pathlib import Path
from typing import Any

import torch

from edgewise import data, models, tasks, training
from edgewise.recipes import Recipe
from edgewise.runs import train

WORDS = "the a cat dog mat sat ran on over under red blue big small old film".split()  # noqa: SIM905
GERMAN = {"the": "die", "cat": "Katze", "dog": "Hund", "sat": "saß", "ran": "lief", "on": "auf"}


def trained(
    folder: Path, model: Any, source: Any, task: Any, epochs: int = 1, **sizes: Any
) -> Path:
    """Train a small model, and return its run folder."""
    torch.set_num_threads(1)
    recipe = Recipe(
        name="small",
        summary="",
        model=partial(model, **sizes),
        data=source,
        task=task,
        optimizer=training.OptimizerSettings(lr=1e-2),
        schedule=training.CosineSchedule(),
        trainer=training.TrainerSettings(
            epochs=epochs, monitor="val/loss", mode="min", accelerator="cpu"
        ),
    )
    train(recipe, folder / "run")
    return folder / "run"


def sentences(folder: Path, **changes: Any) -> Path:
    """Train a classifier of sentences: those with the word "big" are praise."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    texts = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(300)]
    with (folder / "mine.csv").open("w", newline="") as file:
        rows = [("praise" if "big" in text else "blame", " ".join(text)) for text in texts]
        csv.writer(file).writerows([("verdict", "opinion"), *rows])
    table = data.text_table(path=str(folder / "mine.csv"), kind="words", vocab_size=None)
    sizes = {"width": 16, "depth": 2, "heads": 4, "ffn_dim": 32, "max_length": 64, "dropout": 0.0}
    task = tasks.TextClassification(pool="max")
    return trained(folder, models.bert, table, task, epochs=6, **sizes | changes)


def translations(folder: Path, epochs: int = 1) -> Path:
    """Train a translator of a few words."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for name, count in (("train", 40), ("val", 8), ("test", 8)):
        texts = [draw.choices(list(GERMAN), k=draw.randint(1, 4)) for _ in range(count)]
        (folder / f"{name}.en").write_text("\n".join(" ".join(text) for text in texts))
        german = [" ".join(GERMAN[word] for word in text) for text in texts]
        (folder / f"{name}.de").write_text("\n".join(german))
    parallel = data.parallel(folder=str(folder), vocab_size=60, batch_size=200)
    sizes = {"width": 16, "depth": 1, "heads": 2, "ffn_dim": 16, "dropout": 0.0}
    task = tasks.Translation(num_beams=2)
    return trained(folder, models.transformer, parallel, task, epochs, **sizes)
