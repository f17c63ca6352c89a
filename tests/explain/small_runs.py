"""Small trained runs of several kinds."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgewise import models
from edgewise.app.kinds import find
from edgewise.app.kinds.graphs import TU
from edgewise.app.kinds.language import MaskedText
from edgewise.app.kinds.tables import Shop
from edgewise.app.kinds.texts import TextTable
from edgewise.app.kinds.translation import Parallel, Translation
from edgewise.app.runs import train, with_values
from edgewise.app.train import (
    CosineSchedule,
    OptimizerSettings,
    Recipe,
    TextClassification,
    TrainerSettings,
)

WORDS = "the a cat dog mat sat ran on over under red blue big small old film".split()  # noqa: SIM905
GERMAN = {"the": "die", "cat": "Katze", "dog": "Hund", "sat": "saß", "ran": "lief", "on": "auf"}


def trained(
    folder: Path, model: Any, source: Any, task: Any, epochs: int = 1, **sizes: Any
) -> Path:
    """Train a small model, and return its run folder."""
    torch.set_num_threads(1)
    recipe = Recipe(
        name="small",
        summary="",
        model=partial(model, **sizes),
        data=source,
        task=task,
        optimizer=OptimizerSettings(lr=1e-2),
        schedule=CosineSchedule(),
        trainer=TrainerSettings(epochs=epochs, monitor="val/loss", mode="min", accelerator="cpu"),
    )
    train(recipe, folder / "run")
    return folder / "run"


def sentences(folder: Path, **changes: Any) -> Path:
    """Train a classifier of sentences: those with the word "big" are praise."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    texts = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(300)]
    with (folder / "mine.csv").open("w", newline="") as file:
        rows = [("praise" if "big" in text else "blame", " ".join(text)) for text in texts]
        csv.writer(file).writerows([("verdict", "opinion"), *rows])
    table = TextTable(path=str(folder / "mine.csv"), kind="words", vocab_size=None)
    sizes = {"width": 16, "depth": 2, "heads": 4, "ffn_dim": 32, "max_length": 64, "dropout": 0.0}
    task = TextClassification(pool="max")
    return trained(folder, models.bert, table, task, epochs=6, **sizes | changes)


