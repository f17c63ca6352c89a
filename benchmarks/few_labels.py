"""Fine-tuning with few labels, from pre-trained and from random weights.

    python -m benchmarks.few_labels text [--counts 100 200 500] [--seeds 5] [--folder DIR]

For each seed, a study pre-trains a model without labels, by ``edgewise train``. Then it trains the
same model on a few labels, once from the pre-trained and once from random weights. Both trainings
have the same labels and the same initial weights of the output head. For each number of labels and
both starts, the settings are chosen among the same values by the validation metric, averaged over
the first two seeds. The test metric is measured only for the chosen settings.

Two simple methods are evaluated on the same labels: the baselines of ``edgewise baseline``, and
logistic regression on the mean of word vectors that are computed from the unlabelled texts without
a network: the positive pointwise mutual information (PPMI) of words in the same sentence,
factorised by SVD (Levy and Goldberg, 2014).

Fine-tuning is as in ``edgewise train``, except that the weights of the last epoch are used instead
of those of the best one, and that no files are written. Data are loaded once per seed, because
loading takes longer than training.

The benchmark prints mean and standard deviation over the seeds, the mean difference between the two
starts for the same seed, and the p-value of the paired t-test. Measured values are kept in
``DIR/STUDY.json``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.pruning import Results
from edgewise.app.kinds import find
from edgewise.app.runs import baselines, fields_of, paired_test, train, with_values
from edgewise.app.runs.baseline_results import without_augmentation
from edgewise.app.runs.fine_tuning import load_backbone
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.runs.train_recipe import build_model
from edgewise.app.train import Recipe, RunFolder, Splits, TextSplits, evaluate, seed_everything
from edgewise.app.train.baseline import batches_of
from edgewise.app.train.preprocessing import preprocessing_of
from edgewise.app.train.text.baselines import texts_of

CHOOSING = 2
"""Number of seeds over which the validation metric is averaged to choose the settings."""
STARTS = ("scratch", "pretrained")


@dataclass(frozen=True)
class Study:
    """Recipes and settings of a study.

    Attributes:
        pretraining: recipe for pre-training, which needs no labels.
        tuning: recipe for training on the labels.
        metric: name of the reported metric.
        sign: 1 if a higher metric is better, -1 if a lower one is.
        scale: factor by which the metric is multiplied, such as 100 for percent.
        grid: values to choose from, for each field of the recipe ``tuning``.
        counts: numbers of labels to train with.
    """

    pretraining: Recipe
    tuning: Recipe
    metric: str
    sign: int
    scale: float
    grid: Mapping[str, tuple[float, ...]]
    counts: tuple[int, ...]

    def settings(self) -> list[dict[str, float]]:
        """Return all combinations of values in the grid, as dicts from fields to values."""
        return [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]


STUDIES = {
    "text": Study(
        find("contrastive-sst2"),
        find("bag-sst2"),
        metric="accuracy",
        sign=1,
        scale=100,
        grid={"optimizer.lr": (1e-3, 5e-3)},
        counts=(100, 200, 500),
    ),
}


class Measured:
    """Trainings of a study with a given number of labels.

    Args:
        study: recipes and settings.
        count: number of labels.
        begin: folder of the pre-trained run of each seed.
        results: dict of values that were measured before; new values are added.
    """

    def __init__(self, study: Study, count: int, begin: list[Path], results: Results) -> None:
        self.study, self.count, self.begin, self.results = study, count, begin, results
        self.seeds = range(len(begin))
        self.loaded: dict[int, Splits] = {}

    def recipe(self, start: str, setting: Mapping[str, float], seed: int) -> Recipe:
        """Return the recipe for a training; ``start`` is "scratch" or "pretrained"."""
        values: dict[str, Any] = {**setting, "data.labelled": self.count, "data.split_seed": seed}
        if "data.tokenizer" in fields_of(self.study.tuning):  # Both starts use one vocabulary.
            values["data.tokenizer"] = str(self.begin[seed])
        if start == "pretrained":
            values["from"] = str(self.begin[seed])
        return replace(with_values(self.study.tuning, values), seed=seed)

    def measured(self, start: str, setting: Mapping[str, float], seed: int) -> dict[str, float]:
        """Return the scaled metric of each split; train only if it was not measured before."""
        values = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        key = f"{self.count} labels, {start}, {values}, seed {seed}"
        if key not in self.results:
            recipe = self.recipe(start, setting, seed)
            if seed not in self.loaded:
                self.loaded[seed] = recipe.data.load()
            metrics_of_splits = fine_tuned(recipe, self.loaded[seed], self.study.metric)
            self.results[key] = {
                split: self.study.scale * metrics_of_splits[split] for split in metrics_of_splits
            }
            print(f"{key}: val {self.results[key]['val']:.3f}", flush=True)
        metrics: dict[str, float] = self.results[key]
        return metrics

    def chosen(self, start: str) -> dict[str, float]:
        """Return the setting with the best validation metric; the first one if several are best."""

        def score(setting: Mapping[str, float]) -> float:
            values = [self.measured(start, setting, seed)["val"] for seed in self.seeds[:CHOOSING]]
            return self.study.sign * statistics.fmean(values)

        return max(self.study.settings(), key=score)

    def tested(self, start: str) -> list[float]:
        """Return the test metric for each seed, with the chosen setting."""
        setting = self.chosen(start)
        return [self.measured(start, setting, seed)["test"] for seed in self.seeds]

    def simple(self) -> dict[str, list[float]]:
        """Return the test metrics of each baseline, one for each seed."""
        key = f"baselines, {self.count} labels, {len(self.seeds)} seeds"
        if key not in self.results:
            by_baseline: dict[str, list[float]] = {}
            for seed in self.seeds:
                recipe = self.recipe("scratch", {}, seed)
                measured = {
                    baseline.name: baseline.metrics[f"test/{self.study.metric}"]
                    for baseline in baselines(recipe)
                }
                measured["PPMI, SVD and logistic regression"] = word_vectors(recipe)
                for name, value in measured.items():
                    by_baseline.setdefault(name, []).append(self.study.scale * value)
            self.results[key] = by_baseline
        values: dict[str, list[float]] = self.results[key]
        return values


def fine_tuned(recipe: Recipe, splits: Splits, metric: str) -> dict[str, float]:
    """Train a recipe on loaded data; return the metric after the last epoch on each split."""
    seed_everything(recipe.seed)
    model = build_model(recipe, preprocessing_of(splits))
    if recipe.start:
        load_backbone(model, recipe, RunFolder(Path(recipe.start)))
    loaders = splits.loaders(recipe.seed)
    task = recipe.task.with_targets(splits.targets)
    epochs, clip = recipe.trainer.epochs, recipe.trainer.clip_norm
    optimizer = recipe.optimizer.build(model)
    steps = epochs * len(loaders["train"])
    schedule = LambdaLR(optimizer, lambda step: recipe.schedule.factor(step, steps))
    seed_everything(recipe.seed + 1)
    model.train()
    for _ in range(epochs):
        for batch in loaders["train"]:
            optimizer.zero_grad()
            outputs = batch.select_outputs(model(*batch.inputs, **batch.keywords))
            task.loss(outputs, batch.target).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            schedule.step()
    metrics = evaluate(model, task, loaders)
    return {split: metrics[f"{split}/{metric}"] for split in ("val", "test")}


def word_vectors(recipe: Recipe, columns: int = 50) -> float:
    """Return the test accuracy of logistic regression on the mean word vector of each text.

    The penalty is chosen by the validation accuracy. The vectors are computed from all training
    texts, as the pre-training is, and the regression is fitted to the labelled ones.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    plain = replace(recipe, data=without_augmentation(recipe.data))
    labelled = plain.data.load()
    labelled_texts = {name: texts_and_labels(labelled, name) for name in ("train", "val", "test")}
    every, _ = texts_and_labels(with_values(plain, {"data.labelled": 0}).data.load(), "train")
    words = CountVectorizer(binary=True, min_df=2, token_pattern=r"\w+|[^\w\s]")
    x = words.fit_transform(every).astype(float)
    pairs = (x.T @ x).tocoo()
    number = x.sum(0).A1
    information = np.log(pairs.data * len(every) / (number[pairs.row] * number[pairs.col]))
    pairs.data = information.clip(min=0)
    svd = TruncatedSVD(min(columns, len(number) - 1), random_state=0).fit(pairs)
    vectors = svd.components_.T * np.sqrt(svd.singular_values_)
    means = {
        name: counts @ vectors / np.maximum(counts.sum(1).A1, 1)[:, None]
        for name, counts in (
            (name, words.transform(texts)) for name, (texts, _) in labelled_texts.items()
        )
    }
    models = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
        for strength in (0.01, 0.1, 1.0, 10.0)
    ]
    fitted = [model.fit(means["train"], labelled_texts["train"][1]) for model in models]
    best = max(fitted, key=lambda model: model.score(means["val"], labelled_texts["val"][1]))
    return float(best.score(means["test"], labelled_texts["test"][1]))


