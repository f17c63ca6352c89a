"""Cross-validation: one fold is the test set; part of the other folds is the validation set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_splits
from edgewise._utils.errors import ArgumentError

How = Literal["random", "stratified", "group", "time"]

Key = str | int | float


@dataclass(frozen=True)
class Folds:
    """Options of a cross-validation split.

    Attributes:
        folds: number of folds.
        fold: index of the test fold, from 0.
        val: fraction of the examples outside the test fold that is used for validation.
        seed: random seed of the split; independent of a recipe's seed.
    """

    folds: int
    fold: int
    val: float
    seed: int

    def __post_init__(self) -> None:
        if self.folds < 2 or not 0 <= self.fold < self.folds:
            raise ArgumentError(
                "data.fold, data.folds",
                expected="data.folds of at least 2, and data.fold from 0 to data.folds - 1",
                got=f"data.fold {self.fold}, data.folds {self.folds}",
                remedy=f"set data.folds >= 2, and data.fold from 0 to {max(self.folds, 2) - 1}",
            )
        if not 0 < self.val <= 0.5:
            raise ArgumentError(
                "data.val",
                expected="a fraction above 0 and up to 0.5",
                got=repr(self.val),
                remedy="choose for example 0.1",
            )

    def split(
        self, how: How, keys: Sequence[Key], existing: Collection[str] = ()
    ) -> dict[str, Tensor]:
        """Return the indices of the training, validation and test examples."""
        split, rest = {}, torch.arange(len(keys))
        if "test" not in existing:
            if how == "time" and self.fold:
                raise ArgumentError(
                    "data.fold",
                    expected="0, because only the latest examples are tested in a split by time",
                    got=str(self.fold),
                    remedy="omit data.fold, or choose another data.split",
                )
            test_folds = deal(how, keys, self.folds, self.seed)
            split["test"] = test_folds.pop(-1 if how == "time" else self.fold)
            rest = torch.cat(test_folds).sort().values
        if "val" not in existing:
            train, val = self.held_out(how, [keys[i] for i in rest.tolist()])
            split["val"], rest = rest[val], rest[train]
        split = {"train": rest, **split}
        check_splits(**split)
        return split

    def held_out(self, how: How, keys: Sequence[Key]) -> tuple[Tensor, Tensor]:
        """Split examples into training and validation; return the indices of both."""
        inner = deal(how, keys, round(1 / self.val), self.seed + 1, of="data.val")
        # Validate on the last part, because the first may consist of a single large group.
        return torch.cat(inner[:-1]), inner[-1]


def sample_labelled(count: int, labelled: int, seed: int, examples: str) -> Tensor:
    """Return the indices of a random sample of the training examples, in their original order."""
    if labelled > count:
        raise ArgumentError(
            "data.labelled",
            expected=f"at most {count}, the number of training {examples}",
            got=str(labelled),
            remedy=f"choose fewer {examples}, or 0 for all",
        )
    if not labelled:
        return torch.arange(count)
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return drawn[:labelled].sort().values


def deal(
    how: How, keys: Sequence[Key], num_folds: int, seed: int, of: str = "data.folds"
) -> list[Tensor]:
    """Partition examples into parts of about equal size, stratified by key, or with equal keys
    together: groups from the largest, each into the smallest part so far. By time, parts follow
    each other; equal times stay together, so parts may be empty.
    """
    check_choice("data.split", how, get_args(How))
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist()
    groups: dict[Key, list[int]] = defaultdict(list)
    for i in order:
        groups[keys[i] if how != "random" else 0].append(i)
    available = len(groups) if how == "group" else len(keys)
    if available < num_folds:
        folds = of == "data.folds"
        raise ArgumentError(
            of,
            expected=f"at least {num_folds} "
            f"{'groups, such as molecules' if how == 'group' else 'rows'}"
            f"{', one for each fold' if folds else ' outside the test set, to hold out data.val'}",
            got=str(available),
            remedy=f"add {'groups' if how == 'group' else 'rows'}, or choose a "
            f"{'smaller data.folds' if folds else 'larger data.val'}",
        )
    dealt: list[list[int]] = [[] for _ in range(num_folds)]
    if how == "time":
        later = 0
        for key in sorted(groups, reverse=True):
            dealt[-1 - later * num_folds // len(keys)].extend(groups[key])
            later += len(groups[key])
    elif how == "group":
        for members in sorted(groups.values(), key=len, reverse=True):
            min(dealt, key=len).extend(members)
    else:  # Assign the sorted examples in turn, so that sizes differ by at most one.
        for turn, i in enumerate(i for members in groups.values() for i in members):
            dealt[turn % num_folds].append(i)
    return [torch.tensor(sorted(indices), dtype=torch.long) for indices in dealt]


def hold_out(keys: Sequence[Key], *, val: float, test: float, seed: int) -> dict[str, Tensor]:
    """Return a random split, stratified by class."""
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist()
    # The sort is stable, so the order within each class stays random.
    order.sort(key=lambda i: str(keys[i]))
    rank = torch.arange(len(order), dtype=torch.double)

    def every(fraction: float, offset: float) -> Tensor:
        # True where the cumulative sum passes an integer. These places are evenly spaced, so each
        # of the sorted classes gets the same fraction.
        return ((rank + 1) * fraction + offset).floor() > (rank * fraction + offset).floor()

    tested = every(test, 0.5)
    validated = torch.zeros_like(tested)
    rank = rank[: int((~tested).sum())]
    validated[~tested] = every(val / (1 - test), 0.5)
    numbers = torch.tensor(order)
    masks = {"train": ~tested & ~validated, "val": validated, "test": tested}
    return {name: numbers[mask].sort().values for name, mask in masks.items()}


def fill_splits(
    split_names: Sequence[str], keys: Sequence[str], *, val: float, test: float, seed: int
) -> dict[str, Tensor]:
    """Return the indices of each split; hold out missing splits from ``"train"``."""
    splits = {
        name: torch.tensor(
            [i for i, split_name in enumerate(split_names) if split_name == name], dtype=torch.long
        )
        for name in ("train", "val", "test")
    }
    training = splits["train"]
    val, test = (
        0.0 if len(splits[n]) else fraction for n, fraction in (("val", val), ("test", test))
    )
    held = hold_out([keys[i] for i in training.tolist()], val=val, test=test, seed=seed)
    return {n: training[held[n]] if n == "train" or not len(p) else p for n, p in splits.items()}