def translations(
    folder: Path, epochs: int = 1, model: Any = models.transformer, **changes: Any
) -> Path:
    """Train a translator of a few words."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for name, count in (("train", 40), ("val", 8), ("test", 8)):
        texts = [draw.choices(list(GERMAN), k=draw.randint(1, 4)) for _ in range(count)]
        (folder / f"{name}.en").write_text("\n".join(" ".join(text) for text in texts))
        german = [" ".join(GERMAN[word] for word in text) for text in texts]
        (folder / f"{name}.de").write_text("\n".join(german))
    parallel = Parallel(folder=str(folder), vocab_size=60, batch_size=200)
    sizes = {"width": 16, "depth": 1, "heads": 2, "ffn_dim": 16, "dropout": 0.0}
    task = Translation(num_beams=2)
    return trained(folder, model, parallel, task, epochs, **sizes | changes)


def of_recipe(name: str, folder: Path, **values: Any) -> Path:
    """Train a recipe for one epoch, with values by field; ``__`` stands for a point."""
    fast = {"trainer.accelerator": "cpu", "trainer.epochs": 1, "trainer.save_every": 0}
    given = {field.replace("__", "."): value for field, value in values.items()}
    train(with_values(find(name), fast | given), folder / "run")
    return folder / "run"


SMALL = {"model__width": 8, "model__depth": 1}
HEADS = {**SMALL, "model__heads": 2}


def tags(folder: Path) -> Path:
    """Train a tagger of words."""
    lines = [f"{word} {'NOUN' if word in GERMAN else 'WORD'}" for word in WORDS]
    (folder / "mine.conllu").write_text("\n\n".join(["\n".join(lines)] * 12) + "\n")
    return of_recipe("tags", folder, data__path=str(folder / "mine.conllu"), **HEADS)


def hidden_words(folder: Path) -> Path:
    """Train a model of masked words."""
    (folder / "mine.txt").write_text(f"{' '.join(WORDS)} .\n" * 40)
    paths = (str(folder / "mine.txt"),)
    own: dict[str, Any] = {"sources": (), "paths": paths, "test_paths": paths}
    source = MaskedText(kind="words", vocab_size=None, context=16, val=0.2, **own)
    recipe = replace(find("bert-wikitext"), data=source)
    fast = {"trainer.accelerator": "cpu", "trainer.epochs": 1, "trainer.save_every": 0}
    small = {"model.width": 8, "model.depth": 1, "model.heads": 2}
    train(with_values(recipe, fast | small), folder / "run")
    return folder / "run"


def images(folder: Path) -> Path:
    """Train a Vision Transformer on digits."""
    return of_recipe("digits", folder, **HEADS)


def sounds(folder: Path) -> Path:
    """Train a classifier of tones."""
    from scipy.io import wavfile

    for i in range(30):
        path = folder / "sounds" / ("low" if i % 2 else "high") / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(path, 8000, torch.arange(2000 + i).mul(0.1 if i % 2 else 1).sin().numpy())
    return of_recipe("sounds", folder, data__path=str(folder / "sounds"), **HEADS)


def nodes(folder: Path, model: str = "gat") -> Path:
    """Train a classifier of the nodes of a graph."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    rows = [f"p{i},{'law' if i % 2 else 'art'},{i % 2 + draw.gauss(0, 1):.3f}" for i in range(40)]
    (folder / "nodes.csv").write_text("\n".join(["paper,topic,length", *rows]))
    pairs = [f"p{i},p{draw.randrange(40)}" for i in range(40)]
    (folder / "edges.csv").write_text("\n".join(["citing,cited", *pairs]))
    values = {"data__nodes": str(folder / "nodes.csv"), "data__edges": str(folder / "edges.csv")}
    return of_recipe("nodes", folder, model=model, data__target="topic", **values)


def nodes_of_two_classes(folder: Path) -> Path:
    """Train a classifier of nodes with one logit for both classes."""
    from edgewise.app.files.checksums import SHA256

    raw = folder / "heterophilous" / "raw"
    raw.mkdir(parents=True)
    number = np.arange(40)
    arrays = {
        "node_features": np.stack([number % 2, number % 3], axis=1).astype("float32"),
        "node_labels": number % 2,
        "edges": np.stack([number, 7 * number % 40], axis=1),
        **{
            f"{split}_masks": np.tile(number % 5 == part, (10, 1))
            for part, split in enumerate(("val", "test", "train"))
        },
    }
    for name in ("minesweeper", "tolokers"):
        np.savez(raw / f"{name}.npz", **arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(folder))
        patch.delitem(SHA256, "heterophilous")
        return of_recipe("gcn-minesweeper", folder, **SMALL)


