"""Rotary positions: the angle between query and key shows their distance alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise.encodings import Rotary
from tests.errors import refused


def turned(x: Tensor, position: int) -> Tensor:
    return Rotary(x.shape[-1]).double()(x[None, None], torch.tensor([position]))[0, 0]


def test_inner_products_depend_on_distance_alone() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 8, dtype=torch.double)
    products = [turned(query, p) @ turned(key, p + 5) for p in range(40)]
    torch.testing.assert_close(torch.stack(products), products[0].expand(40), rtol=0, atol=1e-12)
    others = torch.stack([turned(query, 7) @ turned(key, 7 + k) for k in range(9)])
    assert others.std() > 0.1, "and on distance they do depend"


def test_turning_keeps_lengths_and_position_zero() -> None:
    x = torch.randn(8, dtype=torch.double)
    torch.testing.assert_close(turned(x, 31).norm(), x.norm())
    assert torch.equal(turned(x, 0), x)


def test_two_entries_by_hand() -> None:
    angle = torch.tensor(3.0, dtype=torch.double)
    expected = torch.stack([angle.cos() - 2 * angle.sin(), 2 * angle.cos() + angle.sin()])
    torch.testing.assert_close(turned(torch.tensor([1.0, 2.0]).double(), 3), expected)


def test_entries_are_paired_as_in_llama() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    torch.manual_seed(0)
    x = torch.randn(2, 7, 3, 8)  # [B, T, H, D]
    angle = torch.arange(7)[:, None] * Rotary(8).rates
    both = torch.cat([angle, angle], dim=-1)
    other, _ = llama.apply_rotary_pos_emb(x, x, both.cos(), both.sin(), unsqueeze_dim=1)
    torch.testing.assert_close(Rotary(8)(x), other)


def test_a_position_a_node_and_a_member() -> None:
    x, positions = torch.randn(2, 3, 1, 4), torch.tensor([[0, 1, 2], [5, 6, 7]])
    rotary = Rotary(4)
    both = rotary(x, positions)
    torch.testing.assert_close(both[1], rotary(x[1], positions[1]))
    torch.testing.assert_close(both[0], rotary(x[0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_to_16_bits_leaves_the_rates(dtype: torch.dtype) -> None:
    exact = Rotary(8).rates
    rotary = nn.Sequential(Rotary(8)).to(dtype)[0]
    assert rotary.rates.dtype == torch.float32
    assert torch.equal(rotary.rates, exact)
    assert torch.equal(rotary.double().rates, exact.double())
    assert torch.equal(rotary.to(dtype).rates, exact.double())
    assert rotary.to("meta", dtype).rates.device.type == "meta"
    torch.manual_seed(0)
    x, positions = torch.randn(3, 1, 8), torch.tensor([0, 2400, 60000])
    far = Rotary(8).to(dtype)(x.to(dtype), positions)
    assert far.dtype == dtype
    torch.testing.assert_close(far.float(), Rotary(8)(x, positions), rtol=0, atol=0.03)


def test_an_odd_width_cannot_be_paired() -> None:
    with refused("width", expected="even head width", got="5", remedy="number of heads"):
        Rotary(5)
