"""Test scores of trained Transformers after some of their attention heads are removed.

    python -m benchmarks.pruning sst2 [--seeds 0 1 2] [--folder runs/pruning] [--draw FILE]
    python -m benchmarks.pruning multi30k [--curves encoder/gradient] [--fine-tune] [--bootstrap]
    python -m benchmarks.pruning sst2 multi30k --patterns

The first call trains a model for each seed in ``FOLDER/STUDY-SEED``. Later calls resume what was
interrupted and measure what is missing. The scores are kept in ``FOLDER/STUDY-SEED.json``.

Heads are removed with ``edgewise.explain.prune`` in steps of 10 %, without further training. Each
layer keeps at least one head. The least important heads are removed first. Their importance is
``gradient`` or ``leaving out``, measured on the validation set as in Michel et al. (2019), or
``random``. The score is the accuracy on the test set, or BLEU with greedy decoding. The table also
shows the processor time for the forward pass of a validation batch with one thread, for the first
seed and the order ``gradient``. Models with and without the heads are timed in turn.

``--fine-tune`` removes the same fraction of encoder heads as Voita et al. (2019), 38 of 48, and
trains for one more epoch. The model with all heads is trained for one more epoch, too.
``--patterns`` prints the three observations about attention weights of
``edgewise.explain.observations``, and the suggested patterns. ``--bootstrap`` tests whether
removing a fifth of the encoder heads changes BLEU, by sacrebleu's paired bootstrap on the sentences
of both test sets.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import edgewise
from edgewise import explain
from edgewise.app.explain import suggest
from edgewise.app.kinds import find
from edgewise.app.kinds.translation import Translation
from edgewise.app.runs import Run, train, with_values
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.train import Batch, Recipe, RunFolder, fit
from edgewise.app.train.folder import METRICS
from edgewise.explain.losses import losses_of

FRACTIONS = [step / 10 for step in range(10)]
TIMED_BATCHES, ROUNDS = 8, 5
SAMPLES = 1000
VOITA = 38 / 48


@dataclass(frozen=True)
class Study:
    """Recipe of a study, and what is measured.

    Attributes:
        title: name of data and model, for the chart.
        recipe: recipe for the trainings.
        groups: ``{group of heads: pattern that matches the names of its layers}``.
        curves: pairs (group, order of removal), one for each curve.
        timed: group for which the time is measured, with heads removed in the order ``gradient``.
        draws: number of random orders per seed.
        stride: ``leaving out`` uses every ``stride``-th batch of the validation set.
        test_batch: batch size for the test set.
        tests: names of all test sets; the scores are those on the first one.
    """

    title: str
    recipe: Recipe
    groups: Mapping[str, str]
    curves: tuple[tuple[str, str], ...]
    timed: str
    draws: int
    stride: int
    test_batch: int
    tests: tuple[str, ...] = ("test",)


STUDIES = {
    "sst2": Study(
        "SST-2, encoder of 4 layers × 8 heads",
        with_values(
            find("sst2"),
            {"model.depth": 4, "model.heads": 8, "data.naive_bayes": False},
        ),
        {"encoder": "*"},
        (("encoder", "gradient"), ("encoder", "leaving out"), ("encoder", "random")),
        timed="encoder",
        draws=3,
        stride=1,
        test_batch=32,
    ),
    "multi30k": Study(
        "Multi30k, 4 + 4 layers × 8 heads",
        with_values(
            find("transformer-multi30k"),
            {
                **{"model.width": 128, "model.depth": 4, "model.heads": 8, "model.ffn_dim": 256},
                **{"model.dropout": 0.1, "data.vocab_size": 4000, "data.batch_size": 1024},
                **{"optimizer.lr": 0.0015, "trainer.epochs": 3},
            },
        ),
        {
            "encoder": "*.encoder.*",
            "decoder": "*.decoder.*.attention.*",
            "cross": "*.cross.*",
            "all": "*",
        },
        (
            *(("encoder", "gradient"), ("encoder", "leaving out"), ("encoder", "random")),
            *(("decoder", "gradient"), ("cross", "gradient"), ("all", "gradient")),
        ),
        timed="all",
        draws=1,
        stride=6,
        test_batch=8192,
        tests=("test_2016_flickr", "test_2017_flickr"),
    ),
}


class Results:
    """Dict of the measured values of a run, which is saved in a file after each change.

    Args:
        path: JSON file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.values[key] = value
        written = self.path.with_suffix(".part")
        written.write_text(json.dumps(self.values, indent=1))
        written.replace(self.path)


