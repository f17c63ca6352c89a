"""Patches: each is the linear map of one square, in raster order."""

from __future__ import annotations

import pytest
import torch

from edgewise._utils.errors import ArgumentError
from edgewise.layers import PatchEmbedding


def test_each_patch_is_a_linear_map_of_its_square() -> None:
    embedding, images = PatchEmbedding(6, 2, 3, 5), torch.randn(2, 3, 6, 6)
    out = embedding(images)
    assert out.shape == (2, 9, 5)
    assert embedding.num_patches == 9
    row, column = 1, 2
    square = images[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten(1)
    by_hand = square @ embedding.project.weight.flatten(1).T + embedding.project.bias
    torch.testing.assert_close(out[:, 3 * row + column], by_hand)


def test_patch_must_divide_the_image() -> None:
    with pytest.raises(
        ArgumentError, match="`patch`: expected a divisor of the image's height 8; got 3"
    ):
        PatchEmbedding(8, 3, 1, 4)
