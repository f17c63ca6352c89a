"""Captions of several digits: data and answers; answers on rows of digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from edgewise_examples import data
from edgewise_examples.baselines import captions
from edgewise_examples.baselines.captions import digits_of
from edgewise_examples.data.caption_digits import BEGIN, DIGITS, END, FIRST, PAD, captioned, spelled

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.images.digits import read_mnist
from edgewise.app.runs import train, with_values
from tests.errors import refused
from tests.places import needs

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("lightning")

SMALL = {
    "model.width": 16,
    "model.depth": 1,
    "model.ffn_dim": 32,
    "trainer.accelerator": "cpu",
}


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
    assert batch.select_outputs(outputs)[:, 0].tolist() == [0, 1, 2, 4, 5, 6, 7], "none of padding"
    assert spelled(torch.tensor([[FIRST, PAD, FIRST + 1]])) == ["zero"]


def test_the_baseline_cuts_the_row_and_centres_each_digit() -> None:
    pytest.importorskip("scipy")
    rows = torch.zeros(2, 1, 9, 27)
    rows[0, 0, 2, 20] = 0.5  # in the third square, at (2, 2)
    rows[1, 0, 4, 4] = rows[1, 0, 0, 10] = 1.0
    found, counts = digits_of(rows)
    assert counts.tolist() == [1, 2]
    assert found.reshape(3, 9, 9)[:, 4, 4].tolist() == [0.5, 1, 1]
    assert found.sum() == 2.5


@pytest.mark.slow
@needs("MNIST")
def test_the_baseline_reads_most_digits() -> None:
    pytest.importorskip("sklearn")
    recipe = with_values(find("caption-digits"), {"data.count": "500", "data.tested": "100"})
    far = with_values(recipe, {"data.jitter": "28"})  # Some digits are outside their square.
    assert next(captions.candidates(far, far.data.load())).fit()
    splits = recipe.data.load()
    batch = splits.test.make(torch.arange(100))
    texts = next(captions.candidates(recipe, splits)).fit().write(batch)
    right = [one == other for one, other in zip(texts, batch.references, strict=True)]
    assert sum(right) > 50, "1,500 training digits; chance is below 1 in 100"


@pytest.mark.slow
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
    with refused(
        "data.least, data.places",
        expected="≤ data.places",
        got="data.least=5 and",
        remedy="data.places=4",
    ):
        data.caption_digits(least=5)
    with refused("data.count", expected="at least 1", got="0", remedy="larger"):
        data.caption_digits(count=0)


def test_a_row_of_digits(tmp_path, capsys):
    fields = {
        "data.count": 640,
        "data.tested": 60,
        "trainer.epochs": 2,
        "model.graph": "complete()",
    }
    recipe = with_values(find("digit-rows"), SMALL | fields)
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    batch = recipe.data.load().test.make(torch.arange(20))
    with torch.no_grad():
        expected = run.model(batch.inputs[0]).softmax(-1).max(-1)
    (tmp_path / "rows").mkdir()
    for i, image in enumerate(batch.inputs[0]):  # bright ink on dark, larger, and the other way
        ink = (image[0] * 255 if i % 2 else 255 - image[0] * 255).round()
        large = Image.fromarray(ink.numpy().astype(np.uint8)).resize((256, 32), 0)
        large.save(tmp_path / "rows" / f"{i:02}.png")
    assert torch.allclose(
        run.predictor.prepare(tmp_path / "rows/01.png"), batch.inputs[0][1], atol=0.01
    )
    answers = run.predict(tmp_path / "rows")
    told = torch.tensor([int(answer["label"]) for answer in answers])
    assert (told == expected.indices).sum() >= 19, "but for rounding"
    found = torch.tensor([answer["probability"] for answer in answers])
    torch.testing.assert_close(found[1::2], expected.values[1::2], atol=0.03, rtol=0)
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "rows/01.png"), "none.png"]) == 1
    shown = capsys.readouterr()
    assert "label" in shown.out
    assert "none.png, which does not exist" in shown.err


@pytest.mark.slow
@needs("MNIST")
def test_captions_are_those_of_the_test(tmp_path):
    fields = SMALL | {
        "data.count": 64,
        "data.tested": 8,
        "trainer.epochs": 1,
        "model.decoder_depth": 1,
    }
    recipe = with_values(find("caption-digits"), fields)
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    batch = recipe.data.load().test.make(torch.arange(8))
    expected = recipe.task.generate(run.model, batch)
    (tmp_path / "rows").mkdir()
    for i, image in enumerate(batch.inputs[0]):
        values = (image[0] * 255).round().to(torch.uint8).numpy()
        path = tmp_path / "rows" / f"{i}.png"
        Image.fromarray(values).resize((448, 112), Image.Resampling.NEAREST).save(path)
        assert torch.allclose(run.predictor.prepare(path), image, atol=0.02)
    answers = run.predict(tmp_path / "rows")
    assert [a["caption"] for a in answers] == expected
    short = Image.new("L", (56, 28), 0)
    assert run.predictor.prepare(short).shape == (1, 28, 112)
