"""Runs on texts: the tokenizer stays with them, and they start from one another."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import DataLoader

import edgewise
from edgewise import models
from edgewise._utils.errors import Interrupted, MissingDataError, RunExistsError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.language import (
    LanguageModeling,
    MaskedLanguageModeling,
    MaskedText,
    TextFiles,
)
from edgewise.app.kinds.texts import TextTable
from edgewise.app.runs import evaluate_run, from_record, to_record, train, train_seeds, with_values
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import (
    Batch,
    CosineSchedule,
    OptimizerSettings,
    Recipe,
    RunFolder,
    TextClassification,
    TrainerSettings,
    fit,
)
from edgewise.app.train.text.tokenizer import TOKENIZER, train_tokenizer, vocabulary_hash
from edgewise.layers import Tokens
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")

TEXT = "the a cat dog mat sat ran on over under red blue big good bad film"
WORDS = TEXT.split()
SIZES = {"width": 8, "depth": 1, "heads": 2, "ffn_dim": 16, "max_length": 16}


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("texts")
    for name, count in (("train", 80), ("val", 20), ("test", 20)):
        lines = sentences(count, len(name))
        labelled = "".join(f"{line}\t{int('good' in line)}\n" for line in lines)
        (folder / f"{name}.tsv").write_text(labelled)
    (folder / "text.txt").write_text("\n".join(sentences(200, 9)))
    return {path.stem: str(path) for path in folder.iterdir()}


def language(files: dict[str, str], **values: object) -> Recipe:
    return with_values(
        Recipe(
            name="language",
            summary="",
            model=partial(models.gpt, **SIZES, dropout=0.2),
            data=TextFiles(paths=(files["text"],), kind="words", context=12, batch_size=8),
            task=LanguageModeling(),
            optimizer=OptimizerSettings(lr=1e-2),
            schedule=CosineSchedule(),
            trainer=TrainerSettings(
                epochs=2, monitor="val/loss", mode="min", accelerator="cpu", save_every=0
            ),
        ),
        values,
    )


def labels(files: dict[str, str], **values: object) -> Recipe:
    named = {"path": "train", "val_path": "val", "test_path": "test"}
    three = {field: files[name] for field, name in named.items()}
    recipe = language(files)
    return with_values(
        replace(
            recipe,
            name="labels",
            data=TextTable(**three, kind="words", vocab_size=None, batch_size=8),
            task=TextClassification(),
        ),
        values,
    )


@pytest.fixture(scope="module")
def pretrained(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pretrained"
    # The tokens that sentences need; a label's run will use this vocabulary.
    special = ("pad", "unk", "cls", "sep", "eos")
    text = Path(files["text"]).read_text()
    tokenizer = train_tokenizer([text], "words", special=special)
    (folder.parent / TOKENIZER).write_text(tokenizer.to_str())
    train(language(files, **{"data.tokenizer": str(folder.parent / TOKENIZER)}), folder)
    return folder


def test_a_model_that_reads_ahead_is_refused_before_anything_is_trained(
    files: dict[str, str], tmp_path: Path
) -> None:
    recipe = language(files, **{"model.graph": "window(2)"})
    with refused("model", expected="a causal model", got="token 2", remedy="gpt"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    example = Batch((Tokens(torch.arange(8), torch.tensor([8])),), torch.arange(8))
    loader = DataLoader([example], batch_size=None)  # type: ignore[arg-type, var-annotated]
    net = LanguageModeling().complete(models.bert(11, **SIZES), {"longest_text": 8})
    with refused("model", expected="a causal model", got="token 2", remedy="gpt"):
        fit(
            net,
            LanguageModeling(),
            dict.fromkeys(("train", "val", "test"), loader),
            RunFolder(tmp_path / "fitted"),
            optimizer=OptimizerSettings(),
            trainer=TrainerSettings(epochs=1, monitor="val/loss", accelerator="cpu"),
        )


def test_the_tokenizer_is_kept_and_the_run_tested_with_it(pretrained: Path) -> None:
    run = RunFolder(pretrained)
    assert run.has(TOKENIZER)
    record = run.read_json("recipe.json")
    assert record["vocabulary"] == vocabulary_hash(data_tokenizer(pretrained))
    metrics = run.read_json("metrics.json")
    (pretrained.parent / TOKENIZER).rename(pretrained.parent / "gone.json")  # the run has its own
    try:
        again = evaluate_run(pretrained)
    finally:
        (pretrained.parent / "gone.json").rename(pretrained.parent / TOKENIZER)
    assert again["test/loss"] == metrics["test/loss"]
    assert again["test/bits"] == pytest.approx(metrics["test/loss"] / 0.693147, rel=1e-4)


def data_tokenizer(folder: Path) -> object:
    from edgewise.app.train.text.tokenizer import load_tokenizer

    return load_tokenizer(folder)


def test_another_tokenizer_in_the_folder_is_refused(pretrained: Path) -> None:
    kept = (pretrained / TOKENIZER).read_text()
    other = train_tokenizer([" ".join(reversed(WORDS))], "words", special=("pad", "unk"))
    (pretrained / TOKENIZER).write_text(other.to_str())
    try:
        with refused(
            "data.tokenizer, data.paths", expected="trained with", got=TOKENIZER, remedy="correct"
        ):
            evaluate_run(pretrained)
    finally:
        (pretrained / TOKENIZER).write_text(kept)


def test_fine_tuning_starts_from_the_trunk_and_keeps_the_vocabulary(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    still = {"from": str(pretrained), "optimizer.lr": 0.0, "trainer.epochs": 1}
    train(labels(files, **still), tmp_path / "run")
    before, after = (load_file(RunFolder(p).weights) for p in (pretrained, tmp_path / "run"))
    carried = [name for name in after if name.startswith("trunk.")]
    assert len(carried) > 10
    for name in carried:
        assert torch.equal(after[name], before[name]), name
    assert (tmp_path / "run" / TOKENIZER).read_text() == (pretrained / TOKENIZER).read_text()
    record = RunFolder(tmp_path / "run").read_json("recipe.json")
    assert record["from"] == str(pretrained)
    assert from_record(record).start == str(pretrained)


@pytest.mark.slow
def test_a_fine_tuning_that_was_broken_is_continued_to_the_same_weights(
    pretrained: Path, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = labels(files, **{"from": str(pretrained)})
    train(recipe, tmp_path / "whole")
    broken(recipe, tmp_path / "run", 3, monkeypatch)
    assert same(tmp_path / "whole", tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 2, 7])
def test_a_pre_training_that_was_broken_is_continued_to_the_same_weights(
    step: int, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked = replace(
        language(files),
        model=partial(models.bert, **SIZES, dropout=0.2),
        task=MaskedLanguageModeling(),
        data=MaskedText(
            sources=(),
            paths=(files["text"],),
            test_paths=(files["text"],),
            kind="words",
            vocab_size=None,
            context=12,
            val=0.1,
            windows=40,
            batch_size=8,
        ),
    )
    train(masked, tmp_path / "whole")
    broken(masked, tmp_path / "run", step, monkeypatch)
    assert same(tmp_path / "whole", tmp_path / "run")


def broken(recipe: Recipe, folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, break at a step, and continue."""
    from edgewise.app.train import TrainingModule

    monkeypatch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)
    original, done = TrainingModule.training_step, []

    def training_step(self: TrainingModule, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == step and not done:
            done.append(step)
            raise KeyboardInterrupt
        return original(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", training_step)
    with pytest.raises(Interrupted):
        train(recipe, folder)
    train(recipe, folder, resume=True)


def same(folder: Path, other: Path) -> bool:
    one, two = (load_file(RunFolder(path).weights) for path in (folder, other))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_a_trunk_of_other_sizes_is_refused_by_the_fields_that_differ(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    start = {"from": str(pretrained)}
    other = labels(files, **start, **{"model.depth": 2, "model.ffn_dim": 24, "model.dropout": 0.1})
    with refused(
        "--from",
        expected=f"the model of {pretrained}, a run of the recipe language with the model gpt",
        got="model.depth 2, model.ffn_dim 24",
        remedy="choose --model.depth 1 --model.ffn_dim 16",
    ):
        train(other, tmp_path / "run")
    with refused(
        "--from",
        expected="a run of the recipe language with the model gpt",
        got="llama in the recipe labels",
        remedy="choose --model gpt",
    ):
        train(labels(files, **start, model="llama"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_fine_tuning_has_the_architecture_of_the_run(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, tuned = tmp_path / "begun", tmp_path / "tuned"
    text = ["--data.sources", "", "--data.paths", files["text"], "--data.test_paths", files["text"]]
    small = ["--model.width", "8", "--model.heads", "2", "--trainer.epochs", "1"]
    assert main(["train", "bert-wikitext", *text, *small, "--out", str(begun)]) == 0
    rows = [line.replace("\t", ",") for line in Path(files["train"]).read_text().splitlines()]
    (tmp_path / "table.csv").write_text("\n".join(["text,label", *rows]))
    table = ["--data.path", str(tmp_path / "table.csv")]
    start = ["--from", str(begun), "--model.dropout", "0.3", "--trainer.epochs", "1"]
    command = ["train", "texts", *table, *start, "--out", str(tuned)]
    # Neither encoding has weights, so the weights alone would fit.
    assert main([*command, "--model.positions", "sinusoidal"]) == 2
    said = capsys.readouterr().err
    assert "`model.positions`: expected rotary, the position encoding of the run" in said
    assert not tuned.exists()
    assert main(command) == 0
    found = RunFolder(tuned).read_json("recipe.json")["model"]
    wanted = {"width": 8, "positions": "rotary", "init_std": 0.06}
    assert {name: found[name] for name in wanted} == wanted
    assert (found["dropout"], found["graph"]) == (0.3, "complete()"), "those of the recipe"
    shutil.rmtree(begun)
    assert main([*command, "--resume"]) == 0, "a run that has begun does not need the first one"


def test_a_start_of_a_model_of_another_kind_is_refused_in_words(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    start = {"from": str(pretrained)}
    with refused(
        "--from",
        expected="a model for whole graphs, like the model gps of the recipe gps-esol",
        got="a run of the recipe language with the model gpt for text",
        remedy="omit --from",
    ):
        train(with_values(find("gps-esol"), start), tmp_path / "run")
    (tmp_path / "recipe.json").write_text('{"recipe": "mine", "model": {"use": "gcn"}}')
    (tmp_path / "model.safetensors").touch()
    with refused("--from", expected="for text", got="mine with the model gcn", remedy="for text"):
        train(labels(files, **{"from": str(tmp_path)}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_of_ones_own_starts_from_a_run_by_its_weights(
    pretrained: Path, files: dict[str, str]
) -> None:
    @wraps(models.gpt)
    def mine(*sizes: Any, **options: Any) -> torch.nn.Module:
        return models.gpt(*sizes, **options)

    mine.__name__ = "mine"
    recipe = labels(files, **{"from": str(pretrained)})
    own = replace(recipe, model=partial(mine, **recipe.model.keywords))
    model, _splits = prepare(own)
    before = load_file(RunFolder(pretrained).weights)
    shared = [name for name in model.state_dict() if name in before]
    assert shared
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in shared)


def test_another_vocabulary_is_refused(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    special = ("pad", "unk", "cls", "sep", "eos")
    other = train_tokenizer([" ".join(sorted(WORDS))], "words", special=special)
    (tmp_path / TOKENIZER).write_text(other.to_str())
    recipe = labels(files, **{"from": str(pretrained), "data.tokenizer": str(tmp_path)})
    with refused("data.tokenizer", expected="of the run in", got="the hash", remedy="omitting"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_runs_that_cannot_be_started_from(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(MissingDataError, match="no such file"):
        train(labels(files, **{"from": str(tmp_path / "none")}), tmp_path / "run")
    before = sorted(path.name for path in pretrained.iterdir())
    with pytest.raises(RunExistsError):
        train(labels(files, **{"from": str(pretrained)}), pretrained)
    assert sorted(path.name for path in pretrained.iterdir()) == before


def test_several_seeds_write_nothing_where_they_cannot_start(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(MissingDataError, match="no such file"):
        train_seeds(labels(files, **{"from": str(tmp_path / "none")}), 2, out)
    assert not out.exists()
    with pytest.raises(ValueError, match=r"model\.depth 2"):
        train_seeds(labels(files, **{"from": str(pretrained), "model.depth": 2}), 2, out)
    assert not out.exists()
    tokenizer = train_tokenizer([" ".join(sorted(WORDS))], "words", special=("pad", "unk", "cls"))
    (tmp_path / TOKENIZER).write_text(tokenizer.to_str())
    recipe = labels(files, **{"from": str(pretrained), "data.tokenizer": str(tmp_path)})
    with refused("data.tokenizer", expected="of the run in", got="the hash", remedy="omitting"):
        train_seeds(recipe, 2, out)
    assert not out.exists()


@pytest.mark.slow
def test_a_folder_of_seeds_names_one_of_them(files: dict[str, str], tmp_path: Path) -> None:
    several = tmp_path / "several"
    train_seeds(language(files, **{"trainer.epochs": 1, "seed": 9}), 2, several)
    wanted = {"expected": "one run", "got": "seed-9 to seed-10", "remedy": f"{several}/seed-9"}
    with refused(str(several), **wanted):
        edgewise.load(several)
    with refused(str(several), **wanted):
        train(labels(files, **{"from": str(several)}), tmp_path / "run")


def test_another_number_of_heads_is_refused(
    pretrained: Path, files: dict[str, str], tmp_path: Path
) -> None:
    other = labels(files, **{"from": str(pretrained), "model.heads": 4})
    with refused(
        "model.heads",
        expected="2, the number of heads of the run",
        got="4",
        remedy="--model.heads 2",
    ):
        train(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_record_without_a_start_is_that_of_old_runs(files: dict[str, str]) -> None:
    record = json.loads(json.dumps(to_record(language(files))))
    del record["from"]
    assert to_record(from_record(record)) == to_record(language(files))
