"""Evaluation of baselines with the data splits and metrics of a recipe."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import require
from edgewise.app.kinds import Baselines, kinds
from edgewise.app.train.baseline import NoBaselineError, Score, Writer
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Data, Loader, Splits

AUGMENTATION: Mapping[str, Any] = {"word_dropout": 0.0, "warp": 0.0, "flip": False}
"""Fields of data sets that control random augmentation, with the values that turn it off."""


@dataclass(frozen=True)
class Baseline:
    """Evaluated baseline with its best setting.

    Attributes:
        name: name of the method.
        setting: hyperparameters with the best validation metric, as text; empty if there are none.
        metrics: metrics on the validation and test sets, by names such as ``test/accuracy``.
        seconds: processor time for all settings of the method, in seconds.
        test_examples: metrics and target of each test example; see
            :meth:`edgewise.app.train.Task.per_example_metrics`.

    Example:
        >>> from edgewise.app.runs import Baseline
        >>> Baseline("most frequent class", "", {"test/accuracy": 0.3}, seconds=0.1).metrics
        {'test/accuracy': 0.3}
    """

    name: str
    setting: str
    metrics: dict[str, float]
    seconds: float
    test_examples: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def record(self) -> dict[str, Any]:
        """Return the values for a JSON file, without those of each test example."""
        return {name: value for name, value in vars(self).items() if name != "test_examples"}


def lower_is_better(recipe: Recipe, metric: str) -> bool:
    """Return whether lower values of a metric are better."""
    name = metric.rpartition("/")[2]
    metrics: dict[str, Any] = recipe.task.metrics() | recipe.task.generation_metrics()
    if name not in metrics:  # The data may describe their targets.
        metrics = recipe.task.possible_metrics()
    if name not in metrics:  # The loss, or a metric that grows with the loss, such as perplexity.
        return True
    torchmetric = metrics[name]
    while hasattr(torchmetric, "wrapped_metric"):
        torchmetric = torchmetric.wrapped_metric
    return not torchmetric.higher_is_better


def main_metric(recipe: Recipe, baseline: Baseline) -> str:
    """Return the metric by which settings are chosen: the monitored one, or the task's first."""
    names = [name.removeprefix("val/") for name in baseline.metrics if name.startswith("val/")]
    monitored = recipe.trainer.monitor.partition("/")[2]
    # Data that describe their targets have ROC-AUC, and the loss is monitored instead of accuracy.
    replaced = monitored == "accuracy" and "roc_auc" in names
    return monitored if monitored in names and not replaced else names[0]


