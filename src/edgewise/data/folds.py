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
            train, val = self.held_out(how, [keys[i] for i in rest.tolist()])
            split["val"], rest = rest[val], rest[train]
        split = {"train": rest, **split}
        check_splits(**split)
        return split

    def held_out(self, how: How, keys: Sequence[str | int]) -> tuple[Tensor, Tensor]:
        """Numbers of the examples to train on and to validate, where none of these is tested."""
        inner = deal(how, keys, round(1 / self.val), self.seed + 1, of="data.val")
        # The last part: the first ones hold the largest group, and then little else.
        return torch.cat(inner[:-1]), inner[-1]


def deal(
    how: How, keys: Sequence[str | int], parts: int, seed: int, of: str = "data.folds"
) -> list[Tensor]:
    """Deal examples into parts of about the same size.

    Args:
        how: ``random``; ``stratified``: each part has its share of every key (class); ``group``:
            the examples of one key (ionic liquid, scaffold) stay together, the largest groups are
            dealt first, each to the smallest part.
        keys: one an example; how many there are is all that ``random`` looks at.
        parts: how many.
        seed: of the order in which examples, or groups of one size, are dealt.
        of: the argument that says how many parts, for the error.

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
        folds = of == "data.folds"
        raise ArgumentError(
            of,
            expected=f"at least {parts} "
            f"{'groups, such as molecules' if how == 'group' else 'rows'}, one for each part"
            f"{'' if folds else ', beside those to test'}",
            got=str(available),
            remedy=f"bring more, or choose {'fewer folds' if folds else 'a larger share'}",
        )
    dealt: list[list[int]] = [[] for _ in range(parts)]
    if how == "group":
        for members in sorted(groups.values(), key=len, reverse=True):
            min(dealt, key=len).extend(members)
    else:  # class after class, going round, so that sizes differ by one at most
        for turn, i in enumerate(i for members in groups.values() for i in members):
            dealt[turn % parts].append(i)
    return [torch.tensor(sorted(part)) for part in dealt]


def hold_out(keys: Sequence[str | int], *, val: float, test: float, seed: int) -> dict[str, Tensor]:
    """Shares of examples at random, in which each class has about its share.

    Args:
        keys: the class of each example.
        val: the share to validate on; 0 where that is given.
        test: the share to test on; likewise.
        seed: decides which examples these are.

    Returns:
        Numbers of the examples by ``train``, ``val`` and ``test``, in their order.

    """
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist()
    order.sort(key=lambda i: str(keys[i]))  # class after class, at random within each
    rank = torch.arange(len(order), dtype=torch.double)

    def every(share: float, offset: float) -> Tensor:
        # Where a sum of shares passes a whole number: evenly spread, so over the classes, too.
        return ((rank + 1) * share + offset).floor() > (rank * share + offset).floor()

    tested = every(test, 0.5)
    validated = torch.zeros_like(tested)
    rank = rank[: int((~tested).sum())]
    validated[~tested] = every(val / (1 - test), 0.5)
    numbers = torch.tensor(order)
    parts = {"train": ~tested & ~validated, "val": validated, "test": tested}
    return {name: numbers[part].sort().values for name, part in parts.items()}
