"""Relative positions: terms on the edges of any graph, by distance alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import encodings, graphs
from edgewise.encodings import ALiBi, Buckets, RelativeTable, Shaw, TransformerXLRelative, offsets
from edgewise.layers import MultiHeadAttention
from tests.errors import refused

H, D, N = 3, 4, 9
MAKE = {
    "relative": lambda: RelativeTable(H, 3),
    "buckets": lambda: Buckets(H, 8, 6),
    "alibi": lambda: ALiBi(H),
    "shaw": lambda: Shaw(H, D, 3),
    "transformer_xl": lambda: TransformerXLRelative(H, D, 6),
}
GRAPHS = [graphs.complete(), graphs.causal(), graphs.window(2) | graphs.hubs([0])]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    encoding = MAKE[name]().double()
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    return encoding


def scores(encoding: nn.Module, query: Tensor, key: Tensor, graph: ew.Graph) -> Tensor:
    terms = {k: v for k, v in encoding(graph).items() if k != "edge_value"}
    return ew.edge_scores(query, key, graph, **terms)


def test_every_relative_encoding_is_tested_here() -> None:
    assert MAKE.keys() == encodings.RELATIVE.keys()
    assert all(name in encodings.ENCODINGS for name in MAKE)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_scores_depend_on_distance_alone(name: str, graph: ew.Pattern) -> None:
    """With one vector for every query and key, what an edge scores is a function of i - j."""
    graph = graph.bind(N)
    vectors = torch.randn(2, H, D, dtype=torch.double)
    query, key = (v.expand(N, H, D) for v in vectors)
    score = scores(made(name), query, key, graph)
    for distance in range(-N + 1, N):
        same = score[offsets(graph) == distance]
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=0, atol=1e-12)
    assert score.std(0).min() > 0.005


@pytest.mark.parametrize("name", MAKE)
def test_an_edge_has_the_same_terms_on_every_graph(name: str) -> None:
    encoding = made(name)
    query, key = torch.randn(2, N, H, D, dtype=torch.double)
    whole, part = graphs.complete().bind(N), (graphs.window(2) | graphs.hubs([0])).bind(N)
    everything = scores(encoding, query, key, whole).view(N, N, H)
    chosen = everything[part.target, part.source]
    torch.testing.assert_close(scores(encoding, query, key, part), chosen)


@pytest.mark.parametrize("name", MAKE)
def test_fewer_targets_are_the_last_and_packed_members_stand_alone(name: str) -> None:
    encoding = made(name)
    query, key = torch.randn(2, N, H, D, dtype=torch.double)
    whole = scores(encoding, query, key, graphs.causal().bind(N))
    step = scores(encoding, query[-1:], key, graphs.causal().bind(1, N))
    torch.testing.assert_close(step, whole[-N:])
    packed = scores(encoding, query, key, graphs.batch(graphs.complete(), [4, 5]))
    second = scores(encoding, query[4:], key[4:], graphs.complete().bind(5))
    torch.testing.assert_close(packed[16:], second)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("length", [1, 40])
def test_any_length_has_terms(name: str, length: int) -> None:
    layer = MultiHeadAttention(H * D, H).double()
    graph = graphs.complete().bind(length)
    x = torch.randn(length, H * D, dtype=torch.double)
    encoding = made(name)
    layer(x, graph, **encoding(graph)).square().sum().backward()
    for parameter in encoding.parameters():
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_t5s(bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    behind = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(-behind, bidirectional, 32, 128)
    assert torch.equal(Buckets(2, bidirectional=bidirectional).bucket(behind), theirs)


def test_alibi_by_hand() -> None:
    graph = graphs.causal().bind(3)
    bias = ALiBi(2)(graph)["bias"].expand()
    expected = torch.tensor([0, -1, 0, -2, -1, 0.0])[:, None] * torch.tensor([2**-4, 2**-8])
    torch.testing.assert_close(bias, expected)


def test_alibi_slopes_of_other_numbers_of_heads_are_the_papers() -> None:
    alibi = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    for heads in (1, 4, 6, 12):
        theirs = alibi.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
        torch.testing.assert_close(ALiBi(heads).slopes, theirs)


def test_shaw_adds_its_vectors_to_keys_and_values() -> None:
    shaw = made("shaw")
    graph = graphs.window(4).bind(N)
    query, key, value = torch.randn(3, N, H, D, dtype=torch.double)
    index = offsets(graph).clamp(-3, 3) + 3
    vectors = [table[:, :, index].permute(2, 0, 1) for table in (shaw.key, shaw.value)]
    expected = ew.attend(query, key, value, graph, edge_key=vectors[0], edge_value=vectors[1])
    torch.testing.assert_close(ew.attend(query, key, value, graph, **shaw(graph)), expected)


def test_transformer_xl_is_the_papers_four_terms() -> None:
    torch.manual_seed(0)
    xl, graph = made("transformer_xl"), graphs.causal().bind(N)
    query, key = torch.randn(2, N, H, D, dtype=torch.double)
    content, position = torch.randn(2, H, D, dtype=torch.double)  # u and v
    xl.offset.data = position - content
    waves = encodings.sinusoidal_positions(offsets(graph), 6)
    turned = torch.einsum("ef,hdf->ehd", waves, xl.weight)  # W R_{i - j}
    q, k = query[graph.target], key[graph.source]
    four = (q * k, content * k, q * turned, position * turned)
    expected = sum(term.sum(-1) for term in four) / D**0.5
    torch.testing.assert_close(scores(xl, query + content, key, graph), expected)


def test_transformer_xl_needs_pairs_of_waves() -> None:
    with refused("encoding_width", expected="an even number", got="5", remedy="add 1"):
        TransformerXLRelative(H, D, 5)
