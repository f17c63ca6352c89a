"""Evaluation of baselines with the data splits and metrics of a recipe."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import require
from edgewise.app.kinds import Baselines, kinds
from edgewise.app.train.baseline import Candidate, NoBaselineError, Score, Writer
from edgewise.app.train.batches import Batch
from edgewise.app.train.loader import Loader
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Data, Splits

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
    """Return whether lower values of a metric are better.

    Args:
        recipe: recipe whose task has the metric.
        metric: name of the metric, such as ``test/mae``.
    """
    known = recipe.task.possible_metrics() | recipe.task.generation_metrics()
    found: Any = known.get(metric.rpartition("/")[2])
    if found is None:  # The loss, or a metric that grows with the loss, such as perplexity.
        return True
    while hasattr(found, "wrapped_metric"):
        found = found.wrapped_metric
    return not found.higher_is_better


def main_metric(recipe: Recipe, found: Baseline) -> str:
    """Return the metric by which settings are chosen: the monitored one, or the task's first.

    Args:
        recipe: recipe, which names the monitored metric.
        found: evaluated baseline, which has the metrics of the task.
    """
    known = [name.removeprefix("val/") for name in found.metrics if name.startswith("val/")]
    monitored = recipe.trainer.monitor.partition("/")[2]
    # Data that describe their targets have ROC-AUC, and the loss is monitored instead of accuracy.
    replaced = monitored == "accuracy" and "roc_auc" in known
    return monitored if monitored in known and not replaced else known[0]


def baselines(recipe: Recipe, *, quick: bool = False) -> Iterator[Baseline]:
    """Yield the baselines for a recipe, each with its best setting, as soon as it is evaluated.

    The data, their splits and the metrics are those of the recipe, without random augmentation of
    the training examples. The validation set chooses the setting.

    Args:
        recipe: recipe whose task, data and metrics are used.
        quick: whether to leave out baselines that take more than about ten seconds.

    Raises:
        NoBaselineError: there are no baselines for the recipe's data and task.
        MissingExtraError: a library is not installed.

    Example:
        >>> from edgewise.app.runs import baselines
        >>> from edgewise.app.kinds import find
        >>> found = list(baselines(find("digits"), quick=True))
        >>> sorted({baseline.name.split(" (")[0] for baseline in found})
        ['k-NN on pixels', 'logistic regression on pixels']
    """
    # Imported before processor time is measured, so that no method is charged for start-up.
    require("edgewise.app.train.split_metrics", extra="train", purpose="metrics of baselines")
    kind = baselines_for(recipe)
    splits = without_augmentation(recipe.data).load()
    recipe = recipe.for_targets(splits.targets, splits.class_counts)
    best: dict[str, tuple[Baseline, Score | Writer]] = {}
    pending = ""
    for candidate in kind.candidates(recipe, splits):
        if quick and candidate.slow:
            continue
        if pending and candidate.name != pending:
            yield _tested(recipe, splits, *best.pop(pending))
        pending = candidate.name
        found, score = _validated(recipe, splits, candidate)
        before, its_score = best.get(found.name, (None, score))
        seconds = found.seconds + (before.seconds if before else 0)
        if before is not None and not _better(recipe, found, before):
            found, score = before, its_score
        best[found.name] = replace(found, seconds=seconds), score
    if pending:
        yield _tested(recipe, splits, *best.pop(pending))


def is_large(recipe: Recipe, run: Preprocessing) -> bool:
    """Return whether all baselines for a recipe together take more than about a minute.

    Args:
        recipe: recipe of a run.
        run: properties of the data, which the run folder stores. The data are not loaded.

    Raises:
        NoBaselineError: there are no baselines for the recipe's data and task.
    """
    return baselines_for(recipe).is_large(run)


def best_of(recipe: Recipe, found: Sequence[Baseline], split: str = "val") -> Baseline:
    """Return the baseline with the best main metric on a split; ties go to the first.

    Args:
        recipe: recipe that was evaluated.
        found: baselines with their metrics.
        split: "val", or "test".

    Example:
        >>> from edgewise.app.kinds import find
        >>> from edgewise.app.runs import baselines, best_of
        >>> recipe = find("digits")
        >>> best = best_of(recipe, list(baselines(recipe, quick=True)))
        >>> best.metrics["val/accuracy"] > 0.9
        True
    """
    best = found[0]
    for one in found[1:]:
        best = one if _better(recipe, one, best, split) else best
    return best


def _better(recipe: Recipe, one: Baseline, other: Baseline, split: str = "val") -> bool:
    name = f"{split}/{main_metric(recipe, one)}"
    sign = -1 if lower_is_better(recipe, name) else 1
    if math.isnan(other.metrics[name]):
        return not math.isnan(one.metrics[name])
    return sign * one.metrics[name] > sign * other.metrics[name]


@torch.no_grad()
def _validated(
    recipe: Recipe, splits: Splits, candidate: Candidate
) -> tuple[Baseline, Score | Writer]:
    """Fit a candidate; return its validation metrics as a baseline, and the fitted method."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(failed to|hasn't) converge")
        method = candidate.fit()
    found, _ = _metrics_of(recipe, method, splits.loaders(recipe.seed)["val"])
    metrics = {f"val/{name}": value for name, value in found.items()}
    seconds = time.process_time() - started
    return Baseline(candidate.name, candidate.setting, metrics, seconds), method