class Measured:
    """A trained model from which heads are removed, and its scores.

    Args:
        study: recipe and what is measured.
        path: run folder; if it does not exist, the model is trained first.
        seed: random seed of the training and of the random orders.
    """

    def __init__(self, study: Study, path: Path, seed: int) -> None:
        self.study, self.path, self.seed = study, path, seed
        recipe = replace(study.recipe, seed=seed)
        train(recipe, path, resume=(path / "recipe.json").is_file(), title=path.name)
        self.results = Results(path.with_suffix(".json"))
        self.run = edgewise.load(path)
        self.layers = explain.layers_with_heads(self.run)
        self.translates = isinstance(self.run.recipe.task, Translation)

    def _with_data(self, **values: Any) -> Run:
        recipe = with_values(self.run.recipe, {f"data.{name}": values[name] for name in values})
        return replace(self.run, recipe=recipe)

    @cached_property
    def tests(self) -> list[list[Batch]]:
        """Batches of each test set."""
        given: list[dict[str, str]] = [{}]
        if self.translates and len(self.study.tests) > 1:
            given = [{"test": name} for name in self.study.tests]
        runs = [self._with_data(batch_size=self.study.test_batch, **one) for one in given]
        return [losses_of(run, split="test").batches for run in runs]

    @cached_property
    def timed(self) -> list[Batch]:
        """Validation batches whose forward pass is timed."""
        batches: list[Batch] = losses_of(self.run, max_batches=TIMED_BATCHES).batches
        return batches

    def heads(self, group: str) -> dict[str, list[int]]:
        """Return ``{name of a layer: indices of its heads}`` for the layers of a group."""
        pattern = self.study.groups[group]
        return {name: heads for name, heads in self.layers.items() if fnmatchcase(name, pattern)}

    def importance(self, order: str, draw: int = 0) -> dict[str, Tensor]:
        """Return ``{name of a layer: importance of its heads}``.

        ``order`` is "gradient", "leaving out" or "random"; ``draw`` counts random orders.
        """
        if order == "random":
            random = torch.Generator().manual_seed(1000 * self.seed + draw)
            return {n: torch.rand(len(h), generator=random) for n, h in self.layers.items()}
        if order not in self.results:
            # The gradient's absolute value is averaged over examples, so use batches of one.
            if order == "gradient":
                found = explain.importance(self._with_data(batch_size=1), split="val")
            else:
                losses = losses_of(self.run, split="val")
                found = explain.importance(
                    self.run.model,
                    losses.batches[:: self.study.stride],
                    losses.loss,
                    by="leaving_out",
                )
            self.results[order] = {name: values.tolist() for name, values in found.items()}
        return {name: torch.tensor(values) for name, values in self.results[order].items()}

    def removed(self, group: str, order: str, fraction: float, draw: int = 0) -> dict[Any, Any]:
        """Return ``{name of a layer: heads to remove}`` for this fraction of a group's heads."""
        if not fraction:
            return {}
        chosen = {name: self.importance(order, draw)[name] for name in self.heads(group)}
        return explain.least_important(
            chosen, fraction, self.heads(group), normalise=order == "gradient"
        )

    def pruned(self, heads: Mapping[Any, Any]) -> nn.Module:
        """Return the model without these heads."""
        return explain.prune(copy.deepcopy(self.run.model), heads)

    def score(self, group: str, order: str, fraction: float, beams: int = 1) -> float:
        """Return the score after removing a fraction of a group's heads.

        For the order "random", it is the mean over random orders. Scores are cached in the file.
        """
        draws = self.study.draws if order == "random" and fraction else 1
        found = []
        for draw in range(draws):
            key = self._key(group, order, fraction, beams, draw)
            if key not in self.results:
                if self.translates:
                    self.results[key] = bleu(
                        self.translations(group, order, fraction, beams, draw=draw), self.tests[0]
                    )
                else:
                    model = self.pruned(self.removed(group, order, fraction, draw))
                    self.results[key] = accuracy(model, self.run.recipe.task, self.tests[0])
                print(f"{self.path.name}: {key}: {self.results[key]:.2f}", flush=True)
            found.append(self.results[key])
        return statistics.fmean(found)

    def translations(
        self, group: str, order: str, fraction: float, beams: int, *, draw: int = 0, test: int = 0
    ) -> list[str]:
        """Return the translations of a test set without these heads, cached in a file."""
        key = f"{self._key(group, order, fraction, beams, draw)}, {self.study.tests[test]}"
        if key not in self.results:
            model = self.pruned(self.removed(group, order, fraction, draw))
            task = self.run.recipe.task
            self.results[key] = translations(model, task, self.tests[test], beams)
        texts: list[str] = self.results[key]
        return texts

    @staticmethod
    def _key(group: str, order: str, fraction: float, beams: int, draw: int) -> str:
        name = f"{group}, {order} {draw}, {fraction:.3f}" if fraction else "all heads"
        return f"{name}, beam {beams}"

    def times(self, fraction: float) -> tuple[float, float]:
        """Return milliseconds per batch with all heads, and without this fraction of them."""
        key = f"milliseconds, {fraction:.3f}"
        if key not in self.results:
            removed = self.removed(self.study.timed, "gradient", fraction)
            self.results[key] = times(self.run.model, self.pruned(removed), self.timed)
        full, pruned = self.results[key]
        return full, pruned

    def fine_tuned(self, fraction: float) -> float:
        """Return BLEU with beam search after one more epoch of training.

        The fraction ``fraction`` of the encoder heads is removed before this epoch.
        """
        folder = RunFolder(self.path.with_name(f"{self.path.name}-tuned-{fraction:.3f}"))
        if not folder.has(METRICS):
            removed = self.removed("encoder", "gradient", fraction)
            recipe = self.run.recipe
            fit(
                self.pruned(removed),
                recipe.task,
                self.run.splits.loaders(recipe.seed),
                folder,
                optimizer=replace(recipe.optimizer, lr=recipe.optimizer.lr / 3),
                schedule=recipe.schedule,
                trainer=replace(recipe.trainer, epochs=1),
                title=folder.path.name,
            )
        return folder.read_metrics()["test/bleu"]


