"""Fine-tuning: the head first, and learning rates layer by layer."""

from __future__ import annotations

import pytest
import torch

from edgewise import models
from edgewise.app.train import (
    Batch,
    Loader,
    OptimizerSettings,
    RunFolder,
    TextClassification,
    TrainerSettings,
    fit,
)
from edgewise.layers import ClassificationHead, TextClassifier, Tokens
from tests.errors import refused

pytest.importorskip("lightning")


def classifier() -> TextClassifier:
    torch.manual_seed(0)
    trunk = models.bert(20, width=8, depth=3, heads=2, ffn_dim=8, max_length=8, dropout=0.0)
    return TextClassifier(trunk, ClassificationHead(8, 2, dropout=0.0))


def test_rates_fall_from_the_head_to_the_embedding():
    model = classifier()
    built = OptimizerSettings(lr=1.0, weight_decay=0.1, layer_decay=0.5).build(model)
    rate_of = {id(p): group["lr"] for group in built.param_groups for p in group["params"]}
    rates = {name: rate_of[id(p)] for name, p in model.named_parameters()}
    wanted = {"head.": 1.0, "trunk.embedding.": 1 / 16}
    wanted |= {f"trunk.backbone.stack.layers.{i}.": 0.5 ** (3 - i) for i in range(3)}
    for name, rate in rates.items():
        assert [value for start, value in wanted.items() if name.startswith(start)] == [rate], name
    assert len(OptimizerSettings(lr=1.0).build(model).param_groups) == 1


@pytest.mark.parametrize(
    "model",
    ["adaptive_span", "bigbird", "linformer", "longformer", "lstm", "performer", "reformer"],
)
def test_layers_of_every_reader_have_rates_of_their_own(model):
    trunk = getattr(models, model)(20, width=8, depth=2)
    built = OptimizerSettings(lr=1.0, layer_decay=0.5).build(
        TextClassifier(trunk, ClassificationHead(8, 2, dropout=0.0))
    )
    assert {group["lr"] for group in built.param_groups} == {1.0, 0.5, 0.25, 0.125}


def test_rates_that_cannot_be():
    for factor in (0.0, 1.5, float("nan")):
        with refused("optimizer.layer_decay", expected="at most 1", got=repr(factor), remedy="0.9"):
            OptimizerSettings(layer_decay=factor)
    with refused(
        "optimizer.layer_decay", expected="a text model", got="0.5", remedy="layer_decay to 1"
    ):
        OptimizerSettings(layer_decay=0.5).build(torch.nn.Linear(2, 2))


def trained(tmp_path, model, epochs, **settings):
    batch = Batch((Tokens(torch.arange(8).view(2, 4)),), torch.tensor([0, 1]))
    fit(
        model,
        TextClassification(),
        {name: Loader(lambda _: batch, 2, 2) for name in ("train", "val", "test")},
        RunFolder(tmp_path),
        optimizer=OptimizerSettings(lr=1e-2, weight_decay=0.1),
        trainer=TrainerSettings(
            epochs=epochs, monitor="train/loss", mode="min", accelerator="cpu", **settings
        ),
    )
    return model.state_dict()


def test_the_trunk_stays_until_the_head_has_been_trained(tmp_path):
    before = classifier().state_dict()
    for epochs, still in ((2, True), (3, False)):
        after = trained(tmp_path / str(epochs), classifier(), epochs, freeze_backbone_epochs=2)
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert "head.output.weight" in changed
        assert any(name.startswith("trunk.") for name in changed) is not still


@pytest.mark.slow
def test_what_was_frozen_before_training_stays_frozen(tmp_path):
    for epochs in (1, 3):
        model = classifier()
        model.trunk.embedding.requires_grad_(False)
        trained(tmp_path / str(epochs), model, epochs, freeze_backbone_epochs=2)
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        assert frozen == {n for n, _ in model.named_parameters() if n.startswith("trunk.emb")}


def test_a_model_without_a_head_is_refused(tmp_path):
    with refused(
        "trainer.freeze_backbone_epochs",
        expected="a separate head",
        got="Sequential",
        remedy="to 0",
    ):
        trained(tmp_path, torch.nn.Sequential(torch.nn.Linear(2, 2)), 1, freeze_backbone_epochs=1)