@torch.no_grad()
def _tested(recipe: Recipe, splits: Splits, chosen: Baseline, method: Score | Writer) -> Baseline:
    """Return a baseline with its test metrics added.

    Args:
        recipe: recipe.
        splits: loaded data.
        chosen: baseline with validation metrics.
        method: the fitted method with its best setting.
    """
    started = time.process_time()
    test = splits.loaders(recipe.seed)["test"]
    found, examples = _metrics_of(recipe, method, test, keep_examples=True)
    if not isinstance(method, Writer):
        found |= _generated(recipe, partial(_made, recipe, method), test)
    metrics = chosen.metrics | {f"test/{name}": value for name, value in found.items()}
    seconds = chosen.seconds + time.process_time() - started
    return replace(chosen, metrics=metrics, seconds=seconds, test_examples=examples)


def _metrics_of(
    recipe: Recipe, method: Score | Writer, loader: Loader, *, keep_examples: bool = False
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the metrics on the examples of a loader, and if asked for those of each example.

    The metrics of a :class:`Writer` are those of its texts, and there are none of each example.
    """
    from edgewise.app.train.split_metrics import SplitMetrics

    if isinstance(method, Writer):
        return _generated(recipe, method.write, loader), {}
    metrics = SplitMetrics(recipe.task, keep_examples=keep_examples)
    for batch in loader:
        if len(batch.target):  # A window of text may have no masked token.
            metrics.add(method(batch), batch.target)
    found = metrics.finish()
    if recipe.task.metrics():  # Scores need not be logits, for which the loss is defined.
        del found["loss"]
    return found, metrics.per_example()


def _generated(recipe: Recipe, make: Callable[[Any], Any], loader: Loader) -> dict[str, float]:
    """Return the metrics of generated outputs, such as BLEU of texts or recall@k of rankings.

    Args:
        recipe: recipe, whose task has the metrics.
        make: function from a batch to its outputs.
        loader: batches.
    """
    metrics = recipe.task.generation_metrics()
    for batch in loader if metrics else ():
        made = make(batch)
        for metric in metrics.values():
            metric.update(made, batch)
    return {name: float(metric.compute()) for name, metric in metrics.items()}


def _made(recipe: Recipe, score: Score, batch: Batch) -> Any:
    """Return the outputs that a task generates from scores, such as rankings of items."""
    return recipe.task.generate(lambda *inputs: score(replace(batch, inputs=inputs)), batch)


def without_augmentation(data: Data) -> Data:
    """Return a copy of the data settings with random augmentation turned off."""
    names = {field.name for field in fields(data)} & AUGMENTATION.keys()
    return replace(data, **{name: AUGMENTATION[name] for name in names})


def baselines_for(recipe: Recipe) -> Baselines:
    """Return the baselines that a kind of problem has for a recipe.

    Raises:
        NoBaselineError: there are no baselines for its data and task.
    """
    known = [entry for kind in kinds() for entry in kind.baselines]
    for entry in known:
        if entry.has(recipe):
            return entry
    raise NoBaselineError(
        "recipe",
        expected="a recipe with baselines, on "
        + ", ".join(f"{entry.name} (such as {entry.example})" for entry in known),
        got=f"{recipe.name}: {recipe.summary}",
        remedy="choose another recipe, or compare models with `edgewise compare`",
    )
