"""One to many: a decoder that reads an image's patches writes its caption."""

from __future__ import annotations

import torch
from torch import nn

from edgewise import graphs, models
from edgewise.decoding import generate
from edgewise.encodings import Learned
from edgewise.layers import (
    Backbone,
    DecoderLayer,
    LanguageModelHead,
    Memory,
    TextEmbedding,
    TextModel,
    TransformerStack,
)


def decoder_of(width: int) -> TextModel:
    layers = [DecoderLayer(width, 2, 16, order="pre") for _ in range(2)]
    reader = Backbone(TransformerStack(layers, nn.LayerNorm(width), graphs.causal()))
    embedding = TextEmbedding(9, width, positions=Learned(12, width))
    return TextModel(embedding, reader, LanguageModelHead(9, width))


def test_a_caption_is_written_from_patches() -> None:
    torch.manual_seed(0)
    encoder = models.vit(8, 1, 1, patch=4, width=8, depth=1, heads=2)[:-2].double().eval()
    decoder = decoder_of(8).double().eval()
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    images = torch.randn(2, 1, 8, 8, dtype=torch.double, requires_grad=True)
    memory = Memory(encoder(images))
    start = torch.zeros(2, 1, dtype=torch.long)
    caption = generate(decoder, start, max_new_tokens=6, memory=memory)
    assert caption.shape == (2, 7)
    logits = decoder.logits(decoder(caption[:, :-1], memory=memory))
    assert torch.equal(logits.argmax(-1), caption[:, 1:]), "as if written at once"
    logits.sum().backward()
    assert images.grad.abs().max() > 0


def test_images_may_be_wider_than_high() -> None:
    model = models.captioner((4, 12), 1, 9, 5, patch=4, width=8, heads=2).eval()
    out = model(torch.randn(2, 1, 4, 12), torch.zeros(2, 3, dtype=torch.long))
    assert out.shape == (2 * 3, 9)
    assert out.isfinite().all()
