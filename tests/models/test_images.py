"""Models of images: Swin's windows, what a masked autoencoder sees, and images that do not fit."""

from __future__ import annotations

import pytest
import torch

from edgewise.models import mae, swin, vit
from edgewise.models.swin import ShiftedWindows
from tests.errors import refused


def rolled(rows: int, columns: int, window: int, shift: int) -> torch.Tensor:
    """The paper's definition: roll by the shift, cut, and part what has come round: ``[N, N]``."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    parts = []
    for place, count in ((row, rows), (column, columns)):
        after = (place - shift) % count
        parts += [after // window, (place < shift).long()]  # window, and whether it came round
    apart = torch.stack(parts).flatten(1)
    return (apart[:, :, None] == apart[:, None]).all(0)


@pytest.mark.parametrize(
    ("rows", "columns", "window"), [(4, 4, 2), (6, 9, 3), (8, 4, 4), (3, 3, 3)]
)
@pytest.mark.parametrize("shifted", [False, True])
def test_shifted_windows_are_the_papers(
    rows: int, columns: int, window: int, shifted: bool
) -> None:
    windows = ShiftedWindows(rows, columns, window, shifted=shifted)
    shift = window // 2 if shifted and window < min(rows, columns) else 0
    packed = windows.graph.dense()
    assert torch.equal(packed[windows.back][:, windows.back], rolled(rows, columns, window, shift))
    # the class of each edge's offset, by row and column of the patches themselves
    graph, side = windows.graph, windows.side
    target, source = windows.order[graph.target], windows.order[graph.source]
    down = target // columns - source // columns + side - 1
    right = target % columns - source % columns + side - 1
    assert torch.equal(windows.offsets.index, down * (2 * side - 1) + right)


def test_swin_reaches_across_windows_only_where_they_are_shifted() -> None:
    torch.manual_seed(0)
    image = torch.randn(1, 1, 8, 8, requires_grad=True)
    for depth, reaches in ((1, False), (2, True)):
        model = swin(8, 1, 3, patch=1, width=8, depths=(depth,), heads=2, window=4)
        states = model[:-3](image)  # before the last norm and the mean
        (grad,) = torch.autograd.grad(states[0, 3 * 8 + 3].square().sum(), image)
        assert bool(grad[0, 0, 4, 4]) == reaches
        assert bool(grad[0, 0, :4, :4].all())


def test_a_masked_autoencoder_does_not_see_what_is_hidden() -> None:
    torch.manual_seed(0)
    model = mae(8, 2, patch=2, normalised=False)
    images, noise = torch.randn(1, 2, 8, 8), torch.rand(1, 16)
    predicted = model(images, noise)
    assert predicted.shape == (1, 12, 8)
    hidden = noise.argsort(1)[0, 4:]
    changed = images.clone()
    for patch in hidden.tolist():
        down, right = 2 * (patch // 4), 2 * (patch % 4)
        changed[..., down : down + 2, right : right + 2] += 1
    assert torch.equal(model(changed, noise), predicted)
    torch.testing.assert_close(model.targets(changed, noise), model.targets(images, noise) + 1)
    # pixels as they lie in the first hidden patch: rows, columns, then channels
    down, right = 2 * (int(hidden[0]) // 4), 2 * (int(hidden[0]) % 4)
    square = images[0, :, down : down + 2, right : right + 2]
    assert torch.equal(model.targets(images, noise)[0, 0], square.permute(1, 2, 0).flatten())


@pytest.mark.parametrize("normalised", [False, True])
def test_the_loss_of_no_images_is_none(normalised: bool) -> None:
    model = mae(8, 2, patch=2, normalised=normalised)
    images, noise = torch.randn(3, 2, 8, 8), torch.rand(3, 16)
    wrong = model(images, noise) - model.targets(images, noise)
    torch.testing.assert_close(model.loss(images, noise), wrong.square().mean())
    nothing = model.loss(images[:0], noise[:0])
    nothing.backward()
    assert nothing == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_images_that_do_not_fit_are_refused() -> None:
    with refused("patch", expected="height 9", got="2", remedy="crop"):
        swin(9, 3, 5)
    with refused("window", expected="number of rows 14", got="4", remedy="another window"):
        swin(28, 1, 10, window=4)
    for size, got in (((14, 28), "7 rows"), ((28, 14), "7 columns")):
        with refused("depths", expected="even number", got=got, remedy="fewer stages"):
            swin(size, 1, 10, window=7)
    with refused(
        "depths, heads",
        expected="per stage",
        got="lengths 2 and 3",
        remedy="depths=",
    ):
        swin(16, 1, 10, heads=(2, 4, 8))
    with refused("mask_ratio", expected="between 0 and 1", got="1.0", remedy="0.75"):
        mae(8, 1, mask_ratio=1.0)
    with refused("noise", expected="[2, 16]", got="[2, 15]", remedy="torch.rand"):
        mae(8, 1)(torch.randn(2, 1, 8, 8), torch.rand(2, 15))
    for wrong in (torch.randn(2, 1, 4, 4), torch.randn(2, 3, 8, 8), torch.randn(1, 8, 8)):
        with refused("images", expected="[B, 1, 8, 8]", got=str(list(wrong.shape)), remedy="crop"):
            swin(8, 1, 10)(wrong)
    with refused("images", expected="floating point", got="torch.uint8", remedy="convert integers"):
        vit(8, 1, 10)(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
