"""Command ``edgewise baseline``, and the comparison of a run with its baselines."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from edgewise import recipes, runs
from edgewise.baselines import (
    Baseline,
    baselines,
    best_of,
    is_large,
    lower_is_better,
    main_metric,
)
from edgewise.cli.output import say
from edgewise.cli.table import table
from edgewise.data.graphs.node_files import NodeFiles
from edgewise.data.text.labelled_sentences import LabelledText
from edgewise.errors import EdgewiseError
from edgewise.recipes import Recipe
from edgewise.runs import fields_of
from edgewise.runs.parsing import as_typed
from edgewise.runs.preprocessing import kept_preprocessing
from edgewise.runs.seeds import fold_recipes, mean_and_std, single_values
from edgewise.runs.vocabulary import with_vocabulary
from edgewise.training import RunFolder

FILE, EXAMPLES = "baseline.json", "baseline.safetensors"
FINE_TUNING = "--from FOLDER --optimizer.lr 5e-5 --trainer.epochs 3"
PAGE = "docs/howto/text.md"
"""Page that shows the Python code of the baseline for texts."""


def baseline(arguments: Namespace) -> int:
    """Run ``edgewise baseline``: evaluate the baselines of a recipe and print a table."""
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    recipe = runs.with_values(recipes.find(arguments.recipe), arguments.fields | seed)
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
    best = best_of(recipe, list(found))
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
    """Return lines of text that compare a run with the best quick baseline of its recipe.

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
    if kept is not None and is_large(recipe, kept):
        return later
    found = list(baselines(with_vocabulary(recipe, run), quick=True))
    if not found:
        return later
    best, name = best_of(recipe, found), f"test/{main_metric(recipe, found[0])}"
    ours = single_values(metrics)[name]
    theirs = best.metrics[name]
    gain = theirs - ours if lower_is_better(recipe, name) else ours - theirs
    place = "level with" if gain == 0 else "ahead of" if gain > 0 else "BEHIND"
    path = write(out, recipe, found)
    line = (
        f"baseline: {name} {ours:.4f} is {place} {_named(best)}, {theirs:.4f}\n"
        f"difference {gain:+.4f}{_significance(out, best, name)}; {path}"
    )
    return f"{line}\n{_advice(recipe, best)}" if gain < 0 else line


def _significance(out: Path, best: Baseline, name: str) -> str:
    """Return the p-value of a paired t-test of a run and a baseline as text; empty without one."""
    try:
        tests = runs.paired_tests(runs.per_example_metrics(out), best.test_examples)
    except EdgewiseError:  # There are no such metrics, or the examples have another order.
        return ""
    found = tests.get(name.removeprefix("test/"))
    return f", p = {found.p:.2g} over {found.examples:,} test examples" if found else ""


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
        semi_supervised = replace(recipes.find("nodes-few-labels"), data=data, seed=recipe.seed)
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
    usual = fields_of(recipes.find(recipe.name))
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
    best, main = best_of(recipe, list(found)), main_metric(recipe, found[0])
    names = [f"val/{main}", *(name for name in found[0].metrics if name.startswith("test/"))]
    rows = [["baseline", "setting", *(name.replace("/", " ") for name in names), "CPU seconds"]]
    for each in found:
        values = [f"{each.metrics[name]:.4f}" for name in names]
        rows.append([each.name, each.setting, *values, f"{each.seconds:.1f}"])
    return f"{table(rows, left=2)}\n\nbest by val/{main}: {_named(best)}"
