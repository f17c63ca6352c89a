"""The lectures' polls and matrix forms, where they can be checked."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from edgewise.layers import MultiHeadAttention, RecurrentBackbone, TransformerLayer
from edgewise.models import gcn, rnn

N, H, D = 5, 1, 8


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def vectors(nodes: int = N) -> Tensor:
    return torch.randn(nodes, H, D, dtype=torch.double, requires_grad=True)


def test_poll_1_weights_of_a_word_come_from_its_query_and_all_keys() -> None:
    query, key = vectors(), vectors()
    weights = ew.attention_weights(query, key, graphs.complete()).view(N, N)
    by_query, by_key = torch.autograd.grad((weights[2] * torch.randn(N)).sum(), [query, key])
    assert [bool((row != 0).any()) for row in by_query] == [False, False, True, False, False]
    assert all((row != 0).any() for row in by_key)


def test_poll_1_scaling_is_for_stability_and_bounds_nothing() -> None:
    width = 256
    query, key = torch.randn(2, 4000, 1, width, dtype=torch.double)
    pairs = graphs.edges(torch.arange(4000).expand(2, -1), 4000)
    raw, scaled = (ew.edge_scores(query, key, pairs, score=ew.Dot(scale)) for scale in (1.0, None))
    assert float(raw.var()) == pytest.approx(width, rel=0.1)
    assert float(scaled.var()) == pytest.approx(1, rel=0.1)
    assert float(scaled.max()) > 1  # not in [0, 1]
    few = graphs.complete().bind(1, 16)
    largest, gradient = [], []
    for scale in (1.0, None):
        start = query[:1].clone().requires_grad_()
        weights = ew.attention_weights(start, key[:16], few, score=ew.Dot(scale))
        largest.append(float(weights.detach().max()))
        gradient.append(float(torch.autograd.grad(weights.square().sum(), start)[0].norm()))
    assert largest[0] > 0.99
    assert largest[1] < 0.9
    assert gradient[0] < gradient[1]  # a saturated softmax does not learn


def test_poll_2_a_word_reads_its_own_sentence_and_not_the_batch() -> None:
    layer = TransformerLayer(D, 2, 16).double()
    x = torch.randn(2, N, D, dtype=torch.double, requires_grad=True)
    (grad,) = torch.autograd.grad(layer(x, graphs.complete())[0].square().sum(), x)
    assert (grad[0] != 0).any()
    assert (grad[1] == 0).all()


def test_poll_2_a_decoder_is_parallel_where_its_input_is_known() -> None:
    """In training: all positions at once give what one after the other would."""
    query, key, value = vectors(), vectors(), vectors()
    together = ew.attend(query, key, value, graphs.causal())
    for t in range(N):
        one = ew.attend(query[t : t + 1], key[: t + 1], value[: t + 1], graphs.causal())
        torch.testing.assert_close(one[0], together[t])


def test_poll_2_projections_see_the_whole_input_and_not_a_third_of_it() -> None:
    layer = MultiHeadAttention(9, 3)
    x = torch.randn(9, requires_grad=True)
    for number in layer.qkv(x):
        (gradient,) = torch.autograd.grad(number, x, retain_graph=True)
        assert (gradient != 0).all()


def test_poll_2_a_decoder_asks_and_the_encoder_answers() -> None:
    """Queries from the decoder, keys and values from the encoder."""
    decoder, encoder = torch.randn(3, D), torch.randn(7, D)
    layer = MultiHeadAttention(D, 2, source_width=D)
    query, key, value = (
        f(x).unflatten(-1, (2, -1))
        for f, x in ((layer.query, decoder), (layer.key, encoder), (layer.value, encoder))
    )
    expected = layer.output(ew.attend(query, key, value, graphs.complete()).flatten(-2))
    torch.testing.assert_close(layer(decoder, graphs.complete(), encoder), expected)
    same_answer = layer(decoder, graphs.complete(), encoder[:1].expand(7, -1))
    torch.testing.assert_close(same_answer, same_answer[:1].expand(3, -1))


def test_poll_3_what_is_invariant_to_what() -> None:
    x = torch.randn(100, 7)
    assert torch.equal(x.softmax(-1).argmax(-1), x.argmax(-1))
    a, b, shift = torch.randn(3, 2)
    torch.testing.assert_close(((a + shift) - (b + shift)).norm(), (a - b).norm())
    angles = F.cosine_similarity(a, b, 0), F.cosine_similarity(a + shift, b + shift, 0)
    assert (angles[0] - angles[1]).abs() > 1e-3


def test_poll_4_recurrent_networks_depend_on_the_order() -> None:
    x, order = torch.randn(5, 8), torch.tensor([4, 1, 0, 3, 2])
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        read = RecurrentBackbone(kind, 8, 1)
        last, other = read(x)[-1], read(x[order])[-1]
        assert (last - other).abs().max() > 1e-3


def test_a_state_is_made_of_a_token_and_of_the_state_before() -> None:
    model, ids = rnn(7, width=4, depth=1).double().eval(), torch.tensor([[3, 0, 6, 3, 1]])
    states = model(ids)
    cell, tokens = model.backbone.cell, model.embedding.tokens.weight
    h = torch.zeros(4, dtype=torch.double)
    bias = cell.bias_ih_l0 + cell.bias_hh_l0
    for i, x in enumerate(tokens[ids[0]]):
        h = (cell.weight_ih_l0 @ x + cell.weight_hh_l0 @ h + bias).tanh()
        torch.testing.assert_close(states[0, i], h)
        torch.testing.assert_close(model.logits(states)[0, i], tokens @ h)


def test_poll_4_self_attention_serves_graphs_because_it_has_no_order() -> None:
    layer, order = TransformerLayer(D, 2, 16), torch.randperm(N)
    x = torch.randn(N, D)
    torch.testing.assert_close(
        layer(x[order], graphs.complete()), layer(x, graphs.complete())[order]
    )


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_poll_4_k_hops_need_at_least_k_layers(layers: int) -> None:
    line = graphs.edges(torch.tensor([[1, 2, 3, 4], [0, 1, 2, 3]]), 5)
    x = torch.randn(5, 3, requires_grad=True)
    out = gcn(3, 2, depth=layers).eval()(x, line)
    (grad,) = torch.autograd.grad((out[0] * torch.randn(2)).sum(), x)
    assert [bool((row != 0).any()) for row in grad] == [hop <= layers for hop in range(5)]


def test_the_matrix_form_of_gcn() -> None:
    matrix = (torch.rand(N, N) < 0.5).fill_diagonal_(False)
    x, model = torch.randn(N, 3), gcn(3, 2, depth=1).eval()
    with_loops = matrix.float() + torch.eye(N)
    scale = with_loops.sum(1).rsqrt().diag()
    expected = scale @ with_loops @ scale @ x @ model.layers[1].linear.weight.T
    torch.testing.assert_close(model(x, graphs.from_dense(matrix)), expected)
