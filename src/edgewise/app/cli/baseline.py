"""Command ``edgewise baseline``, and the comparison of a run with its baselines."""

from __future__ import annotations

import math
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.digits import rounded
from edgewise._utils.errors import EdgewiseError
from edgewise.app import runs
from edgewise.app.cli.output import say, table
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
from edgewise.app.runs.seeds import fold_recipes, mean_and_std
from edgewise.app.runs.vocabulary import with_vocabulary
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.parsing import as_typed
from edgewise.app.train.preprocessing import kept_preprocessing, preprocessing_of
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.text.labelled import LabelledText

FILE, EXAMPLES = "baseline.json", "baseline.safetensors"
SIGNIFICANT = 0.05
"""p-value below which a run is ahead of a baseline or behind it."""
LOSING = "BEHIND", "WORSE than"
"""Words for a run that is worse than a baseline, with and without a paired test."""
SPLITS = {"validation": "val", "test": "test"}
FINE_TUNING = "--from FOLDER"
PAGE = "docs/howto/text.md"
"""Page on pre-trained models, with the Python code of the baseline for texts."""


def baseline(arguments: Namespace) -> int:
    """Run ``edgewise baseline``: evaluate the baselines of a recipe and print a table."""
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    recipe = runs.with_values(find(arguments.recipe), arguments.fields | seed)
    say(f"\n{measure(recipe, arguments.out, folds=arguments.folds)}")
    return 0


def measure(recipe: Recipe, out: Path, *, folds: bool = False) -> str:
    """Evaluate the baselines of a recipe, write ``baseline.json``, and return a table as text."""
    recipes = fold_recipes(recipe) if folds else {"": recipe}
    baselines_by_fold: list[list[Baseline]] = []
    for fold_name, fold_recipe in recipes.items():
        baselines_by_fold.append([])
        for measured in baselines(fold_recipe):
            baselines_by_fold[-1].append(measured)
            say(f"{fold_name} {measured.name}: {measured.seconds:.1f} s".strip(), flush=True)
    means = [_mean(same) for same in zip(*baselines_by_fold, strict=True)]
    return f"{_table(recipe, means)}\n\n{write(out, recipe, means, baselines_by_fold)}"


def write(
    out: Path, recipe: Recipe, means: Sequence[Baseline], folds: Sequence[Sequence[Baseline]] = ()
) -> Path:
    """Write ``baseline.json``, and metrics of each test example for the best baseline."""
    best = best_of(recipe, means)
    record: dict[str, Any] = {
        "recipe": runs.to_record(recipe),
        "metric": main_metric(recipe, means[0]),
        "best": best.name,
        "baselines": [measured.record() for measured in means],
    }
    if len(folds) > 1:
        record["folds"] = [[measured.record() for measured in fold] for fold in folds]
    folder = RunFolder(out)
    folder.make()
    (out / EXAMPLES).unlink(missing_ok=True)
    if best.test_examples:
        folder.write_tensors(EXAMPLES, best.test_examples)
    folder.write_json(FILE, record)
    return out / FILE


def comparison(
    recipe: Recipe, metrics: Mapping[str, Any], out: Path, splits: Splits | None = None
) -> str:
    """Return lines that compare a run with the best quick baselines of its recipe; ``splits`` are
    its data, if they are loaded.
    """
    data, with_tokenizer = None if splits is None else preprocessing_of(splits), recipe
    if splits is None:
        run = RunFolder(next(iter(RunFolder(out).runs()), out))  # the first of several seeds
        data, with_tokenizer = kept_preprocessing(run), with_vocabulary(recipe, run)
    large = data is not None and baselines_for(recipe).is_large(data)
    measured = [] if large else list(baselines(with_tokenizer, quick=True, splits=splits))
    if not measured:
        return f"baselines: run `{command('baseline', recipe)}`, which takes minutes"
    path = write(out, recipe, measured)
    name = f"test/{main_metric(recipe, measured[0])}"
    value = metrics[name]
    if isinstance(value, Mapping):  # For several seeds, the metric of the mean prediction.
        value = value.get("ensemble", value["mean"])
    lines, behind = [], None
    for split, reference in references(recipe, measured).items():
        gain = reference.metrics[name] - value
        gain = gain if lower_is_better(recipe, name) else -gain
        tests: dict[str, Paired] = {}
        with suppress(EdgewiseError):  # No such metrics, or examples in another order.
            tests = runs.paired_tests(runs.per_example_metrics(out), reference.test_examples)
        test = tests.get(name.removeprefix("test/"))
        if math.isnan(gain):
            lines += [
                f"baseline: {name} {rounded(value)} cannot be compared with {_named(reference)}, "
                f"{rounded(reference.metrics[name])}, best on the {split} set",
                "the metric is undefined on this test set",
            ]
            continue
        verdict = _verdict(gain, test)
        significance = "without a paired test"
        if test is not None:
            significance = f"p = {test.p:.2g} over {test.examples:,} test examples"
        behind = reference if verdict in LOSING else behind
        lines += [
            f"baseline: {name} {rounded(value)} is {verdict} {_named(reference)}, "
            f"{rounded(reference.metrics[name])}, best on the {split} set",
            f"difference {rounded(gain, '+')}, {significance}",
        ]
    lines[-1] += f"; {path}"
    return "\n".join(filter(None, [*lines, _advice(recipe, behind)]))


