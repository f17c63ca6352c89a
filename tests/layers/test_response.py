"""The response to conditions, by its formula and as it begins."""

from __future__ import annotations

import torch

from edgewise.layers import Response


def test_by_its_formula() -> None:
    torch.manual_seed(0)
    response = Response(4, 3, 2, hidden=5).double()
    for weight in response.parameters():
        torch.nn.init.normal_(weight)
    z, c = torch.randn(6, 4).double(), torch.randn(6, 3).double()
    lines = response.lines(z).view(6, 2, 4)
    expected = lines[:, :, 0] + torch.einsum("bon,bn->bo", lines[:, :, 1:], c)
    expected += response.common(c) + response.rest(torch.cat([z, c], dim=1))
    torch.testing.assert_close(response(z, c), expected)


def test_things_begin_much_alike() -> None:
    torch.manual_seed(0)
    response, z, c = Response(4, 3, 1, hidden=64), torch.randn(500, 4), torch.randn(1, 3)
    usual = response.common(torch.randn(500, 3)).std()
    assert 0 < response(z, c.expand(500, -1)).std() < usual / 5


def test_without_conditions_it_is_a_network() -> None:
    response, z = Response(4, 0, 2, hidden=5), torch.randn(6, 4)
    torch.testing.assert_close(response(z), response.lines(z))
    torch.testing.assert_close(response(z, torch.empty(6, 0)), response(z))
