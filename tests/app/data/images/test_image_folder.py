"""A folder of images for each class: sizes, formats, splits, and damaged files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.images import ImageFolder
from edgewise.app.kinds.images.data import bright_on_dark, find_images, open_image, pixels
from tests.errors import refused

Image = pytest.importorskip("PIL.Image")


def save(path, color, size=(12, 9), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new(mode, size, color)
    image.paste("black", (0, 0, size[0] // 2, size[1]))  # the left is not as the right
    image.save(path)


@pytest.fixture
def folder(tmp_path):
    """Twenty red images and ten blue ones, of several sizes and formats."""
    for i in range(20):
        save(tmp_path / "red" / f"{i}.{'png' if i % 2 else 'jpg'}", (250, i, 0), (8 + i, 30 - i))
    for i in range(10):
        save(tmp_path / "blue" / "inner" / f"{i}.PNG", (0, i, 250))
    (tmp_path / "blue" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / ".cache").mkdir()
    return tmp_path


def test_classes_sizes_and_shares(folder):
    splits = ImageFolder(path=str(folder), image_size=8, batch_size=7).load()
    assert splits.model_arguments == {"image_size": 8, "channels": 3, "out_width": 2}
    assert splits.preprocessing["labels"] == ["blue", "red"]
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [21, 3, 6]
    target = torch.cat([batch.target for batch in splits.loaders(0)["test"]])
    assert target.tolist().count(1) == 4, "two thirds are red"
    batch = splits.train.make(torch.arange(21))
    (images,) = batch.inputs
    assert images.shape == (21, 3, 8, 8)
    assert torch.allclose(images.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(images[:, 0].std(correction=0), torch.tensor(1.0), atol=1e-4)
    red = images[:, 0].mean((1, 2)) > images[:, 2].mean((1, 2))
    assert torch.equal(red, batch.target == 1)
    gray = ImageFolder(path=str(folder), image_size=8, colors="gray").load()
    assert gray.train.make(torch.arange(2)).inputs[0].shape == (2, 1, 8, 8)


def test_what_is_varied(folder):
    fields = {"path": str(folder), "image_size": 8}
    plain, flipped = ImageFolder(**fields).load(), ImageFolder(**fields, flip=True).load()
    index = torch.arange(21)
    images = plain.train.make(index).inputs[0]
    assert torch.equal(images, plain.train.make(index).inputs[0])
    other = flipped.train.make(index).inputs[0]
    mirrored = (other == images.flip(-1)).flatten(1).all(1)
    assert 2 < mirrored.sum() < 19, "about half"
    assert ((other == images).flatten(1).all(1) | mirrored).all()
    warped = ImageFolder(**fields, warp=0.2).load()
    assert not torch.equal(warped.train.make(index).inputs[0], images)
    tested = torch.arange(6)
    assert torch.equal(warped.test.make(tested).inputs[0], flipped.test.make(tested).inputs[0])


def test_splits_that_are_given(tmp_path):
    for part, count in (("train", 10), ("Test", 3)):
        for name in ("a", "b"):
            for i in range(count):
                save(tmp_path / part / name / f"{i}.png", (i, 0, 0))
    splits = ImageFolder(path=str(tmp_path), image_size=4).load()
    assert [part.count for part in (splits.train, splits.val, splits.test)] == [18, 2, 6]
    save(tmp_path / "Test" / "c" / "0.png", (0, 0, 0))
    with refused("data.path", expected="a, b", got="the class c", remedy="rename this class"):
        ImageFolder(path=str(tmp_path)).load()


def test_bad_folders(folder, tmp_path):
    (tmp_path / "photos.zip").touch()
    with pytest.raises(MissingDataError, match=r"photos\.zip: a file, not a folder"):
        ImageFolder(path=str(tmp_path / "photos.zip")).load()
    with pytest.raises(MissingDataError, match="nowhere: no such folder"):
        ImageFolder(path=str(tmp_path / "nowhere")).load()
    with refused("data.path", expected="two classes", got="no images", remedy="a folder"):
        ImageFolder(path=str(tmp_path / "red")).load()
    with refused("data.path", expected="a folder", got="none", remedy="name a folder"):
        ImageFolder().load()
    bad = folder / "red" / "bad.png"
    bad.write_bytes(b"no image")
    with refused(str(bad), expected="an image", got="cannot identify", remedy="remove this file"):
        ImageFolder(path=str(folder)).load()
    whole = (folder / "red" / "0.jpg").read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    with refused(str(bad), expected="an image", got="", remedy="save the image again"):
        ImageFolder(path=str(folder)).load()
    for field, value, expected in (
        ("colors", "cmyk", "rgb"),
        ("image_size", 0, "at least 1"),
        ("warp", 1.0, "from 0 to below 1"),
    ):
        with refused(f"data.{field}", expected=expected, got=repr(value), remedy=""):
            ImageFolder(**{field: value})


def test_what_does_not_fit_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 1e4)
    with refused("data.image_size", expected="free memory", got="30 images", remedy="smaller"):
        ImageFolder(path=str(folder), image_size=64).load()


def test_modes_are_read_as_they_are_seen(tmp_path):
    path = tmp_path / "one.png"

    def seen(image, **save):
        image.save(path, **save)
        return pixels(open_image(path), 4, 4, color=True)

    assert seen(Image.new("RGBA", (4, 4), (9, 9, 9, 0))).unique().tolist() == [255]
    assert seen(Image.new("1", (4, 4), 1)).unique().tolist() == [255]
    deep = Image.fromarray(np.full((4, 4), 32768, np.uint16))
    assert seen(deep).unique().tolist() == [127]
    palette = Image.new("RGB", (4, 4), (200, 10, 30)).quantize()
    assert seen(palette)[:, 0, 0].tolist() == [200, 10, 30]
    turned = Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    assert seen(turned, exif=exif)[0, 0, 0] == 15


def test_ink_is_bright():
    ink = torch.zeros(1, 8, 8)
    ink[:, 2:6, 3:5] = 1
    assert torch.equal(bright_on_dark(ink), ink)
    assert torch.equal(bright_on_dark(1 - ink), ink)


def test_hidden_and_other_files_are_no_images(folder):
    save(folder / ".cache" / "x.png", (0, 0, 0))
    (folder / "red" / "notes.txt").write_text("x")
    assert len(find_images(folder)) == 30