@torch.no_grad()
def translations(model: nn.Module, task: Any, batches: list[Batch], beams: int) -> list[str]:
    """Return the model's translations of all batches; ``beams`` is the beam size."""
    searching = replace(task, num_beams=beams)
    return [text for batch in batches for text in searching.generate(model, batch)]


def references(batches: list[Any]) -> list[str]:
    """Return the reference translations of all batches."""
    return [text for batch in batches for text in batch.references]


def bleu(texts: list[str], batches: list[Batch]) -> float:
    """Return the BLEU score of translations, given the batches with their references."""
    from sacrebleu.metrics import BLEU

    return float(BLEU().corpus_score(texts, [references(batches)]).score)


@torch.no_grad()
def accuracy(model: nn.Module, task: Any, batches: list[Batch]) -> float:
    """Return the accuracy of a model on these batches, in percent."""
    metric = task.metrics()["accuracy"]
    for batch in batches:
        metric.update(batch.select_outputs(model(*batch.inputs, **batch.keywords)), batch.target)
    return 100 * float(metric.compute())


@torch.no_grad()
def times(full: nn.Module, pruned: nn.Module, batches: list[Batch]) -> tuple[float, float]:
    """Return the milliseconds of processor time per batch of both models, the least of several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for model, own in zip((full, pruned), spent, strict=True):
            start = time.process_time()
            for batch in batches:
                model(*batch.inputs, **batch.keywords)
            own.append(1000 * (time.process_time() - start) / len(batches))
    torch.set_num_threads(threads)
    return min(spent[0]), min(spent[1])


def with_spread(values: list[float]) -> str:
    """Return mean and sample standard deviation as text: "82.00 ± 1.41"."""
    mean, spread = mean_and_std(values)
    return f"{mean:.2f} ± {spread:.2f}"


def table(study: Study, runs: list[Measured]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the scores by fraction of removed heads."""
    names = [f"{group}, {order}" for group, order in study.curves]
    timed = (study.timed, "gradient") in study.curves
    names += [f"ms per batch, {study.timed}"] * timed
    yield f"| removed | {' | '.join(names)} |"
    yield f"| ---: |{' ---: |' * len(names)}"
    for fraction in FRACTIONS:
        cells = [
            with_spread([run.score(group, order, fraction) for run in runs])
            for group, order in study.curves
        ]
        if timed:
            full, pruned = runs[0].times(fraction)
            cells.append(f"{pruned:.1f} ({pruned / full:.0%})" if fraction else f"{full:.1f}")
        yield f"| {fraction:.0%} | {' | '.join(cells)} |"


