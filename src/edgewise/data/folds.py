"""Cross-validation: test on one fold, validate on a part of the others, train on the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice, check_splits
from edgewise.errors import ArgumentError

How = Literal["random", "stratified", "group"]


@dataclass(frozen=True)
class Folds:
    """Which examples are held out.

    Attributes:
        folds: how many parts the examples are dealt into.
        fold: which of them, counted from 0, is the test split.
        val: share of the other examples, dealt in the same manner, on which the epoch is chosen.
            The test fold is never looked at before the end.
        seed: of the dealing; apart from a recipe's seed.

    """

    folds: int
    fold: int
    val: float
    seed: int

    def __post_init__(self) -> None:
        if self.folds < 2 or not 0 <= self.fold < self.folds:
            raise ArgumentError(
                "data.fold, data.folds",
                expected="at least 2 folds, and a fold counted from 0",
                got=f"fold {self.fold} of {self.folds}",
                remedy=f"choose data.fold from 0 to {max(self.folds, 2) - 1}",
            )
        if not 0 < self.val <= 0.5:
            raise ArgumentError(
                "data.val",
                expected="a share above 0 and up to 0.5",
                got=repr(self.val),
                remedy="choose for example 0.1",
            )

    def split(
        self, how: How, keys: Sequence[str | int], given: Collection[str] = ()
    ) -> dict[str, Tensor]:
        """Numbers of the examples to train on, to validate and to test.

        Args:
            how: see :func:`deal`.
            keys: one an example: its class, or its group.
            given: of ``val`` and ``test``, what there is already and not taken from these.

        Raises:
            ArgumentError: a fold would be empty.

        """
        split, rest = {}, torch.arange(len(keys))
        if "test" not in given:
            parts = deal(how, keys, self.folds, self.seed)
            split["test"] = parts.pop(self.fold)
            rest = torch.cat(parts).sort().values
        if "val" not in given:
            inner = deal(how, [keys[i] for i in rest.tolist()], round(1 / self.val), self.seed + 1)
            # The last part: the first ones hold the largest group, and then little else.
            split["val"], rest = rest[inner[-1]], rest[torch.cat(inner[:-1])]
        split = {"train": rest, **split}
        check_splits(**split)
        return split


def deal(how: How, keys: Sequence[str | int], parts: int, seed: int) -> list[Tensor]:
    """Deal examples into parts of about the same size.

    Args:
        how: ``random``; ``stratified``: each part has its share of every key (class); ``group``:
            the examples of one key (ionic liquid, scaffold) stay together, the largest groups are
            dealt first, each to the smallest part.
        keys: one an example; how many there are is all that ``random`` looks at.
        parts: how many.
        seed: of the order in which examples, or groups of one size, are dealt.

    Raises:
        ArgumentError: there are fewer examples, or groups, than parts.

    """
    check_choice("data.split", how, get_args(How))
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist()
    groups: dict[str | int, list[int]] = defaultdict(list)
    for i in order:
        groups[keys[i] if how != "random" else 0].append(i)
    available = len(groups) if how == "group" else len(keys)
    if available < parts:
        raise ArgumentError(
            "data.folds",
            expected=f"no more parts than the {available} {'groups' if how == 'group' else 'rows'}",
            got=f"{parts} parts, so that one would be empty",
            remedy="choose fewer folds or a larger share data.val",
        )
    dealt: list[list[int]] = [[] for _ in range(parts)]
    if how == "group":
        for members in sorted(groups.values(), key=len, reverse=True):
            min(dealt, key=len).extend(members)
    else:  # class after class, going round, so that sizes differ by one at most
        for turn, i in enumerate(i for members in groups.values() for i in members):
            dealt[turn % parts].append(i)
    return [torch.tensor(sorted(part)) for part in dealt]
