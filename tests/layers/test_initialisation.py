"""How weights begin: the spread that the papers give them."""

from __future__ import annotations

import math

import torch
from torch import nn

from edgewise import models
from edgewise.layers import JointLinear, init_xavier


def test_gpt_begins_with_small_weights_and_smaller_ones_where_branches_end() -> None:
    torch.manual_seed(0)
    model = models.gpt(500, width=128, depth=8, heads=4)
    layer = model.backbone.stack.layers[3]
    attention, network = layer.attention.sublayer, layer.feed_forward.sublayer
    for weight in (model.embedding.tokens.weight, attention.qkv.weight, network[0].weight):
        torch.testing.assert_close(weight.std().item(), 0.02, rtol=0.05, atol=0)
    for weight in (attention.output.weight, network[3].weight):
        torch.testing.assert_close(weight.std().item(), 0.02 / math.sqrt(16), rtol=0.05, atol=0)
    assert not attention.qkv.bias.any()
    states = model.eval()(torch.randint(500, (4, 32)))
    loss = nn.functional.cross_entropy(model.logits(states).flatten(0, 1), torch.zeros(128).long())
    assert abs(float(loss.detach()) - math.log(500)) < 0.2, "every token is as likely at first"


def test_the_transformer_begins_as_glorot_and_bengio_say() -> None:
    torch.manual_seed(0)
    linear = init_xavier(nn.Linear(300, 100))
    assert linear.weight.abs().max() <= math.sqrt(6 / 400)
    torch.testing.assert_close(linear.weight.std().item(), math.sqrt(2 / 400), rtol=0.02, atol=0)


def test_query_key_and_value_begin_as_matrices_of_their_own() -> None:
    torch.manual_seed(0)
    joint = init_xavier(JointLinear(120, (120, 120, 120)))
    bound = math.sqrt(6 / 240)  # of the whole matrix it would be smaller, √(6 / 480)
    for weight in joint.weights():
        assert 0.99 * bound < weight.abs().max() <= bound