def references(recipe: Recipe, measured: Sequence[Baseline]) -> dict[str, Baseline]:
    """Return the best baselines on the validation set and, if it differs, on the test set."""
    by_split = {split: best_of(recipe, measured, name) for split, name in SPLITS.items()}
    if by_split["test"] is by_split["validation"]:
        del by_split["test"]
    return by_split


def _verdict(gain: float, test: Paired | None) -> str:
    """Return the words that compare a run with a baseline; a negative gain is a worse run."""
    if gain == 0 or (test is not None and not test.p < SIGNIFICANT):
        return "level with"
    if test is None:
        return "better than" if gain > 0 else LOSING[1]
    return "ahead of" if gain > 0 else LOSING[0]


def _advice(recipe: Recipe, best: Baseline | None) -> str:
    """Return advice, as text, for texts from random weights, and for a run whose result is worse
    than the baseline ``best``.
    """
    if isinstance(recipe.data, LabelledText) and not recipe.start:
        advice = (
            "A pre-trained BERT or RoBERTa is usually more accurate: "
            f"`{command('train', recipe)} {FINE_TUNING}` ({PAGE})."
        )
        if best is not None:
            advice += f" Or use {best.name}, which takes {best.seconds:.0f} s."
        return advice
    if best is None:
        return ""
    advice = f"Use {best.name}, or tune the recipe on the validation set."
    classification = "test/accuracy" in best.metrics
    if isinstance(recipe.data, NodeFiles) and not recipe.data.unlabelled and classification:
        data = replace(recipe.data, unlabelled=True)
        semi_supervised = replace(find("nodes-few-labels"), data=data, seed=recipe.seed)
        also = command("train", semi_supervised)
        advice += f" With few labelled nodes, also try semi-supervised training: `{also}`."
    return advice


def command(name: str, recipe: Recipe) -> str:
    """Return an ``edgewise`` command with the changed fields of data, task, seed and metric."""
    defaults = fields_of(find(recipe.name))
    changed = [
        f"--{name} {shlex.quote(as_typed(field.value))}"
        for name, field in fields_of(recipe).items()
        if name.startswith(("data.", "task.", "seed", "trainer.monitor"))
        and (name not in defaults or field.value != defaults[name].value)
    ]
    return " ".join(["edgewise", name, recipe.name, *changed])


def _named(measured: Baseline) -> str:
    return measured.name + (f" ({measured.setting})" if measured.setting else "")


def _mean(folds: Sequence[Baseline]) -> Baseline:
    """Average a baseline over folds; times are added, and test examples joined."""
    first = folds[0]
    settings = dict.fromkeys(fold.setting for fold in folds if fold.setting)
    metrics = {
        name: mean_and_std([fold.metrics[name] for fold in folds])[0] for name in first.metrics
    }
    examples = {
        name: torch.cat([fold.test_examples[name] for fold in folds])
        for name in first.test_examples
    }
    seconds = sum(fold.seconds for fold in folds)
    return Baseline(first.name, "; ".join(settings), metrics, seconds, examples)


def _table(recipe: Recipe, measured: Sequence[Baseline]) -> str:
    main = main_metric(recipe, measured[0])
    names = [f"val/{main}", *(name for name in measured[0].metrics if name.startswith("test/"))]
    rows = [["baseline", "setting", *(name.replace("/", " ") for name in names), "CPU seconds"]]
    for baseline in measured:
        values = [rounded(baseline.metrics[name]) for name in names]
        rows.append([baseline.name, baseline.setting, *values, f"{baseline.seconds:.1f}"])
    best = [
        f"best by {SPLITS[split]}/{main}: {_named(reference)}"
        for split, reference in references(recipe, measured).items()
    ]
    return "\n".join([f"{table(rows, left=2)}\n", *best])
