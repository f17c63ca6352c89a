"""MNIST's files, and pictures put together from them."""

from __future__ import annotations

import torch

from edgewise import data
from edgewise.data.images.caption_digits import BEGIN, END, FIRST, PAD, captioned, spelled
from edgewise.data.images.mnist import read_mnist
from tests.errors import refused
from tests.places import needs


def test_captions_name_the_digits_that_are_there_in_their_order() -> None:
    labels = torch.tensor([[4, 0, 7], [1, 2, 3]])
    there = torch.tensor([[True, False, True], [True, True, True]])
    batch = captioned(torch.zeros(2, 1, 28, 84), labels, there)
    assert batch.references == ("four seven", "one two three")
    _, read = batch.inputs
    assert read.tolist() == [
        [BEGIN, FIRST + 4, FIRST + 7, END],
        [BEGIN, FIRST + 1, FIRST + 2, FIRST + 3],
    ]
    assert batch.target.tolist() == [
        FIRST + 4,
        FIRST + 7,
        END,
        *(FIRST + i for i in (1, 2, 3)),
        END,
    ]
    outputs = torch.arange(8.0)[:, None]
    assert batch.counted(outputs)[:, 0].tolist() == [0, 1, 2, 4, 5, 6, 7], "none of padding"
    assert spelled(torch.tensor([[FIRST, PAD, FIRST + 1]])) == ["zero"]


@needs("MNIST")
def test_pictures_show_what_their_captions_say() -> None:
    images, labels = read_mnist("test")
    assert (images.shape, labels.bincount().tolist()[:2]) == ((10_000, 28, 28), [980, 1135])
    loaded = data.caption_digits(places=3, least=1, jitter=0, tested=50, count=32, batch_size=16)
    splits = loaded.load()
    batch = splits.test.make(torch.arange(50))
    pictures = batch.inputs[0]
    assert pictures.shape == (50, 1, 28, 84)
    squares = pictures.view(50, 28, 3, 28).transpose(1, 2)
    shown = squares.flatten(2).sum(-1) > 0
    assert shown.sum(1).tolist() == [len(text.split()) for text in batch.references]
    known = {
        bytes(image.flatten().tolist()): int(label)
        for image, label in zip(images, labels, strict=True)
    }
    words = [
        [known[bytes((square * 255).round().int().flatten().tolist())] for square in row[there]]
        for row, there in zip(squares, shown, strict=True)
    ]
    assert [" ".join(data_words(row)) for row in words] == list(batch.references)


def data_words(digits: list[int]) -> list[str]:
    from edgewise.data.images.caption_digits import DIGITS

    return [DIGITS[digit] for digit in digits]


@needs("MNIST")
def test_training_pictures_are_drawn_by_seed_and_epoch_alone() -> None:
    small = data.caption_digits(count=32, tested=10, batch_size=16).load()

    def references(seed: int, epoch: int) -> list[str]:
        loader = small.loaders(seed)["train"]
        loader.set_epoch(epoch)
        return [text for batch in loader for text in batch.references]

    assert references(0, 1) == references(0, 1)
    assert references(0, 1) != references(0, 2)
    assert references(0, 1) != references(1, 1)


def test_bad_fields() -> None:
    with refused("data.least, data.places", expected="a place", got="5 and 4", remedy="2 and 4"):
        data.caption_digits(least=5)
    with refused("data.count", expected="at least 1", got="0", remedy="larger"):
        data.caption_digits(count=0)


@needs("MNIST")
def test_digits_and_their_splits() -> None:
    splits = data.mnist(warp=0.1).load()
    assert [s.count for s in (splits.train, splits.val, splits.test)] == [55_000, 5_000, 10_000]
    images, labels = read_mnist("train")
    first = splits.val.make(torch.tensor([0, 4_999]))
    assert torch.equal(first.inputs[0][:, 0], images[[55_000, 59_999]] / 255)
    assert torch.equal(first.target, labels[[55_000, 59_999]])
    one = torch.tensor([3])
    twice = [splits.train.make(one).inputs[0] for _ in range(2)]
    assert not torch.equal(*twice), "training images are moved, otherwise each time"
