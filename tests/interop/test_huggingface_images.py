"""Swin and masked autoencoders with Hugging Face's weights: states, logits, losses, gradients."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from edgewise import graphs
from edgewise.interop.huggingface import load
from tests.errors import refused
from tests.interop.test_huggingface import close, made

transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

SWIN = {"image_size": 24, "patch_size": 2, "embed_dim": 8, "depths": [2, 3], "num_heads": [2, 4]}
MAE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "decoder_hidden_size": 8,
    "decoder_num_hidden_layers": 1,
    "decoder_num_attention_heads": 2,
    "decoder_intermediate_size": 12,
    "image_size": 8,
    "patch_size": 2,
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("window", [3, 6, 2])
@pytest.mark.parametrize("head", ["SwinForImageClassification", "SwinModel"])
def test_swin_is_theirs(head: str, window: int, tmp_path: Path) -> None:
    config = transformers.SwinConfig(**SWIN, window_size=window, num_labels=5)
    theirs = made(lambda: getattr(transformers, head)(config))
    theirs.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 24, 24, requires_grad=True)
    out = theirs(images)
    other = out.last_hidden_state if head == "SwinModel" else out.logits
    probe = torch.randn_like(other)
    (other * probe).sum().backward()
    grad = images.grad
    tables = [p.grad for n, p in theirs.named_parameters() if n.endswith("position_bias_table")]
    for source in (theirs, tmp_path):
        images.grad = None
        ours = load(source)
        mine = ours(images)
        close(mine, other)
        (mine * probe).sum().backward()
        close(images.grad, grad)
        found = [p.grad for n, p in ours.named_parameters() if n.endswith(".table")]
        assert len(found) == len(tables) == 5
        for one, two in zip(found, tables, strict=True):
            close(one, two)


@pytest.mark.parametrize("normalised", [True, False])
def test_masked_autoencoders_are_theirs(normalised: bool, tmp_path: Path) -> None:
    config = transformers.ViTMAEConfig(**MAE, norm_pix_loss=normalised, layer_norm_eps=1e-6)
    theirs = made(lambda: transformers.ViTMAEForPreTraining(config))
    theirs.save_pretrained(tmp_path)
    images, noise = torch.randn(2, 3, 8, 8, requires_grad=True), torch.rand(2, 16)
    out = theirs(images, noise=noise)
    hidden = noise.argsort(1)[:, 4:, None].expand(-1, -1, 12)
    assert bool(out.mask.gather(1, hidden[..., 0]).all())
    out.loss.backward()
    grads, expected = images.grad, theirs.decoder.mask_token.grad[0, 0]
    for source in (theirs, tmp_path):
        images.grad = None
        ours = load(source)
        close(ours(images, noise), out.logits.gather(1, hidden))
        loss = ours.loss(images, noise)
        close(loss, out.loss)
        loss.backward()
        close(images.grad, grads)
        close(ours.hidden_token.grad, expected)


def test_a_new_autoencoder_has_their_positions_and_a_classifier() -> None:
    """Which are sinusoids, and not learned."""
    from edgewise.models import mae, vit

    ours = mae(8, 3, patch=2, width=16, decoder_width=8)
    written = transformers.models.vit_mae.modeling_vit_mae.build_2d_sinusoidal_position_embedding
    first, second = written(4, 4, 16, cls_token=True).chunk(2, -1)
    close(ours.positions.table, torch.cat([second, first], -1))  # theirs are turned later
    assert not ours.positions.table.requires_grad
    classifier = ours.classifier(5).eval()
    assert classifier[4] is ours.encoder
    norm = partial(nn.LayerNorm, eps=1e-6)
    like = vit(8, 3, 5, patch=2, width=16, pool="class", norm=norm).eval()
    like.load_state_dict(classifier.state_dict())
    images = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(classifier(images), like(images))


def test_graphs_and_variants_that_they_have_no_place_for_are_refused() -> None:
    swin = transformers.SwinConfig(**SWIN, window_size=3)
    with refused("graph", expected="None for Swin", got="window(1)", remedy="omit graph"):
        load(transformers.SwinModel(swin), graphs.window(1))
    mae = transformers.ViTMAEConfig(**MAE)
    with refused("graph", expected="None for a masked", got="window(1)", remedy="omit graph"):
        load(transformers.ViTMAEForPreTraining(mae), graphs.window(1))
    placed = transformers.SwinConfig(**SWIN, window_size=3, use_absolute_embeddings=True)
    with refused("config", expected="use_absolute_embeddings=False", got="True", remedy="variant"):
        load(transformers.SwinModel(placed))
    hiding = transformers.SwinForMaskedImageModeling(swin)
    with refused(
        "model_or_folder",
        expected="weights that this model has",
        got="mask_token",
        remedy="leave_out",
    ):
        load(hiding)