def texts_and_labels(splits: Splits, split: str) -> tuple[list[str], list[int]]:
    """Return the texts of a split, decoded from their tokens, and the index of their labels."""
    assert isinstance(splits, TextSplits)
    texts: list[str] = []
    labels: list[int] = []
    for batch in batches_of(getattr(splits, split)):
        texts += texts_of(batch.inputs[0], splits)
        labels += batch.target.tolist()
    return texts, labels


def paired(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Return mean and standard deviation of ``one - other``, and the p-value of a paired t-test."""
    differences = [a - b for a, b in zip(first, second, strict=True)]
    p = paired_test(torch.tensor(first).double(), torch.tensor(second).double()).p
    return *mean_and_std(differences), p


def lines(name: str, measured: list[Measured]) -> Iterator[str]:
    """Yield the lines of a study's table, and then the chosen settings."""
    digits = 1 if STUDIES[name].scale > 1 else 3
    tested = [[trainings.tested(start) for start in STARTS] for trainings in measured]
    simple = list(measured[0].simple())
    yield f"| labels | from scratch | pre-trained | difference | p | {' | '.join(simple)} |"
    yield f"| ---: |{' ---: |' * (4 + len(simple))}"
    for trainings, (scratch, pretrained) in zip(measured, tested, strict=True):
        mean, std, p = paired(pretrained, scratch)
        columns = [scratch, pretrained, *trainings.simple().values()]
        cells = [
            "{:.{d}f} ± {:.{d}f}".format(*mean_and_std(values), d=digits) for values in columns
        ]
        cells.insert(2, f"{mean:+.{digits}f} ± {std:.{digits}f} | {p:.2g}")
        yield f"| {trainings.count} | {' | '.join(cells)} |"
    for trainings in measured:
        for start in STARTS:
            yield f"{trainings.count} labels, {start}: {trainings.chosen(start)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES, help="study to run")
    parser.add_argument("--counts", type=int, nargs="+", help="numbers of labels")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/few-labels"), help="folder for runs and results"
    )
    arguments = parser.parse_args()
    study = STUDIES[arguments.study]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    begin = [arguments.folder / f"{arguments.study}-{seed}" for seed in range(arguments.seeds)]
    for seed, folder in enumerate(begin):
        recipe = replace(study.pretraining, seed=seed)
        train(recipe, folder, resume=(folder / "recipe.json").is_file())
    results = Results(arguments.folder / f"{arguments.study}.json")
    counts = arguments.counts or study.counts
    measured = [Measured(study, count, begin, results) for count in counts]
    print("\n".join(lines(arguments.study, measured)))
    print(f"{time.process_time() - began:.0f} s of processor time in this call")


if __name__ == "__main__":
    main()
