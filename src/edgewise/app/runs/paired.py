"""Paired t-tests of two methods on the same test examples."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError, require
from edgewise.app.runs.record import load_recipe
from edgewise.app.train.folder import TEST_EXAMPLES, RunFolder
from edgewise.app.train.held_out import held_out_per_example


class Paired(NamedTuple):
    """Difference of two methods over N examples.

    Attributes:
        examples: number of examples N.
        difference: mean of the differences, first minus second method.
        standard_error: standard error of this mean.
        p: p-value of the paired t-test of equal means; 1 if all differences are 0.

    Example:
        >>> import torch
        >>> from edgewise.app import runs
        >>> runs.paired_test(torch.ones(4), torch.tensor([1.0, 1.0, 0.0, 0.0])).difference
        0.5
    """

    examples: int
    difference: float
    standard_error: float
    p: float


def paired_test(first: Tensor, second: Tensor) -> Paired:
    """Compare two methods by a paired t-test over examples, which are taken as independent.

    Args:
        first: metric of each example for the first method, such as 1 if the example is classified
            correctly and 0 otherwise, ``[N]``.
        second: metric of the same examples for the second method, ``[N]``.

    Raises:
        ArgumentError: the numbers of examples differ, or there are fewer than two.
        MissingExtraError: SciPy is not installed.

    Example:
        >>> import torch
        >>> from edgewise.app import runs
        >>> test = runs.paired_test(torch.ones(4), torch.tensor([1.0, 1.0, 0.0, 0.0]))
        >>> test.difference, round(test.standard_error, 4), round(test.p, 4)
        (0.5, 0.2887, 0.1817)
    """
    if len(first) != len(second) or len(first) < 2:
        raise ArgumentError(
            "first, second",
            expected="values of the same examples, at least two",
            got=f"{len(first)} and {len(second)} values",
            remedy="compare methods on the same test set",
        )
    require("scipy", extra="train", purpose="paired tests")
    from scipy.stats import ttest_1samp

    differences = first.double() - second.double()
    error = float(differences.std()) / len(differences) ** 0.5
    p = float(ttest_1samp(differences.numpy(), 0).pvalue) if error else float(not differences.any())
    return Paired(len(differences), float(differences.mean()), error, p)


def paired_tests(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Paired]:
    """Compare two methods by a paired t-test for each common metric.

    Args:
        first: metrics of each test example, from :func:`per_example_metrics`.
        second: metrics of the same test examples for the second method.

    Raises:
        ArgumentError: the targets of the examples differ, or there are fewer than two examples.
    """
    target, other_target = (
        metrics.get("target", torch.zeros(0)).double() for metrics in (first, second)
    )
    if not torch.equal(target, other_target):
        raise ArgumentError(
            "first, second",
            expected="metrics of the same test examples in the same order",
            got=f"{len(target)} and {len(other_target)} examples, whose targets differ",
            remedy="compare runs with the same data, split and tokenizer",
        )
    names = [name for name in first if name in second and name != "target"]
    return {name: paired_test(first[name], second[name]) for name in names}


def per_example_metrics(path: Path) -> dict[str, Tensor]:
    """Return metrics and target of each test example of a run, ``[N]``, by name.

    For several seeds, they are the metrics of the mean prediction if the data describe their
    targets, and otherwise means over the seeds. Test sets of folds are concatenated. See
    :meth:`edgewise.app.train.Task.per_example_metrics`.

    Args:
        path: run folder, also of several seeds or folds.

    Raises:
        MissingDataError: a run folder lacks the file ``test_examples.safetensors``.
    """
    folder, members = RunFolder(path), RunFolder(path).runs()
    if not members:
        if not folder.has(TEST_EXAMPLES):
            raise MissingDataError(
                f"{path / TEST_EXAMPLES}: no such file. Paired tests need the metrics of each test "
                f"example. Remedy: run `edgewise test {shlex.quote(str(path))}`, which writes the "
                "file, unless the task has no such metrics."
            )
        return folder.read_tensors(TEST_EXAMPLES)
    if members[0].name.startswith("seed-"):
        ensemble = held_out_per_example(load_recipe(folder), members)
        if ensemble:
            return ensemble
    metrics = [per_example_metrics(member) for member in members]
    joined = {name: [values[name] for values in metrics] for name in metrics[0]}
    if members[0].name.startswith("fold-"):
        return {name: torch.cat(values) for name, values in joined.items()}
    # In float32, the mean of three equal targets can differ from the target by rounding.
    return {name: torch.stack(values).double().mean(0) for name, values in joined.items()}
