"""Positions: what the lectures say of them, as numbers."""

from __future__ import annotations

import pytest
import torch

from edgewise._utils.errors import ArgumentError
from edgewise.encodings import Learned, Rotary, Sinusoidal, sinusoidal_positions
from tests.errors import refused


def rotations(shift: float, width: int) -> torch.Tensor:
    """The block-diagonal matrix M with PE(p + shift) = M PE(p)."""
    angle = shift * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    blocks = [torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angle]
    return torch.block_diag(*blocks)


def test_sinusoidal_follows_its_formula() -> None:
    code = sinusoidal_positions(torch.tensor([3]), 4)[0]
    expected = torch.tensor([3.0, 3.0, 0.03, 0.03], dtype=torch.float64)
    torch.testing.assert_close(code[0::2], expected[0::2].sin())
    torch.testing.assert_close(code[1::2], expected[1::2].cos())


def test_a_shift_is_one_rotation_for_every_position() -> None:
    codes = sinusoidal_positions(torch.arange(50), 8)
    torch.testing.assert_close(codes[7:], codes[:-7] @ rotations(7, 8).T, rtol=0, atol=1e-12)


def test_inner_products_depend_on_distance_alone() -> None:
    codes = sinusoidal_positions(torch.arange(60), 8)
    products = (codes[:-5] * codes[5:]).sum(-1)
    torch.testing.assert_close(
        products, torch.full_like(products, 3.15998250777), rtol=0, atol=1e-10
    )


def test_sinusoidal_extends_to_any_length_and_keeps_what_it_gave() -> None:
    encoding = Sinusoidal(8)
    short = encoding(torch.zeros(4, 8))
    long = encoding(torch.zeros(2, 100, 8))
    torch.testing.assert_close(long[1, :4], short)
    assert not list(encoding.state_dict())


def test_integer_features_do_not_truncate_the_encoding() -> None:
    x = torch.randint(-3, 3, (4, 8))
    for positions in (None, torch.arange(4)):
        assert torch.equal(Sinusoidal(8)(x, positions), Sinusoidal(8)(x.float(), positions))
        heads = x[:, None]
        assert torch.equal(Rotary(8)(heads, positions), Rotary(8)(heads.float(), positions))


def test_sinusoidal_needs_an_even_width() -> None:
    with refused("width", expected="an even number", got="5", remedy="add 1"):
        sinusoidal_positions(torch.arange(3), 5)


def test_learned_adds_its_rows_and_they_are_learned() -> None:
    encoding = Learned(6, 4)
    out = encoding(torch.zeros(2, 5, 4))
    torch.testing.assert_close(out[1], encoding.table[:5])
    out.sum().backward()
    assert encoding.table.grad.abs().sum(1).tolist() == [8.0, 8.0, 8.0, 8.0, 8.0, 0.0]


def test_learned_does_not_reach_beyond_its_length() -> None:
    with pytest.raises(ArgumentError, match=r"expected at most 3 nodes.*got 4 nodes.*sinusoidal"):
        Learned(3, 4)(torch.zeros(4, 4))
