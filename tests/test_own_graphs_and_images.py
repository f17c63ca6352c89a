"""What the pages on users, graphs, images, sounds and tables of the reader say is run as it is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from edgewise.app.cli import main
from edgewise.app.kinds.tables import Shop

pytest.importorskip("lightning")
DOCS = Path(__file__).parent.parent / "docs/howto"


def ratings() -> None:
    people = ["ann", "bob", *(f"u{i}" for i in range(20))]
    rows = [f"{user},film {(7 * i + k) % 30}" for i, user in enumerate(people) for k in range(9)]
    Path("ratings.csv").write_text("\n".join(["user,item", *rows]))
    Path("users.csv").write_text("user\nann\nu3\n")


def graph() -> None:
    random = np.random.default_rng(0)
    rows = [f"p{i},{'law' if i % 2 else 'art'},{i % 5},{random.normal():.3f}" for i in range(40)]
    pairs = [f"p{i},p{(i + 2 * k) % 40}" for i in range(40) for k in range(1, 4)]
    Path("new").mkdir()
    for folder in (Path(), Path("new")):
        (folder / "nodes.csv").write_text("\n".join(["paper,topic,pages,age", *rows]))
        (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]))
    houses = [f"h{i},{50 + i},{i + random.normal():.2f}" for i in range(120)]
    Path("houses.csv").write_text("\n".join(["house,area,price", *houses]))
    near = [f"h{i},h{(i + k) % 120}" for i in range(120) for k in (1, 2)]
    Path("near.csv").write_text("\n".join(["source,target", *near]))
    Path("friends.csv").write_text("\n".join(["source,target", *pairs]))
    # Forty graphs of three nodes: class 1 is a triangle, class 2 a chain.
    rings = [f"{3 * g + a}, {3 * g + b}" for g in range(0, 40, 2) for a, b in ((1, 3), (3, 1))]
    steps = ((1, 2), (2, 1), (2, 3), (3, 2))
    chains = [f"{3 * g + a}, {3 * g + b}" for g in range(40) for a, b in steps]
    files = {
        "A": rings + chains,
        "graph_indicator": [g + 1 for g in range(40) for _ in range(3)],
        "graph_labels": [g % 2 + 1 for g in range(40)],
        "node_labels": [7, 8, 7] * 40,
    }
    Path("MINE/raw").mkdir(parents=True)
    for name, lines in files.items():
        Path(f"MINE/raw/MINE_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")
    chain = {"edges": [[0, 1], [1, 2]], "node_labels": [7, 8, 7]}
    Path("new.jsonl").write_text("\n".join([json.dumps(chain)] * 3))


def images() -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("images/cat", "images/dog", "new"):
        Path(name).mkdir(parents=True)
        for i in range(20):
            color = (200 if name.endswith("cat") else 9, 5 * i, 40)
            for end in ("jpg", "png") if name == "new" else ("jpg",):
                image.new("RGB", (40, 30), color).save(f"{name}/{i}.{end}")


def sounds() -> None:
    wavfile = pytest.importorskip("scipy.io.wavfile")
    random = np.random.default_rng(0)
    for name in ("recordings/bark", "recordings/purr", "new"):
        Path(name).mkdir(parents=True)
        for i in range(20):
            tone = np.sin(np.arange(2000) * (1 if name.endswith("bark") else 0.1))
            wavfile.write(f"{name}/{i}.wav", 8000, tone + random.normal(size=2000))


def tables() -> None:
    for seed, name in enumerate(("shop", "new")):
        Shop(customers=60, shop_seed=seed).write(name)


@pytest.mark.slow(
    *("recommendation.md-ratings", "nodes_and_links.md-graph", "sounds.md-sounds"),
    "tables.md-tables",
)
@pytest.mark.parametrize(
    ("page", "files"),
    [
        ("recommendation.md", ratings),
        ("nodes_and_links.md", graph),
        ("images.md", images),
        ("sounds.md", sounds),
        ("tables.md", tables),
    ],
)
def test_a_page_from_a_file_to_a_prediction(page, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    files()
    text = (DOCS / page).read_text()
    few = ["--trainer.epochs", "1", "--trainer.accelerator", "cpu"]
    # Commands after those that need the network are left out.
    commands = re.findall(r"```sh\n(edgewise .*?)```", text, re.DOTALL)
    for line in "".join(commands).splitlines():
        words = shlex.split(line)[1:]
        assert main([*words, *(few if words[0] == "train" else [])]) == 0, line
    assert Path("answers.csv").read_text().count("\n") > 2
    capsys.readouterr()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.strip()
