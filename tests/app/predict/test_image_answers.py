"""Answers on image files: classes of the user's folders and of digits."""

from __future__ import annotations

import shutil
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import edgewise
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.images import ImageFolder
from edgewise.app.runs import train, with_values

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("lightning")

SMALL = {
    "model.width": 16,
    "model.depth": 1,
    "model.ffn_dim": 32,
    "trainer.accelerator": "cpu",
}


def striped(upright: bool, seed: int) -> Image.Image:
    """Noise with two bright stripes, red where they are upright."""
    random = np.random.default_rng(seed)
    image = random.integers(0, 80, (16, 16, 3))
    at = random.integers(2, 14, 2)
    image[(slice(None), at, 0) if upright else (at, slice(None), 2)] = 255
    return Image.fromarray(image.astype(np.uint8))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run on upright and level stripes, moved to another place, and its images gone."""
    folder = tmp_path_factory.mktemp("stripes")
    for i in range(120):
        path = folder / "images" / ("upright" if i % 2 else "level") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        striped(bool(i % 2), i).save(path)
    data = ImageFolder(path=str(folder / "images"), image_size=16, batch_size=16)
    recipe = with_values(replace(find("images"), data=data), SMALL | {"trainer.epochs": 12})
    train(recipe, folder / "run")
    shutil.rmtree(folder / "images")
    shutil.move(folder / "run", folder / "moved")
    return folder / "moved"


@pytest.fixture
def new(tmp_path):
    for i in range(200, 220):
        striped(bool(i % 2), i).resize((16, 16)).save(tmp_path / f"{i}.png")
    return tmp_path


def right(answers) -> int:
    return sum((int(a["input"][-7:-4]) % 2 == 1) == (a["label"] == "upright") for a in answers)


def test_files_folders_and_images(run_folder, new):
    run = edgewise.load(run_folder)
    answers = run.predict(new)
    assert [a["input"] for a in answers] == [str(path) for path in sorted(new.glob("*.png"))]
    assert right(answers) >= 18
    paths = [str(new / "201.png"), new / "202.png"]
    assert [a["label"] for a in run.predict(paths)] == [a["label"] for a in answers[1:3]]
    (given,) = run.predict([Image.open(new / "201.png")], top=2)
    assert given["probability"] == pytest.approx(answers[1]["probability"])
    assert sum(one["probability"] for one in given["top"]) == pytest.approx(1)
    (alone,) = run.predict(Image.open(new / "201.png"))
    assert alone["label"] == given["label"]


def test_the_numbers_are_those_of_the_test(run_folder, tmp_path):
    run = edgewise.load(run_folder)
    image = striped(upright=True, seed=7)
    mean, std = (
        torch.tensor(run.predictor.preprocessing.values[n])[:, None, None] for n in ("mean", "std")
    )
    values = torch.tensor(np.array(image)).permute(2, 0, 1) / 255
    with torch.no_grad():
        expected = run.model(((values - mean) / std)[None]).softmax(-1).max()
    image.save(tmp_path / "one.png")
    assert run.predict(tmp_path / "one.png")[0]["probability"] == pytest.approx(float(expected))


def test_from_the_shell(run_folder, new, capsys):
    (new / "bad.jpg").write_bytes(b"no image")
    out = new / "out.csv"
    words = [str(new), str(new / "missing.png")]
    assert main(["predict", str(run_folder), *words, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "bad.jpg" in said
    assert "missing.png, which does not exist" in said
    assert len(out.read_text().splitlines()) == 1 + 22
    table = new / "files.csv"
    table.write_text(f"file,note\n{new / '203.png'},x\n{new / 'bad.jpg'},y\n")
    assert main(["predict", str(run_folder), "--input", str(table)]) == 1
    shown = capsys.readouterr()
    assert "upright" in shown.out
    assert "line 3 of files.csv" in shown.err


def test_a_notebook_shows_the_run(run_folder):
    run = edgewise.load(run_folder)
    assert repr(run).startswith(f"<Run of {run.recipe.name} in")
    assert "\n" not in repr(run)
    tree = ElementTree.fromstring(f"<div>{run._repr_html_()}</div>")
    text = " ".join(tree.itertext())
    for word in ("images:", "an image file", "top", "test/accuracy", str(run_folder)):
        assert word in text
    (picture,) = tree.findall("img")
    content = b64decode(picture.get("src").partition(",")[2])
    assert content == (run_folder / "curves.png").read_bytes()


def test_what_is_no_image(run_folder, tmp_path):
    run = edgewise.load(run_folder)
    assert "PIL.Image.fromarray" in run.predict([3])[0]["error"]
    with pytest.raises(ArgumentError, match="a folder with images"):
        run.predict(tmp_path)
    bad = tmp_path / "bad.png"
    bad.write_text("no image")
    assert run.predict(tmp_path)[0]["error"].startswith(f"`{bad}`: expected an image")


@pytest.mark.slow
def test_digits_on_paper(tmp_path):
    from sklearn.datasets import load_digits

    recipe = with_values(find("digits"), SMALL | {"trainer.epochs": 6, "data.warp": 0.0})
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    images = torch.tensor(load_digits().images[:60], dtype=torch.float32) / 16
    (tmp_path / "paper").mkdir()
    for i, image in enumerate(images):  # dark ink on white paper, larger than the model reads
        ink = Image.fromarray((255 - image * 255).round().numpy().astype(np.uint8))
        ink = ink.resize((64, 64), Image.Resampling.NEAREST)
        ink.save(tmp_path / "paper" / f"{i:02}.png")
    with torch.no_grad():
        expected = run.model(images[:, None]).argmax(-1)
    told = [int(a["label"]) for a in run.predict(tmp_path / "paper")]
    assert (torch.tensor(told) == expected).sum() >= 58, "but for rounding"
    assert len(expected.unique()) > 3
