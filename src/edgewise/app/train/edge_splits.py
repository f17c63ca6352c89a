"""Disjoint splits of edges, in which an edge and its reverse stay together, and negative pairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_shares
from edgewise._utils.errors import ArgumentError, counted

TRIES = 50  # Maximum number of rounds of rejection sampling.


@dataclass(frozen=True)
class EdgeSplit:
    """Edges ``[2, E]`` of each split; each undirected edge occurs once, in one split."""

    train: Tensor
    val: Tensor
    test: Tensor


def undirected(pairs: Tensor) -> Tensor:
    """Return each undirected edge once, ``[2, E]``: sorted, smaller node first, no self-loops."""
    low, high = pairs.min(0).values, pairs.max(0).values
    return distinct(torch.stack([low, high])[:, low != high])


def distinct(pairs: Tensor) -> Tensor:
    """Return the pairs ``[2, E]`` sorted and without repetitions."""
    if not pairs.numel():
        return pairs
    width = int(pairs.max()) + 1
    keys = pair_keys(pairs, width).unique()  # unique(dim=1) takes minutes for a million pairs.
    return torch.stack([keys // width, keys % width])


def once(pairs: Tensor) -> Tensor:
    """Remove repeated pairs, keeping the order of first occurrence, ``[2, E]``."""
    if not pairs.numel():
        return pairs
    keys, order = pair_keys(pairs, int(pairs.max()) + 1).sort(stable=True)
    first = keys.diff(prepend=keys.new_tensor([-1])) != 0
    return pairs[:, order[first].sort().values]


def both_ways(pairs: Tensor) -> Tensor:
    """Return all pairs followed by their reverses, ``[2, 2E]``."""
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def split_edges(pairs: Tensor, *, val: float, test: float, seed: int) -> EdgeSplit:
    """Split edges at random into training, validation and test."""
    check_shares({"data.val": val, "data.test": test}, "choose for example 0.05 and 0.1")
    count = pairs.shape[1]
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    sizes = [round(count * val), round(count * test)]
    val_part, test_part, train_part = order.split([*sizes, count - sum(sizes)])
    split = EdgeSplit(pairs[:, train_part], pairs[:, val_part], pairs[:, test_part])
    check_edge_split(split)
    return split


def check_edge_split(split: EdgeSplit) -> None:
    """Check that the splits are not empty and have no undirected edge in common."""
    splits = {"train": split.train, "val": split.val, "test": split.test}
    for name, pairs in splits.items():
        if not pairs.shape[1]:
            raise ArgumentError(
                name,
                expected=f"at least one edge in the {name} split",
                got="none",
                remedy="add edges, or change data.val and data.test (fractions of the edges)",
            )
    names = list(splits)
    width = max(int(pairs.max()) for pairs in splits.values()) + 1
    keys = {name: pair_keys(undirected(pairs), width) for name, pairs in splits.items()}
    for index, first_name in enumerate(names):
        for second_name in names[index + 1 :]:
            shared = keys[first_name][torch.isin(keys[first_name], keys[second_name])]
            if shared.numel():
                first = divmod(int(shared[0]), width)
                raise ArgumentError(
                    f"{first_name}, {second_name}",
                    expected="two splits without a common edge (in either direction)",
                    got=f"{counted(shared.numel(), 'common edge')}, first {first[0]}-{first[1]}",
                    remedy="remove repeated and reversed pairs before the split",
                )


def pair_keys(pairs: Tensor, width: int) -> Tensor:
    """Return one integer per pair, ``first * width + second``."""
    return pairs[0] * width + pairs[1]


def draw_non_edges(
    count: int, keys: Tensor, left: range, right: range, generator: Generator
) -> Tensor:
    """Sample pairs of nodes ``[2, count]`` that no edge connects, uniformly with replacement."""
    chunks: list[Tensor] = []
    missing = count
    for _ in range(TRIES):
        low = torch.randint(left.start, left.stop, (2 * missing + 8,), generator=generator)
        high = torch.randint(right.start, right.stop, (2 * missing + 8,), generator=generator)
        if left == right:
            low, high = torch.minimum(low, high), torch.maximum(low, high)
        pair_key = low * right.stop + high
        index = torch.searchsorted(keys, pair_key).clamp_(max=max(keys.numel() - 1, 0))
        free = (low != high) & (keys[index] != pair_key if keys.numel() else low >= 0)
        pairs = torch.stack([low, high])[:, free][:, :missing]
        chunks.append(pairs)
        missing -= pairs.shape[1]
        if missing <= 0:
            return torch.cat(chunks, dim=1)
    raise ArgumentError(
        "negatives",
        expected=f"{counted(count, 'pair')} without an edge",
        got=f"{count - missing} in {TRIES} trials, because nearly every pair is an edge",
        remedy="choose fewer negatives",
    )
