"""Command ``edgewise baseline``, and the comparison of a run with its baselines."""

from __future__ import annotations

import math
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.digits import rounded
from edgewise._utils.errors import EdgewiseError
from edgewise.app import runs
from edgewise.app.cli.output import say
from edgewise.app.cli.table import table
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes.files import NodeFiles
from edgewise.app.runs.baseline_results import (
    Baseline,
    baselines,
    baselines_for,
    best_of,
    lower_is_better,
    main_metric,
)
from edgewise.app.runs.paired import Paired
from edgewise.app.runs.recipe_fields import fields_of
from edgewise.app.runs.seeds import fold_recipes, mean_and_std, single_values
from edgewise.app.runs.vocabulary import with_vocabulary
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.parsing import as_typed
from edgewise.app.train.preprocessing import kept_preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.text.labelled import LabelledText

FILE, EXAMPLES = "baseline.json", "baseline.safetensors"
SIGNIFICANT = 0.05
"""p-value below which a run is ahead of a baseline or behind it."""
LOSING = "BEHIND", "WORSE than"
"""Words for a run that is worse than a baseline, with and without a paired test."""
SPLITS = {"validation": "val", "test": "test"}
FINE_TUNING = "--from FOLDER --optimizer.lr 5e-5 --trainer.epochs 3"
PAGE = "docs/howto/text.md"
"""Page that shows the Python code of the baseline for texts."""


def baseline(arguments: Namespace) -> int:
    """Run ``edgewise baseline``: evaluate the baselines of a recipe and print a table."""
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    recipe = runs.with_values(find(arguments.recipe), arguments.fields | seed)
    say(f"\n{measure(recipe, arguments.out, folds=arguments.folds)}")
    return 0


def measure(recipe: Recipe, out: Path, *, folds: bool = False) -> str:
    """Evaluate the baselines of a recipe, write ``baseline.json``, and return a table as text.

    Args:
        recipe: recipe whose task, data and splits are used.
        out: folder for ``baseline.json``, which is created.
        folds: whether to evaluate on each fold of cross-validation and report the means.
    """
    measured = fold_recipes(recipe) if folds else {"": recipe}
    several = []
    for name, one in measured.items():
        found = []
        for each in baselines(one):
            found.append(each)
            say(f"{name} {each.name}: {each.seconds:.1f} s".strip(), flush=True)
        several.append(found)
    means = [_mean(list(each)) for each in zip(*several, strict=True)]
    return f"{_table(recipe, means)}\n\n{write(out, recipe, means, several)}"


def write(
    out: Path, recipe: Recipe, found: Sequence[Baseline], folds: Sequence[Sequence[Baseline]] = ()
) -> Path:
    """Write ``baseline.json``, and metrics of each test example for the best baseline.

    Args:
        out: folder, which is created.
        recipe: recipe that was evaluated.
        found: baselines with their metrics; with folds, the metrics are means over folds.
        folds: baselines with their metrics, for each fold.
    """
    best = best_of(recipe, found)
    record: dict[str, Any] = {
        "recipe": runs.to_record(recipe),
        "metric": main_metric(recipe, found[0]),
        "best": best.name,
        "baselines": [each.record() for each in found],
    }
    if len(folds) > 1:
        record["folds"] = [[each.record() for each in fold] for fold in folds]
    folder = RunFolder(out)
    folder.make()
    (out / EXAMPLES).unlink(missing_ok=True)
    if best.test_examples:
        folder.write_tensors(EXAMPLES, best.test_examples)
    folder.write_json(FILE, record)
    return out / FILE


def comparison(recipe: Recipe, metrics: Mapping[str, Any], out: Path) -> str:
    """Return lines of text that compare a run with the best quick baselines of its recipe.

    If the baselines would take minutes, the text is the command that evaluates them.

    Args:
        recipe: recipe of the run.
        metrics: metrics of the run, or the summary of several seeds. Of a summary, the metric of
            the mean prediction is compared, or the mean over the seeds if there is none.
        out: run folder, in which ``baseline.json`` is written.
    """
    later = f"baselines: run `{command('baseline', recipe)}`, which takes minutes"
    run = RunFolder(next(iter(RunFolder(out).runs()), out))  # the first of several seeds
    kept = kept_preprocessing(run)
    if kept is not None and baselines_for(recipe).is_large(kept):
        return later
    found = list(baselines(with_vocabulary(recipe, run), quick=True))
    if not found:
        return later
    path = write(out, recipe, found)
    name = f"test/{main_metric(recipe, found[0])}"
    value = single_values(metrics)[name]
    lines, behind = [], None
    for split, reference in references(recipe, found).items():
        gain = reference.metrics[name] - value
        gain = gain if lower_is_better(recipe, name) else -gain
        test = _paired_test(out, reference, name)
        if math.isnan(gain):
            lines += [
                f"baseline: {name} {rounded(value)} cannot be compared with {_named(reference)}, "
                f"{rounded(reference.metrics[name])}, best on the {split} set",
                "the metric is undefined on this test set",
            ]
            continue
        verdict = _verdict(gain, test)
        behind = reference if verdict in LOSING else behind
        lines += [
            f"baseline: {name} {rounded(value)} is {verdict} {_named(reference)}, "
            f"{rounded(reference.metrics[name])}, best on the {split} set",
            f"difference {rounded(gain, '+')}, {_significance(test)}",
        ]
    lines[-1] += f"; {path}"
    return "\n".join([*lines, _advice(recipe, behind)] if behind else lines)


