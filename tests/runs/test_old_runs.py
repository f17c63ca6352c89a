"""Run folders that were written with the old names of fields, arguments and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import models
from edgewise.data.text.tokenizer import TOKENIZER, train_tokenizer, vocabulary_hash
from edgewise.layers import Tokens
from edgewise.recipes import Recipe
from edgewise.runs import evaluate_run, load_recipe, to_record, train, with_values
from edgewise.training import RunFolder
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")

WORDS = "a cat sat on the mat and the dog ran under it".split()  # noqa: SIM905
RECORD: dict[str, Any] = {
    "edgewise": "0.1.0",
    "recipe": "mine",
    "summary": "",
    "model": {
        **{"use": "gpt", "width": 8, "depth": 1, "heads": 2, "feed_forward": 12, "length": 20},
        **{"act": "gelu", "score": "dot", "normaliser": "softmax", "projections": "full"},
        **{"epsilon": 1e-5, "dropout": 0.0, "graph": "causal()"},
    },
    "data": {
        **{"use": "text_files", "kind": "words", "vocabulary_size": None, "lowercase": False},
        **{"tokenizer": "", "batch_size": 4, "context": 12, "windows": 8, "stride": 6},
        **{"consecutive": False},
    },
    "task": {"use": "language_modeling"},
    "optimizer": {
        **{"name": "adamw", "lr": 0.01, "beta2": 0.99, "weight_decay": 0.1},
        **{"decay_only": "", "layer_decay": 1.0},
    },
    "schedule": {"use": "cosine", "warmup": 0.1, "floor": 0.1},
    "trainer": {
        **{"epochs": 1, "patience": 0, "monitor": "val/loss", "better": "lower", "average": 0.0},
        **{"average_last": 1, "accumulate": 2, "precision": "32", "head_first": 0},
        **{"clip_norm": 1.0, "accelerator": "cpu", "devices": 1, "save_every": 5.0},
    },
    "seed": 3,
    "from": "",
}
"""``recipe.json`` of a run with the old names, without the paths of its texts."""
NEW = {
    **{"model.ffn_dim": 12, "model.max_length": 20, "data.vocab_size": None},
    **{"trainer.mode": "min", "trainer.ema_decay": 0.0, "trainer.average_last_epochs": 1},
    **{"trainer.accumulate_grad_batches": 2, "trainer.freeze_backbone_epochs": 0},
}
"""Fields of the recipe that were renamed, with their values."""


def old_name(parameter: str) -> str:
    return parameter.replace("backbone.", "reader.")


def old_run(path: Path) -> tuple[RunFolder, nn.Module]:
    """Write a run folder with the old names, and return it with the model that it contains."""
    path.mkdir()
    (path / "text.txt").write_text(" ".join(WORDS * 40))
    tokenizer = train_tokenizer([" ".join(WORDS)], "words", special=("pad", "unk"))
    (path / TOKENIZER).write_text(tokenizer.to_str())
    own = {"paths": [str(path / "text.txt")], "val": 0.2, "test": 0.2}
    record = {**RECORD, "vocabulary": vocabulary_hash(tokenizer)}
    record["data"] = {**RECORD["data"], **own}
    (path / "recipe.json").write_text(json.dumps(record))
    size = tokenizer.get_vocab_size()
    sizes = {"vocabulary": size, "longest": 12}
    fitted = {"model_arguments": sizes, "target_scale": None, "values": {}, "tensors": []}
    (path / "fitted.json").write_text(json.dumps(fitted))
    torch.manual_seed(1)
    model = models.gpt(size, width=8, depth=1, heads=2, ffn_dim=12, max_length=20)
    weights = {old_name(f"trunk.{name}"): x for name, x in model.state_dict().items()}
    assert any(".reader." in name for name in weights)
    run = RunFolder(path)
    run.write_weights(weights)
    (path / "metrics.json").write_text(json.dumps({"test/loss": 1.0}))
    return run, model


def weights_of(run: RunFolder) -> dict[str, Tensor]:
    return {name.replace("reader.", "backbone."): x for name, x in run.read_weights().items()}


def test_fields_and_values_of_an_old_recipe_are_read(tmp_path: Path) -> None:
    run, _ = old_run(tmp_path / "old")
    record = to_record(load_recipe(run))
    assert {name: record[name.split(".")[0]][name.split(".")[1]] for name in NEW} == NEW


def test_an_old_run_answers_with_its_weights(tmp_path: Path) -> None:
    run, model = old_run(tmp_path / "old")
    loaded = ew.load(run.path)
    assert loaded.model.trunk.embedding.positions.table.shape == (20, 8)  # not the 12 of its texts
    ids = torch.arange(12)
    tokens = Tokens(ids, torch.tensor([12]))
    torch.testing.assert_close(loaded.model(tokens), model.eval().logits(model(ids)))
    (answer,) = loaded.predict(["a cat"], max_new_tokens=3, temperature=0)
    assert answer["text"].startswith("a cat ")


def test_an_old_run_is_evaluated(tmp_path: Path) -> None:
    run, _ = old_run(tmp_path / "old")
    loss = evaluate_run(run.path)["test/loss"]
    assert 1 < loss < 10
    weights = run.read_weights()
    run.write_weights({name: 0 * x for name, x in weights.items()})
    assert evaluate_run(run.path)["test/loss"] != loss


def fine_tuning(run: RunFolder, **values: object) -> Recipe:
    return with_values(load_recipe(run), {"from": str(run.path), **values})


def test_training_starts_from_the_weights_of_an_old_run(tmp_path: Path) -> None:
    run, _ = old_run(tmp_path / "old")
    train(fine_tuning(run, **{"optimizer.lr": 0.0}), tmp_path / "new")
    after, before = RunFolder(tmp_path / "new").read_weights(), weights_of(run)
    assert after.keys() == before.keys()
    assert all(after[name].equal(before[name]) for name in before)


def test_an_old_run_with_other_sizes_is_refused_with_the_new_names(tmp_path: Path) -> None:
    run, _ = old_run(tmp_path / "old")
    recipe = fine_tuning(run, **{"model.ffn_dim": 24})
    with refused("--from", expected="gpt", got="model.ffn_dim 24", remedy="--model.ffn_dim 12"):
        train(recipe, tmp_path / "new")