def baselines(
    recipe: Recipe, *, quick: bool = False, splits: Splits | None = None
) -> Iterator[Baseline]:
    """Yield the baselines for a recipe, each with its best setting, as soon as it is evaluated.

    The data, their splits and the metrics are those of the recipe, without random augmentation of
    the training examples. The validation set chooses the setting.

    Args:
        recipe: recipe whose task, data and metrics are used.
        quick: whether to leave out baselines that take more than about ten seconds.
        splits: data of the recipe, if they are loaded; otherwise they are loaded here.

    Raises:
        NoBaselineError: there are no baselines for the recipe's data and task.
        MissingExtraError: a library is not installed.

    Example:
        >>> from edgewise.app.runs import baselines
        >>> from edgewise.app.kinds import find
        >>> quick = list(baselines(find("digits"), quick=True))
        >>> sorted({baseline.name.split(" (")[0] for baseline in quick})
        ['k-NN on pixels', 'logistic regression on pixels']
    """
    # Imported before processor time is measured, so that no method is charged for start-up.
    require("edgewise.app.train.split_metrics", extra="train", purpose="metrics of baselines")
    kind = baselines_for(recipe)
    module = require(kind.module, extra=kind.extra, purpose=f"baselines of {kind.name}")
    data = without_augmentation(recipe.data)
    # Training adds encodings for its model to loaded batches.
    if splits is None or splits.codes is not None or data != recipe.data:
        splits = data.load()
    recipe = recipe.for_targets(splits.targets, splits.class_counts)
    loaders = splits.loaders(recipe.seed)
    for _, settings in groupby(module.candidates(recipe, splits), attrgetter("name")):
        best: tuple[Baseline, Score | Writer] | None = None
        seconds = 0.0
        for candidate in settings:
            if quick and candidate.slow:
                continue
            started = time.process_time()
            with torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*(failed to|hasn't) converge")
                method = candidate.fit()
            metrics, _ = _evaluate(recipe, method, loaders["val"], "val")
            seconds += time.process_time() - started
            baseline = Baseline(candidate.name, candidate.setting, metrics, seconds)
            if best is None or best_of(recipe, [best[0], baseline]) is baseline:
                best = baseline, method
        if best is not None:
            started = time.process_time()
            baseline, method = best
            metrics, examples = _evaluate(recipe, method, loaders["test"], "test")
            seconds += time.process_time() - started
            yield replace(
                baseline,
                metrics=baseline.metrics | metrics,
                seconds=seconds,
                test_examples=examples,
            )


def best_of(recipe: Recipe, measured: Sequence[Baseline], split: str = "val") -> Baseline:
    """Return the baseline with the best main metric on a split, NaN being the worst; ties go to
    the first.
    """
    name = f"{split}/{main_metric(recipe, measured[0])}"
    sign = -1 if lower_is_better(recipe, name) else 1
    values = [sign * baseline.metrics[name] for baseline in measured]
    return measured[max(range(len(values)), key=lambda i: (not math.isnan(values[i]), values[i]))]


@torch.no_grad()
def _evaluate(
    recipe: Recipe, method: Score | Writer, loader: Loader, split: str
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the metrics on a split, and for the test set those of each example."""
    from edgewise.app.train.split_metrics import SplitMetrics

    if isinstance(method, Writer):  # The metrics are those of all texts together.
        values, examples = _generation_metrics(recipe, method.write, loader), {}
    else:
        metrics = SplitMetrics(recipe.task, keep_examples=split == "test")
        for batch in loader:
            if len(batch.target):  # A window of text may have no masked token.
                metrics.add(method(batch), batch.target)
        values, examples = metrics.finish(), metrics.per_example
        if len(metrics) > 1:  # Scores need not be logits, for which the loss is defined.
            del values["loss"]
        if split == "test":
            values |= _generation_metrics(recipe, partial(_generate, recipe, method), loader)
    return {f"{split}/{name}": value for name, value in values.items()}, examples


def _generation_metrics(
    recipe: Recipe, generate: Callable[[Any], Any], loader: Loader
) -> dict[str, float]:
    """Return the metrics of generated outputs, such as BLEU of texts or recall@k of rankings."""
    metrics = recipe.task.generation_metrics()
    for batch in loader if metrics else ():
        outputs = generate(batch)
        for metric in metrics.values():
            metric.update(outputs, batch)
    return {name: float(metric.compute()) for name, metric in metrics.items()}


def _generate(recipe: Recipe, score: Score, batch: Batch) -> Any:
    """Return the outputs that a task generates from scores, such as rankings of items."""
    return recipe.task.generate(lambda *inputs: score(replace(batch, inputs=inputs)), batch)


def without_augmentation(data: Data) -> Data:
    """Return a copy of the data settings with random augmentation turned off."""
    names = {field.name for field in fields(data)} & AUGMENTATION.keys()
    return replace(data, **{name: AUGMENTATION[name] for name in names})


def baselines_for(recipe: Recipe) -> Baselines:
    """Return the baselines that a kind of problem has for a recipe, or raise NoBaselineError."""
    entries = []
    for entry in chain.from_iterable(kind.baselines for kind in kinds()):
        if isinstance(recipe.data, entry.data) and type(recipe.task) in entry.tasks:
            return entry
        entries.append(entry)
    raise NoBaselineError(
        "recipe",
        expected="a recipe with baselines, on "
        + ", ".join(f"{entry.name} (such as {entry.example})" for entry in entries),
        got=f"{recipe.name}: {recipe.summary}",
        remedy="choose another recipe, or compare models with `edgewise compare`",
    )
