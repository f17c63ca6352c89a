"""Paired t-test of two methods on the same test examples."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.errors import ArgumentError, MissingDataError, require
from edgewise.runs.held_out import held_out_scores
from edgewise.runs.record import load_recipe
from edgewise.training import RunFolder
from edgewise.training.folder import TEST_SCORES


class Paired(NamedTuple):
    """Difference of two methods over N test examples.

    Attributes:
        examples: number of examples N.
        difference: mean of the differences, first minus second method.
        standard_error: standard error of this mean.
        p: p-value of the paired t-test of equal means; 1 if all differences are 0.
    """

    examples: int
    difference: float
    standard_error: float
    p: float


def paired_test(ours: Tensor, theirs: Tensor) -> Paired:
    """Compare two methods by a paired t-test over examples, which are taken as independent.

    Args:
        ours: score of each example by the first method, such as 1 if it is classified correctly,
            ``[N]``. See :meth:`edgewise.tasks.Task.example_scores`.
        theirs: scores of the same examples by the second method, ``[N]``.

    Raises:
        ArgumentError: the numbers of examples differ, or there are fewer than two.
        MissingExtraError: SciPy is not installed.

    Example:
        >>> import torch
        >>> from edgewise import runs
        >>> found = runs.paired_test(torch.ones(4), torch.tensor([1.0, 1.0, 0.0, 0.0]))
        >>> found.difference, round(found.standard_error, 4), round(found.p, 4)
        (0.5, 0.2887, 0.1817)
    """
    if len(ours) != len(theirs) or len(ours) < 2:
        raise ArgumentError(
            "ours, theirs",
            expected="scores of the same test examples, at least two",
            got=f"{len(ours)} and {len(theirs)} scores",
            remedy="compare methods with the same test set",
        )
    require("scipy", extra="train", purpose="paired tests")
    from scipy.stats import ttest_1samp

    apart = ours.double() - theirs.double()
    error = float(apart.std()) / len(apart) ** 0.5
    p = float(ttest_1samp(apart.numpy(), 0).pvalue) if error else float(not apart.any())
    return Paired(len(apart), float(apart.mean()), error, p)


def scores_of_run(path: Path) -> dict[str, Tensor]:
    """Return the scores of each test example of a run, ``[N]``, by metric.

    For several seeds, they are the scores of the mean prediction if the data describe their
    targets, and otherwise the means over the seeds. Test sets of folds are concatenated.

    Args:
        path: run folder, also of several seeds or folds.

    Raises:
        MissingDataError: a run has no such file, because an earlier version or several processes
            trained it.
    """
    found = RunFolder(path).runs()
    if not found:
        if not RunFolder(path).has(TEST_SCORES):
            raise MissingDataError(
                f"{path / TEST_SCORES}: no such file. Paired tests need this file. Remedy: train "
                "again with this version of Edgewise, in one process."
            )
        return RunFolder(path).read_tensors(TEST_SCORES)
    if found[0].name.startswith("seed-"):
        ensemble = held_out_scores(load_recipe(RunFolder(path)), found)
        if ensemble:
            return ensemble
    each = [scores_of_run(one) for one in found]
    joined = torch.cat if found[0].name.startswith("fold-") else _mean
    return {name: joined([scores[name] for scores in each]) for name in each[0]}


def _mean(each: list[Tensor]) -> Tensor:
    return torch.stack(each).mean(0)