def references(recipe: Recipe, found: Sequence[Baseline]) -> dict[str, Baseline]:
    """Return the baselines that a run is compared with, by the set on which they are the best.

    The best on the test set is listed if it is not the best on the validation set, so that no run
    is called ahead of the baselines while it is behind one of them.

    Args:
        recipe: recipe that was evaluated.
        found: baselines with their metrics.
    """
    by_split = {split: best_of(recipe, found, name) for split, name in SPLITS.items()}
    if by_split["test"] is by_split["validation"]:
        del by_split["test"]
    return by_split


def _verdict(gain: float, test: Paired | None) -> str:
    """Return the words that compare a run with a baseline.

    Args:
        gain: improvement of the run on the baseline; negative if the run is worse.
        test: paired test of both, or None if the metric has no value for one example.
    """
    if gain == 0 or (test is not None and not test.p < SIGNIFICANT):
        return "level with"
    if test is None:
        return "better than" if gain > 0 else LOSING[1]
    return "ahead of" if gain > 0 else LOSING[0]


def _paired_test(out: Path, reference: Baseline, name: str) -> Paired | None:
    """Return the paired t-test of a run and a baseline; None without metrics of each example."""
    try:
        tests = runs.paired_tests(runs.per_example_metrics(out), reference.test_examples)
    except EdgewiseError:  # There are no such metrics, or the examples have another order.
        return None
    return tests.get(name.removeprefix("test/"))


def _significance(test: Paired | None) -> str:
    if test is None:
        return "without a paired test"
    return f"p = {test.p:.2g} over {test.examples:,} test examples"


def _advice(recipe: Recipe, best: Baseline) -> str:
    """Return advice, as text, for a run whose result is worse than the best baseline.

    Args:
        recipe: recipe of the run.
        best: the best baseline.
    """
    if isinstance(recipe.data, LabelledText) and not recipe.start:
        return (
            f"Fine-tune a pre-trained BERT or RoBERTa: `{command('train', recipe)} {FINE_TUNING}`. "
            f"Or use {best.name}, which takes {best.seconds:.0f} s ({PAGE})."
        )
    advice = f"Use {best.name}, or tune the recipe on the validation set."
    classification = "test/accuracy" in best.metrics
    if isinstance(recipe.data, NodeFiles) and not recipe.data.unlabelled and classification:
        data = replace(recipe.data, unlabelled=True)
        semi_supervised = replace(find("nodes-few-labels"), data=data, seed=recipe.seed)
        also = command("train", semi_supervised)
        advice += f" With few labelled nodes, also try semi-supervised training: `{also}`."
    return advice


def command(name: str, recipe: Recipe) -> str:
    """Return the text of an ``edgewise`` command for a recipe.

    The options of the command are the changed fields of data, task, seed and monitored metric.

    Args:
        name: command, such as "baseline".
        recipe: recipe of the run.
    """
    usual = fields_of(find(recipe.name))
    changed = [
        f"--{name} {shlex.quote(as_typed(field.value))}"
        for name, field in fields_of(recipe).items()
        if name.startswith(("data.", "task.", "seed", "trainer.monitor"))
        and (name not in usual or field.value != usual[name].value)
    ]
    return " ".join(["edgewise", name, recipe.name, *changed])


def _named(found: Baseline) -> str:
    return found.name + (f" ({found.setting})" if found.setting else "")


def _mean(found: Sequence[Baseline]) -> Baseline:
    """Average a baseline over folds; times are added, and test examples joined.

    Args:
        found: the same baseline on each fold.
    """
    settings = list(dict.fromkeys(each.setting for each in found))
    names = found[0].metrics
    metrics = {name: mean_and_std([each.metrics[name] for each in found])[0] for name in names}
    seconds = sum(each.seconds for each in found)
    examples = {
        name: torch.cat([each.test_examples[name] for each in found])
        for name in found[0].test_examples
    }
    return Baseline(found[0].name, "; ".join(filter(None, settings)), metrics, seconds, examples)


def _table(recipe: Recipe, found: Sequence[Baseline]) -> str:
    main = main_metric(recipe, found[0])
    names = [f"val/{main}", *(name for name in found[0].metrics if name.startswith("test/"))]
    rows = [["baseline", "setting", *(name.replace("/", " ") for name in names), "CPU seconds"]]
    for baseline in found:
        values = [rounded(baseline.metrics[name]) for name in names]
        rows.append([baseline.name, baseline.setting, *values, f"{baseline.seconds:.1f}"])
    best = [
        f"best by {SPLITS[split]}/{main}: {_named(reference)}"
        for split, reference in references(recipe, found).items()
    ]
    return "\n".join([f"{table(rows, left=2)}\n", *best])
