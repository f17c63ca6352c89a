"""The Transformer whole is ``torch.nn.Transformer``, and its parts are the papers'."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgewise.app.cli.peers import copy_transformer
from edgewise.encodings import Sinusoidal
from edgewise.models import transformer

WIDTH, HEADS, HIDDEN, SOURCE, TARGET = 12, 3, 20, 7, 5


# torch says that it cannot use a fast path, which is for inference alone.
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_torch_whole_with_every_gradient(
    order: str, act: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    theirs = nn.Transformer(
        WIDTH, HEADS, 2, 3, HIDDEN, 0.0, act, batch_first=True, norm_first=order == "pre"
    ).to(dtype)
    theirs.decoder.layers = theirs.decoder.layers[:2]
    numbers = {"width": WIDTH, "heads": HEADS, "ffn_dim": HIDDEN, "depth": 2}
    ours = transformer(9, **numbers, dropout=0.0, act=act, order=order, last_norm=True)
    core = ours.core.to(dtype)
    copy_transformer(theirs, core)
    x, y = (torch.randn(3, n, WIDTH, dtype=dtype, requires_grad=True) for n in (SOURCE, TARGET))
    real, real_y = (
        torch.arange(n) < torch.tensor(sizes)[:, None]
        for n, sizes in ((SOURCE, (7, 2, 4)), (TARGET, (1, 5, 3)))
    )
    causal = torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1)
    padding = {"src_key_padding_mask": ~real, "memory_key_padding_mask": ~real}
    other = theirs(x, y, tgt_mask=causal, tgt_key_padding_mask=~real_y, **padding)
    mine = core(x, y, real, real_y)
    limit = 1e-5 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(mine, other, rtol=0, atol=limit)
    probe = torch.randn_like(mine) * real_y[..., None]
    mine_grads = torch.autograd.grad((mine * probe).sum(), [x, y])
    other_grads = torch.autograd.grad((other * probe).sum(), [x, y], retain_graph=True)
    torch.testing.assert_close(mine_grads, other_grads, rtol=0, atol=limit)
    (core(x, y, real, real_y) * probe).sum().backward()
    (other * probe).sum().backward()
    for side in ("encoder", "decoder"):
        layer = getattr(theirs, side).layers[0]
        block = getattr(core, side).stack.layers[0]
        joint = block.attention.sublayer.qkv
        pairs = [(joint.weight.grad, layer.self_attn.in_proj_weight.grad)]
        pairs.append((block.feed_forward.sublayer[0].weight.grad, layer.linear1.weight.grad))
        pairs.append((block.attention.norm.weight.grad, layer.norm1.weight.grad))
        for grad, other_grad in pairs:
            scale = float(other_grad.abs().max())
            torch.testing.assert_close(grad / scale, other_grad / scale, rtol=0, atol=limit)


def test_the_first_transformer_scales_words_adds_waves_and_ties_the_head() -> None:
    torch.manual_seed(0)
    model = transformer(11, width=WIDTH, heads=HEADS, ffn_dim=HIDDEN).eval()
    ids = torch.tensor([[3, 5]])
    words = model.embedding.tokens.weight[ids] * WIDTH**0.5
    torch.testing.assert_close(model.embedding(ids), Sinusoidal(WIDTH)(words))
    states = torch.randn(2, WIDTH)
    torch.testing.assert_close(model.logits(states), states @ model.embedding.tokens.weight.T)
    assert isinstance(model.core.decoder.stack.norm, nn.Identity), "post-norm ends with a norm"
    pre = transformer(11, width=WIDTH, heads=HEADS, order="pre").core.decoder.stack.norm
    assert isinstance(pre, nn.LayerNorm)


def test_two_vocabularies() -> None:
    model = transformer(11, target_vocab_size=6, width=WIDTH, heads=HEADS, depth=1)
    states = model(torch.full((2, 3), 10), None, torch.full((2, 4), 5))
    assert model.logits(states).shape == (2, 4, 6)
    with pytest.raises(ValueError, match="ids from 0 to 5, the ids of the vocabulary"):
        model(torch.full((2, 3), 10), None, torch.full((2, 4), 10))