def changes(study: Study, runs: list[Measured]) -> Iterator[str]:
    """Yield a line for each group and order: how the score changes without a fifth of the heads."""
    translates = runs[0].translates
    for group, order in study.curves:
        heads = runs[0].heads(group)
        count = sum(map(len, runs[0].removed(group, order, 0.2).values()))
        of = sum(map(len, heads.values()))
        searched = translates and group == "encoder" and order != "random"
        for beams in (1, 5) if searched else (1,):
            change = [
                run.score(group, order, 0.2, beams) - run.score(group, order, 0.0, beams)
                for run in runs
            ]
            search = f", beam {beams}" if translates else ""
            yield f"{group}, {order}: {count} of {of} heads: change {with_spread(change)}{search}"
    if translates:
        whole = [run.score("all", "gradient", 0.0, 5) for run in runs]
        yield f"all heads, beam 5: {with_spread(whole)}"


def bootstrap(run: Measured) -> Iterator[str]:
    """Yield BLEU with all and without a fifth of the encoder heads, and the p-value of a test."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    expected = [text for test in run.tests for text in references(test)]
    for beams in (1, 5):
        systems = [
            (
                name,
                [
                    text
                    for test in range(len(run.tests))
                    for text in run.translations("encoder", "gradient", fraction, beams, test=test)
                ],
            )
            for name, fraction in (("all heads", 0.0), ("without a fifth", 0.2))
        ]
        _, found = PairedTest(systems, {"BLEU": BLEU()}, [expected], "bs", n_samples=SAMPLES)()
        whole, fewer = found["BLEU"]
        each = [
            bleu(run.translations("encoder", "gradient", 0.2, beams, test=test), batches)
            - bleu(run.translations("encoder", "gradient", 0.0, beams, test=test), batches)
            for test, batches in enumerate(run.tests)
        ]
        yield (
            f"{run.path.name}, beam {beams}, {len(expected)} sentences: "
            f"{whole.mean:.2f} ± {whole.ci:.2f} with all heads, "
            f"{fewer.mean:.2f} ± {fewer.ci:.2f} without a fifth, "
            f"change {fewer.score - whole.score:+.2f}, p = {fewer.p_value:.3f}; each test set: "
            + ", ".join(f"{change:+.2f}" for change in each)
        )


def patterns(run: Measured) -> Iterator[str]:
    """Yield the observations about the encoder's attention, and the suggested patterns.

    For the patterns, the loss and the time of the model with them are given.
    """
    losses = losses_of(run.run, split="val", max_batches=TIMED_BATCHES)
    group = list(run.heads("encoder"))
    with torch.no_grad(), explain.record(run.run, layers=group, max_edges=10**8) as recorded:
        for batch in losses.batches:
            losses.loss(losses.model, batch)
    yield f"{run.path.name}:"
    yield str(explain.observations(recorded))
    yield str(suggest(run.run))


def draw(found: Mapping[str, list[Measured]], path: Path) -> None:
    """Plot the scores of each study over the fraction of removed heads."""
    from matplotlib.figure import Figure

    colours = ["#0072b2", "#d55e00", "#6e7781", "#009e73", "#cc79a7", "#000000"]
    styles = {"gradient": "o-", "leaving out": "s--", "random": "x:"}
    figure = Figure(figsize=(5.2 * len(found), 4.4), layout="constrained")
    for axes, (name, runs) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(),
                                  strict=True):  # fmt: skip
        study = STUDIES[name]
        for colour, (group, order) in zip(colours, study.curves, strict=False):
            rows = [[run.score(group, order, fraction) for run in runs] for fraction in FRACTIONS]
            mean, spread = zip(*map(mean_and_std, rows), strict=True)
            x = [100 * fraction for fraction in FRACTIONS]
            label = order if len(study.groups) == 1 else f"{group} heads, {order}"
            axes.plot(x, mean, styles[order], color=colour, label=label, ms=4, lw=1.4)
            low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)]
                         for sign in (-1, 1))  # fmt: skip
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        translates = runs[0].translates
        axes.set(
            xlabel="heads removed, %",
            ylabel="BLEU, test set" if translates else "accuracy on the test set, %",
            title=f"{study.title}, {len(runs)} seed{'s' * (len(runs) > 1)}",
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="lower left")
    figure.savefig(path, dpi=110)
    print(path)


def main() -> None:
    """Train, measure, and print a table of each study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="+", choices=STUDIES, help="studies to run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="random seeds")
    curves = sorted({"/".join(curve) for study in STUDIES.values() for curve in study.curves})
    parser.add_argument(
        "--curves", nargs="+", choices=curves, metavar="CURVE", help=f"some of {', '.join(curves)}"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/pruning"), help="folder for runs and results"
    )
    parser.add_argument("--draw", type=Path, metavar="FILE", help="save a chart to FILE")
    parser.add_argument(
        "--fine-tune", action="store_true", help="remove most encoder heads and train on"
    )
    parser.add_argument("--patterns", action="store_true", help="print observations and patterns")
    parser.add_argument("--bootstrap", action="store_true", help="test whether BLEU changes")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in given.studies:
        study = STUDIES[name]
        if given.curves:
            chosen = [curve for curve in study.curves if "/".join(curve) in given.curves]
            study = replace(study, curves=tuple(chosen))
        runs = [Measured(study, given.folder / f"{name}-{seed}", seed) for seed in given.seeds]
        found[name] = runs
        for line in (*table(study, runs), "", *changes(study, runs)):
            print(line)
        if given.fine_tune and runs[0].translates:
            whole, few = ([run.fine_tuned(f) for run in runs] for f in (0.0, VOITA))
            print(f"one more epoch: {with_spread(whole)}; without 38 of 48: {with_spread(few)}")
        for run in runs if given.bootstrap and runs[0].translates else ():
            print("\n".join(bootstrap(run)))
        for run in runs if given.patterns else ():
            print("\n".join(patterns(run)))
    if given.draw is not None:
        draw(found, given.draw)


if __name__ == "__main__":
    main()
