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
    assert isinstance(embedding.project, torch.nn.Conv2d)
    assert embedding.project.bias is not None
    by_hand = square @ embedding.project.weight.flatten(1).T + embedding.project.bias
    torch.testing.assert_close(out[:, 3 * row + column], by_hand)


def test_patch_must_divide_the_image() -> None:
    with pytest.raises(
        ArgumentError, match="`patch`: expected a divisor of the image's height 8; got 3"
    ):
        PatchEmbedding(8, 3, 1, 4)


def test_convolutions_give_one_vector_for_each_patch_and_see_its_surroundings() -> None:
    images = torch.randn(1, 3, 8, 12, requires_grad=True)
    embedding = PatchEmbedding((8, 12), 4, 3, 5, stem="convolutions")
    kernels = [layer.weight for layer in embedding.modules() if isinstance(layer, torch.nn.Conv2d)]
    by_hand = images
    for kernel in kernels:
        by_hand = torch.nn.functional.conv2d(by_hand, kernel, padding=1).relu()
        by_hand = torch.nn.functional.max_pool2d(by_hand, 3, stride=2, padding=1)
    out = embedding(images)
    assert out.shape == (1, embedding.num_patches, 5) == (1, 6, 5)
    torch.testing.assert_close(out, by_hand.flatten(2).transpose(1, 2))
    (gradient,) = torch.autograd.grad(out[0, 0].sum(), images)
    reached = gradient[0].abs().sum(0).nonzero().max(0).values
    assert (reached >= 4).all()  # Beyond the pixels 0 to 3 of the first patch.
    assert (reached < 8).all()


@pytest.mark.parametrize("patch", [1, 3, 6])
def test_convolutions_need_a_power_of_two(patch: int) -> None:
    with pytest.raises(ArgumentError, match="`patch`: expected a power of 2"):
        PatchEmbedding(12, patch, 3, 5, stem="convolutions")
