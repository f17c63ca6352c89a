"""Reformer: the lecture's hash, the graph of the sorted tokens by its definition, and refusals."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from edgewise import graphs, layers, models
from edgewise.app.train import TextClassification
from edgewise.decoding import generate
from edgewise.layers import Cache, TextModel
from edgewise.models.reformer import (
    Chunks,
    Hashing,
    LSHAttention,
    SortedGraphs,
    Texts,
    hash_buckets,
    sorted_graphs,
)
from tests.errors import refused

VOCABULARY = 11


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12}
    numbers |= {"chunk": 4, "local_chunk": 4, "num_hashes": 2, "max_length": 64}
    model = models.reformer(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


def test_the_lectures_hash_of_two_tokens() -> None:
    """h(x) = argmax([0.6, -0.8, -0.6, 0.8]) = 3; y, which is turned elsewhere, has 2."""
    turned = torch.tensor([[0.6, -0.8], [-0.8, 0.6]])
    angle = torch.tensor(0.4)
    rotation = torch.stack(
        [torch.stack([angle.cos(), angle.sin()]), torch.stack([-angle.sin(), angle.cos()])]
    )
    tokens = turned @ rotation.T  # so that turning them gives these
    assert hash_buckets(tokens, rotation, (4,)).tolist() == [3, 2]
    assert hash_buckets(3 * tokens, rotation, (4,)).tolist() == [3, 2], "length says nothing"


@pytest.mark.slow
def test_near_tokens_share_a_bucket_more_often() -> None:
    torch.manual_seed(0)
    turns = torch.randn(2000, 2, 2)
    x = torch.tensor([1.0, 0.0])

    def shared(angle: float) -> float:
        y = torch.tensor([torch.tensor(angle).cos(), torch.tensor(angle).sin()])
        same = [hash_buckets(torch.stack([x, y]), turn, (4,)) for turn in turns]
        return sum(int(a == b) for a, b in same) / len(same)

    near, far, opposite = shared(0.1), shared(1.0), shared(3.1416)
    assert near > 0.9
    assert near > far > opposite
    assert opposite == 0


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("near", [(0, 0), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_graph_is_that_of_the_definition(
    causal: bool, near: tuple[int, int], rounds: int
) -> None:
    torch.manual_seed(0)
    size, chunks = 3, Chunks(3, *near, causal)
    texts = [(8, 3, size), (2, 1, 2), (5, 3, size)]  # the last with an empty chunk at its end
    count = sum(tokens for tokens, _, _ in texts)
    bucket = torch.randint(4, (rounds, count))
    found = sorted_graphs(bucket, texts, chunks)
    assert [sorted(row) for row in found.node.tolist()] == [list(range(count))] * rounds
    # By hand: the ring of each text's chunks, each a list of (round, token).
    reads, first = {}, 0
    for tokens, chunk_count, chunk_size in texts:
        ring = []
        for number in range(rounds):
            line = sorted(range(first, first + tokens), key=lambda t: (int(bucket[number, t]), t))
            cut = [line[c * chunk_size : (c + 1) * chunk_size] for c in range(chunk_count)]
            ring += [[(number, token) for token in chunk] for chunk in cut]
        for place, chunk in enumerate(ring):
            others = {(place + step) % len(ring) for step in range(-near[0], near[1] + 1)}
            seen = [member for other in others for member in ring[other]]
            for number, token in chunk:
                reads[number, token] = {
                    (r, t) for r, t in seen if t != token and not (causal and t > token)
                }
        first += tokens
    alone = {t for t in range(count) if not any(reads[r, t] for r in range(rounds))}
    assert bool(alone) == causal
    for token in alone:
        reads[0, token] = {(0, token)}
    assert read_by_node(found) == reads


def read_by_node(found: SortedGraphs) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Of each round and token, the rounds and tokens that it reads; nothing is read twice."""
    names = [[(number, token) for token in row] for number, row in enumerate(found.node.tolist())]
    reads: dict[tuple[int, int], set[tuple[int, int]]] = {
        name: set() for row in names for name in row
    }
    everyone = [name for row in names for name in row]
    reader, read = ([everyone[i] for i in x.tolist()] for x in (found.reader, found.read))
    of_rounds = [(graph, row, row) for graph, row in zip(found.within, names, strict=True)]
    for graph, targets, sources in [*of_rounds, (found.across, reader, read)]:
        for j, i in graph.edge_index.T.tolist():
            assert sources[j] not in reads[targets[i]]
            reads[targets[i]].add(sources[j])
    return reads