def whole_graphs(folder: Path) -> Path:
    """Train a classifier of graphs: chains and stars of four nodes."""
    raw = folder / "TOY" / "raw"
    raw.mkdir(parents=True)
    pairs, labels = [], []
    for number in range(24):
        edges = [(0, 1), (0, 2), (0, 3)] if number % 2 else [(0, 1), (1, 2), (2, 3)]
        pairs += [f"{4 * number + a + 1}, {4 * number + b + 1}" for a, b in edges]
        pairs += [f"{4 * number + b + 1}, {4 * number + a + 1}" for a, b in edges]
        labels.append(number % 2)
    files = {
        "A": pairs,
        "graph_indicator": [number // 4 + 1 for number in range(96)],
        "node_labels": [number % 2 for number in range(96)],
        "graph_labels": labels,
    }
    for name, lines in files.items():
        (raw / f"TOY_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")
    recipe = replace(find("gat-enzymes"), data=TU(name="TOY", folds=3, val=0.2, batch_size=8))
    fast = {"trainer.accelerator": "cpu", "trainer.epochs": 2, "trainer.save_every": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(folder))
        train(with_values(recipe, fast), folder / "run")
    return folder / "run"


def series(folder: Path) -> Path:
    """Train a forecaster of 6 values from 12."""
    rows = [f"{i};{100 + i + 10 * (i % 6)}" for i in range(120)]
    (folder / "mine.csv").write_text("\n".join(["step;sold", *rows]))
    values = {"data__path": str(folder / "mine.csv"), "data__target": "sold"}
    return of_recipe("series", folder, data__history=12, data__horizon=6, **values, **HEADS)


def links(folder: Path) -> Path:
    """Train a predictor of links in two groups of friends."""
    draw = random.Random(0)
    rows = [(i, 2 * draw.randrange(20) + i % 2) for i in range(40) for _ in range(3)]
    rows = [f"m{a},m{b}" for a, b in rows if a != b]
    (folder / "mine.csv").write_text("\n".join(["from,to", *rows]))
    return of_recipe("links", folder, data__path=str(folder / "mine.csv"))


def triples(folder: Path) -> Path:
    """Train a predictor of triples of people and their towns."""
    rows = [f"p{i},lives in,t{i % 4}\np{i},knows,p{(i + 4) % 24}" for i in range(24)]
    (folder / "mine.csv").write_text("\n".join(["head,relation,tail", *rows]))
    path = str(folder / "mine.csv")
    return of_recipe("triples", folder, data__path=path, model__encoder="hgt")


def interactions(folder: Path) -> Path:
    """Train a recommender of items."""
    draw = random.Random(0)
    rows = {f"u{i % 12},i{2 * draw.randrange(9) + i % 2}" for i in range(120)}
    (folder / "mine.csv").write_text("\n".join(["user,item", *sorted(rows)]))
    return of_recipe("interactions", folder, data__path=str(folder / "mine.csv"))


def tables(folder: Path) -> Path:
    """Train a model of the customers of a shop who leave."""
    Shop(customers=60).write(folder / "shop")
    values = {"data__path": str(folder / "shop"), "data__target": "customers.churned"}
    return of_recipe("tables", folder, data__hops=1, data__children=2, **values, **HEADS)


def molecules(folder: Path) -> Path:
    """Train a model of a property of molecules."""
    smiles = ["CCO", "CCN", "c1ccccc1O", "CC(=O)O", "CCCl", "CCCC", "COC", "CC#N"]
    rows = [f"{one};{number}" for number, one in enumerate(smiles)]
    (folder / "mine.csv").write_text("\n".join(["structure;y", *rows]))
    values = {"data__path": str(folder / "mine.csv"), "data__val": 0.25, "data__target": "y"}
    return of_recipe("molecules", folder, **values, **HEADS)


def without_attention(folder: Path) -> Path:
    """Train an LSTM, which attends to nothing."""
    rows = [f"{'big' if i % 2 else 'small'} film,{i % 2}" for i in range(40)]
    (folder / "mine.csv").write_text("\n".join(["text,label", *rows]))
    source = TextTable(path=str(folder / "mine.csv"), kind="words", vocab_size=None)
    task = TextClassification()
    return trained(folder, models.lstm, source, task, width=8, depth=1)


Maker = Callable[[Path], Path]
KINDS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "sentences": (sentences, ("tokenizers",)),
    "tags": (tags, ("tokenizers",)),
    "hidden words": (hidden_words, ("tokenizers",)),
    "translations": (partial(translations, epochs=10), ("tokenizers",)),
    "images": (images, ("sklearn",)),
    "sounds": (sounds, ("scipy",)),
    "nodes": (nodes, ("torch_geometric",)),
    "nodes of two classes": (nodes_of_two_classes, ("torch_geometric",)),
    "whole graphs": (whole_graphs, ("torch_geometric",)),
    "series": (series, ()),
    "links": (links, ()),
    "triples": (triples, ()),
    "interactions": (interactions, ()),
    "tables": (tables, ()),
    "molecules": (molecules, ("rdkit",)),
    "without attention": (without_attention, ("tokenizers",)),
}
"""Functions that train a run of each kind, and the packages that they need."""
