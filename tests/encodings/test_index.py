"""The lectures' first two codes, and the problems that the lectures see in them."""

from __future__ import annotations

import pytest
import torch

from edgewise.encodings import (
    Binary,
    Learned2d,
    RawIndex,
    ScaledIndex,
    Sinusoidal,
    binary_positions,
    packed_positions,
    scaled_positions,
    sinusoidal_positions,
)
from tests.errors import refused


def test_the_raw_index_is_the_position_times_a_vector() -> None:
    encoding = RawIndex(4)
    x, vector = torch.randn(2, 3, 4), encoding.project.weight[:, 0]
    expected = torch.stack([x[:, 0], x[:, 1] + vector, x[:, 2] + 2 * vector], 1)
    torch.testing.assert_close(encoding(x), expected)
    torch.testing.assert_close(encoding(x, torch.tensor([0, 500, 2]))[:, 1], x[:, 1] + 500 * vector)


def test_the_scaled_index_of_five_tokens_is_the_lectures() -> None:
    code = scaled_positions(torch.arange(5))
    assert code[:, 0].tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])


def test_the_scaled_index_cannot_handle_variable_length() -> None:
    five, ten = scaled_positions(torch.arange(5)), scaled_positions(torch.arange(10))
    assert five[1] == ten[2], "one code for two positions"
    assert five[1] != ten[1], "two codes for one position"
    step = {n: float(scaled_positions(torch.arange(n))[1]) for n in (5, 10)}
    assert step[5] == 2 * step[10], "and one distance has no one difference"
    waves = [sinusoidal_positions(torch.arange(n), 8)[1] for n in (5, 10)]
    assert torch.equal(*waves), "sinusoidal positions do not have this problem"


def test_the_scaled_index_counts_each_sequence_of_a_packed_batch_by_its_own_length() -> None:
    code = scaled_positions(packed_positions([2, 4, 1]))[:, 0].tolist()
    assert code == [0, 0.5, 0, 0.25, 0.5, 0.75, 0]


def test_binary_is_the_lectures_table() -> None:
    digits = binary_positions(torch.arange(5), 3).T
    assert digits.tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0]]


def test_binary_codes_cannot_be_interpolated_and_say_nothing_of_distance() -> None:
    codes = binary_positions(torch.arange(16), 4)
    between = (codes[3] + codes[5]) / 2
    assert not (codes == between).all(1).any(), "half way from 3 to 5 is no position, not even 4"
    apart = torch.cdist(codes, codes)
    neighbours = apart.diagonal(1)
    assert neighbours.min() == 1
    assert neighbours.max() == 2, "7 and 8 are as far apart as two codes can be"
    assert apart[7, 8] == apart.max()
    waves = sinusoidal_positions(torch.tensor([3, 4, 5]), 32)
    middle = torch.cdist(
        (waves[0] + waves[2])[None] / 2, sinusoidal_positions(torch.arange(16), 32)
    )
    assert middle.argmin() == 4, "half way between waves is nearest to the position between"


def test_binary_needs_enough_digits() -> None:
    with refused("positions", expected="below 8", got="position 8", remedy="more bits"):
        binary_positions(torch.arange(9), 3)


@pytest.mark.parametrize("encoding", [ScaledIndex(6), Binary(6, 4)])
def test_codes_are_mapped_and_added(encoding: torch.nn.Module) -> None:
    x = torch.randn(2, 5, 6)
    code = scaled_positions(torch.arange(5)).float()
    if isinstance(encoding, Binary):
        code = binary_positions(torch.arange(5), 4).float()
    torch.testing.assert_close(encoding(x), x + code @ encoding.project.weight.T)


def test_learned_2d_is_a_row_plus_a_column() -> None:
    encoding = Learned2d(3, 4, 5)
    code = encoding(torch.zeros(12, 5)).view(3, 4, 5)
    expected = encoding.row.table[:, None] + encoding.column.table
    torch.testing.assert_close(code, expected)
    assert sum(p.numel() for p in encoding.parameters()) == (3 + 4) * 5
    with refused("x", expected="at most 3 nodes", got="4 nodes", remedy="larger max_length"):
        encoding(torch.zeros(13, 5))


def test_positions_given_are_the_positions_used() -> None:
    positions = torch.tensor([[4, 1], [0, 2]])
    encoding = Sinusoidal(6)
    out = encoding(torch.zeros(2, 2, 6), positions)
    torch.testing.assert_close(out, sinusoidal_positions(positions, 6).float())