def test_the_graph_grows_with_the_text_and_not_with_its_square() -> None:
    def runs(tokens: int) -> tuple[int, int]:
        chunk = 16
        bucket = torch.randint(2 * tokens // chunk, (2, tokens))
        text = (tokens, tokens // chunk, chunk)
        found = sorted_graphs(bucket, [text], Chunks(chunk, 1, 0, True))
        graphs = [*found.within, found.across]
        return sum(len(graph.start) for graph in graphs), sum(graph.num_edges for graph in graphs)

    torch.manual_seed(0)
    (few, edges), (many, more) = runs(1024), runs(16384)
    assert edges < 2 * 1024 * 2 * 16
    assert 15 < many / few < 17
    assert 15 < more / edges < 17


def test_attention_by_the_formula_over_all_rounds() -> None:
    torch.manual_seed(0)
    chunks, rounds, count = Chunks(4, 1, 0, True), 3, 20
    layer = LSHAttention(6, 1, None, chunks, Hashing(4, rounds, 7, 64)).double().eval()
    x = torch.randn(1, count, 6, dtype=torch.double)
    query, value = layer.query_key(x[0]), layer.value(x[0])
    generator = torch.Generator().manual_seed(7)
    turns = torch.randn(1, 6, rounds, 2, dtype=torch.double, generator=generator)
    bucket = torch.stack([hash_buckets(query, turns[0, :, r], (4,)) for r in range(rounds)])
    times = torch.zeros(count, count, dtype=torch.double)  # in how many rounds i reads j
    for (_, i), read in read_by_node(sorted_graphs(bucket, [(count, 5, 4)], chunks)).items():
        for _, j in read:
            times[i, j] += 1
    assert times.max() > 1
    scores = query @ normalize(query, dim=-1).T
    weights = times * scores.exp()
    assert times[0].tolist() == [1] + [0] * (count - 1), "the first token is alone"
    expected = layer.output((weights / weights.sum(1, keepdim=True)) @ value)
    out = layer(x, Texts([count], [count], packed=False))[0]
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)  # 1e-6 is under their root


def test_a_text_of_one_chunk_is_read_whole_but_for_itself() -> None:
    torch.manual_seed(0)
    layer = LSHAttention(6, 2, None, Chunks(9, 1, 0, False), Hashing(None, 4, None, 64)).double()
    x = torch.randn(1, 9, 6, dtype=torch.double)
    out = layer(x, Texts([9], [9], packed=False))
    query, value = (m(x[0]).unflatten(-1, (2, 3)) for m in (layer.query_key, layer.value))
    scores = torch.einsum("ihd,jhd->hij", query, normalize(query, dim=-1))
    scores = scores.masked_fill(torch.eye(9).bool(), -torch.inf)
    expected = torch.einsum("hij,jhd->ihd", scores.softmax(-1), value)
    torch.testing.assert_close(out[0], layer.output(expected.flatten(1)), rtol=0, atol=1e-5)


def test_nothing_that_is_read_comes_later() -> None:
    """Later tokens decide which earlier ones share a chunk; their values are not read."""
    layer = LSHAttention(6, 1, None, Chunks(4, 1, 0, True), Hashing(4, 2, 0, 64)).double()
    x = torch.randn(1, 20, 6, dtype=torch.double)
    other = x.clone()
    other[0, 10:] = layer.value.weight.new_zeros(6)
    with torch.no_grad():
        layer.query_key.weight.zero_()  # all in one bucket, whatever the features are
    texts = Texts([20], [20], packed=False)
    torch.testing.assert_close(layer(x, texts)[0, :10], layer(other, texts)[0, :10])
    assert not torch.allclose(layer(x, texts)[0, 10:], layer(other, texts)[0, 10:])


@pytest.mark.parametrize("count", [5, 20, 21])
def test_packed_texts_are_read_as_alone(count: int) -> None:
    model, sizes = small(), (count, 3, 13)
    texts = [ids(size, 1) for size in sizes]
    packed = model(torch.cat(texts, 1)[0], sizes=sizes)
    torch.testing.assert_close(packed, torch.cat([model(text)[0] for text in texts]))


def test_padding_changes_nothing_that_is_read() -> None:
    model, text = small(), ids(20)
    mask = (torch.arange(20) < torch.tensor([20, 9])[:, None]).long()
    other, real = text.where(mask.bool(), 3), mask.bool()
    assert torch.equal(model(text, mask)[real], model(other, mask)[real])
    torch.testing.assert_close(model(text, mask)[0], model(text)[0])
    assert not model(text, mask)[1, 9:].any()


def gradients(model: TextModel, out: Tensor) -> list[Tensor]:
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return list(torch.autograd.grad((out * weight).sum(), [*model.backbone.parameters()]))


@pytest.mark.parametrize("kinds", [("lsh",), ("local", "lsh")])
def test_padding_within_the_last_chunk_changes_no_gradient_in_four_rounds(
    kinds: tuple[str, ...],
) -> None:
    """Padding that adds a chunk does: the ring of chunks and the number of buckets change."""
    model, text = small(num_hashes=4, kinds=kinds), ids(24)
    mask = (torch.arange(24) < torch.tensor([22, 9])[:, None]).long()
    padded, alone = model(text, mask)[0, :22], model(text[:1, :22])[0]
    torch.testing.assert_close(padded, alone, rtol=0, atol=1e-13)
    torch.testing.assert_close(
        gradients(model, padded), gradients(model, alone), rtol=1e-10, atol=1e-12
    )
    if kinds == ("lsh",):
        mask = (torch.arange(24) < torch.tensor([17, 9])[:, None]).long()
        assert not torch.allclose(model(text, mask)[0, :17], model(text[:1, :17])[0])


def test_packing_changes_no_gradient_in_four_rounds() -> None:
    model = small(num_hashes=4)
    texts = [ids(size, 1) for size in (17, 3, 13)]
    packed = model(torch.cat(texts, 1)[0], sizes=(17, 3, 13))
    alone = torch.cat([model(text)[0] for text in texts])
    torch.testing.assert_close(
        gradients(model, packed), gradients(model, alone), rtol=1e-10, atol=1e-12
    )


def test_hashes_are_drawn_in_training_and_the_same_in_evaluation() -> None:
    text = ids(40)
    model = small(dropout=0.0, kinds=["lsh"])
    assert torch.equal(model(text), model(text))
    model.train()
    assert not torch.equal(model(text), model(text))
    seeded = small(dropout=0.0, kinds=["lsh"], hash_seed=0).train()
    torch.testing.assert_close(seeded(text), model.eval()(text))


def test_two_ways_and_one_way_differ() -> None:
    text = ids(20)
    later = text.clone()
    later[:, 15:] = 2 + (text[:, 15:] - 1) % (VOCABULARY - 2)
    for causal in (True, False):
        model = small(kinds=["local"], causal=causal, num_chunks_before=0)
        same = torch.equal(model(text)[:, 12:15], model(later)[:, 12:15])
        assert same is causal


def test_axial_positions_are_a_row_beside_a_column() -> None:
    model, text = small(axial=(3, 7), axial_widths=(2, 6)), ids(21)
    places = model.embedding.positions
    added = places(torch.zeros(21, 8, dtype=torch.double))
    torch.testing.assert_close(added[16], torch.cat([places.row[2], places.column[2]]))
    assert model(text).isfinite().all()
    with refused("x", expected="at most 21 tokens", got="22", remedy="axial"):
        model(ids(22))
    with refused(
        "axial_widths", expected="sum to the width 8", got="(3, 4)", remedy="axial_widths=(4, 4)"
    ):
        small(axial=(3, 7), axial_widths=(3, 4))


@pytest.mark.parametrize(("buckets", "got"), [(1, "1"), ((4, 0), "0")])
def test_fewer_than_two_buckets_are_refused(buckets: object, got: str) -> None:
    with refused("num_buckets", expected="at least", got=got, remedy=""):
        small(num_buckets=buckets)


def test_without_a_cache_it_writes_and_with_one_it_would_not_write_the_same() -> None:
    """A later token moves earlier ones to other chunks, though none of them reads it."""
    model = small(chunk=2, kinds=("lsh",), causal=True, depth=2)
    text = ids(16)
    assert not torch.allclose(model(text)[:, :12], model(text[:, :12]))
    texts = generate(model, text, max_new_tokens=3, cached=False)
    assert torch.equal(texts[:, -1], model.logits(model(texts[:, :-1]))[:, -1].argmax(-1))
    with refused("cache", expected="sorts all tokens again", got="Cache", remedy="cached=False"):
        generate(model, text, max_new_tokens=3)


def test_what_it_cannot_do_is_refused() -> None:
    model, text = small(), ids(5)
    with refused("num_buckets", expected="even", got="3", remedy="each number in num_buckets even"):
        small(num_buckets=3)
    with refused("kinds", expected="local", got="'lhs'", remedy="did you mean 'lsh'"):
        small(kinds=["lhs"])
    with refused("kinds", expected="one or more", got="none", remedy="use"):
        small(kinds=[])
    with refused("graph", expected="builds its own graph", got="Window", remedy="gpt"):
        model(text, graph=graphs.window(1))
    with refused("cache", expected="sorts all tokens again", got="Cache", remedy="cached=False"):
        model(text, cache=Cache())


def test_a_text_without_a_batch_and_a_classifier_of_texts() -> None:
    model = models.reformer(11, width=8, heads=2, depth=2, ffn_dim=8, chunk=4).eval()
    ids = torch.arange(10) % 11
    assert torch.equal(model(ids), model(ids[None])[0])
    sizes = {"longest_text": 10, "out_width": 3}
    classifier = TextClassification().complete(model, sizes)
    assert classifier(layers.Tokens(ids[None])).shape == (1, 3)
