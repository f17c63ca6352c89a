"""Runs of different lengths on one axis, empty ones among them."""

from __future__ import annotations

import pytest
import torch

from edgewise._utils.ragged import boundaries, chosen, ranges, runs_and_positions, starts


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0], [], [1, 1], [0, 4, 0, 0, 2]])
def test_runs(lengths: list[int]) -> None:
    sizes = torch.tensor(lengths, dtype=torch.long)
    run, position = runs_and_positions(sizes)
    pairs = [(r, p) for r, length in enumerate(lengths) for p in range(length)]
    assert list(zip(run.tolist(), position.tolist(), strict=True)) == pairs
    assert starts(sizes).tolist() == [sum(lengths[:r]) for r in range(len(lengths))]
    assert boundaries(sizes).tolist() == [*starts(sizes).tolist(), sum(lengths)]
    first = torch.arange(len(lengths)) * 10
    assert ranges(first, sizes).tolist() == [10 * r + p for r, p in pairs]


def test_a_fraction_of_each_segment_is_chosen() -> None:
    counts = torch.tensor([5, 0, 20, 1])
    found = [chosen(counts, 0.15, torch.Generator().manual_seed(s)) for s in range(200)]
    for one in found:
        assert [int(part.sum()) for part in one.split(counts.tolist())] == [1, 0, 3, 1]
    often = torch.stack(found).float().mean(0)[5:25]
    assert often.min() > 0.05  # 0.15 ± 0.025 of 200 draws: none is left out
    assert often.max() < 0.25
