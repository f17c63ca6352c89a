"""A run of translation, from files to texts in the other language."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise import models
from edgewise.app.cli import main
from edgewise.app.kinds.translation import Parallel, Translation
from edgewise.app.runs import train
from edgewise.app.train import CosineSchedule, OptimizerSettings, Recipe, RunFolder, TrainerSettings
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")
pytest.importorskip("sacrebleu")

pytestmark = pytest.mark.slow

WORDS = {"the": "die", "cat": "Katze", "dog": "Hund", "sat": "saß", "ran": "lief", "on": "auf"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dictionary, learned; what is tested is in ``test.en`` and ``test.de``."""
    torch.set_num_threads(1)
    folder, draw = tmp_path_factory.mktemp("parallel"), random.Random(0)
    for name, count in (("train", 200), ("val", 20), ("test", 20)):
        texts = [draw.choices(list(WORDS), k=draw.randint(1, 4)) for _ in range(count)]
        (folder / f"{name}.en").write_text("\n".join(" ".join(text) for text in texts))
        german = [" ".join(WORDS[word] for word in text) for text in texts]
        (folder / f"{name}.de").write_text("\n".join(german))
    recipe = Recipe(
        name="dictionary",
        summary="",
        model=partial(models.transformer, width=32, depth=1, heads=2, ffn_dim=32, dropout=0.0),
        data=Parallel(folder=str(folder), vocab_size=60, batch_size=200),
        task=Translation(num_beams=2),
        optimizer=OptimizerSettings("adam", lr=5e-3),
        schedule=CosineSchedule(warmup=0.1),
        trainer=TrainerSettings(epochs=30, monitor="val/loss", mode="min", accelerator="cpu"),
    )
    assert train(recipe, folder / "run")["test/bleu"] > 50
    return folder / "run"


def test_texts_become_what_was_measured(run: Path) -> None:
    from sacrebleu import metrics

    texts, wanted = ((run.parent / f"test.{end}").read_text().split("\n") for end in ("en", "de"))
    found = [answer["translation"] for answer in edgewise.load(run).predict(texts)]
    measured = RunFolder(run).read_json("metrics.json")["test/bleu"]
    score = metrics.BLEU().corpus_score(found, [wanted]).score
    assert score == pytest.approx(measured, abs=1e-4)


def test_answers_keep_the_order_of_the_inputs(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["the cat", "", "dog", "  ", "the dog sat on the cat"]
    loaded = edgewise.load(run)
    assert [answer.get("error", "")[:7] for answer in loaded.predict(texts)] == [
        "",
        "`input`",
        "",
        "`input`",
        "",
    ]
    alone = [loaded.predict(text)[0].get("translation", "") for text in texts]
    assert alone[0].startswith("die Katze")
    together = [answer.get("translation", "") for answer in loaded.predict(texts, batch_size=2)]
    assert together == alone
    assert loaded.predict([]) == []
    assert main(["predict", str(run), "the cat", "dog"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == [alone[0], alone[2]]


def test_a_line_that_cannot_be_translated_is_named_and_the_others_are(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text(f"the cat\n{'the cat ' * 500}\ndog\n")
    assert main(["predict", str(run), "--input", str(lines)]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert "line 2 of lines.txt: `input`: expected a text of at most" in printed.err


def test_beams_and_tokens_are_options(run: Path) -> None:
    loaded = edgewise.load(run)
    texts = ["the cat sat on the dog"]
    (short,) = loaded.predict(texts, max_new_tokens=2)
    (whole,) = loaded.predict(texts, num_beams=1)
    assert whole["translation"].startswith(short["translation"])
    assert 0 < len(short["translation"]) < len(whole["translation"])
    with refused("num_beams", expected="at least 1", got="0", remedy="5"):
        loaded.predict(texts, num_beams=0)
    with refused("option", expected="num_beams", got="'beam'", remedy="did you mean 'num_beams'"):
        loaded.predict(texts, beam=3)


def test_a_text_far_longer_than_any_of_training_is_named_at_once(run: Path) -> None:
    """Its translation would take as many steps as it has tokens, each over all of them."""
    loaded = edgewise.load(run)
    longest = loaded.predictor.preprocessing.values["longest"]
    long, good = loaded.predict(["the cat " * 5 * longest, "the cat"])
    assert f"at most {4 * longest} tokens" in long["error"]
    assert good["translation"]


class Counting:
    """A tokenizer that keeps what it was asked to read."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.read = tokenizer, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
        self.read += [text for text in texts if text]
        return self.tokenizer.encode_batch_fast(texts, **options)


def test_a_text_is_made_tokens_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, texts = edgewise.load(run), ["the cat", "a dog"]
    counting = Counting(loaded.predictor.tokenizer)
    wanted = loaded.predict(texts)
    monkeypatch.setattr(loaded.predictor, "tokenizer", counting)
    assert loaded.predict(texts) == wanted
    assert counting.read == texts
