"""BP-Transformer: what a token reads covers the text once, with a degree of O(k log(n / k))."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.layers import Cache, TextModel
from edgewise.models.bp_transformer import kinds, levels_of, partition_graph
from tests.errors import refused

VOCABULARY = 11


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "feed_forward": 12, "near": 1}
    model = models.bp_transformer(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


def tokens_of(count: int) -> list[set[int]]:
    """The tokens of each node, by hand."""
    found = []
    for level in range(len(levels_of(count))):
        size = 2**level
        found += [set(range(at, min(at + size, count))) for at in range(0, count, size)]
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13, 32, 100])
@pytest.mark.parametrize("near", [1, 2, 5])
@pytest.mark.parametrize("one_way", [True, False])
def test_what_a_token_reads_covers_the_text_once(count: int, near: int, one_way: bool) -> None:
    graph, _ = partition_graph(count, near, one_way)
    contents = tokens_of(count)
    assert graph.num_targets == len(contents)
    assert not graph.has_duplicates
    matrix = graph.dense()
    for token in range(count):
        read = sorted(t for node in matrix[token].nonzero().flatten() for t in contents[node])
        assert read == list(range(token + 1 if one_way else count))
        beside = range(max(0, token - near), token + 1 if one_way else min(count, token + near + 1))
        assert matrix[token, list(beside)].all(), "near tokens are read one by one"
    for span in range(count, len(contents)):
        read = set(matrix[span].nonzero().flatten().tolist())
        assert read == contents[span] | {span}


@pytest.mark.parametrize("near", [1, 4, 16])
def test_the_degree_grows_with_the_logarithm(near: int) -> None:
    for count in (64, 1000, 8192):
        graph, _ = partition_graph(count, near, False)
        most = int(graph.in_degree()[:count].max())
        assert most <= 1 + 2 * (near + 1) * (math.log2(count / near) + 1)
        assert graph.num_edges <= count * (most + math.ceil(math.log2(count)) + 2)
    assert int(partition_graph(8192, 4, False)[0].in_degree()[:8192].max()) < 8192 / 60


def test_kinds_tell_level_side_and_place() -> None:
    count, near = 64, 2
    graph, kind = partition_graph(count, near, False)
    assert int(kind.max()) < kinds(count, near)
    assert set(kind[graph.source == graph.target].tolist()) == {0}
    of_token = (graph.target == 30) & (graph.source != 30)
    assert len(set(kind[of_token].tolist())) == int(of_token.sum()), "each has a kind of its own"
    shifted = (graph.target == 38) & (graph.source != 38)
    near_kinds = [
        set(kind[edges][graph.source[edges] < count].tolist()) for edges in (of_token, shifted)
    ]
    assert near_kinds[0] == near_kinds[1], "and the same wherever the token stands"


def test_what_is_far_is_reached_in_two_layers() -> None:
    text = ids(50, 1)
    other = text.clone()
    other[0, 49] = 2 + (text[0, 49] - 1) % (VOCABULARY - 2)
    for depth, reached in ((1, False), (2, True)):
        model = small(depth=depth)
        assert bool((model(text)[0, 0] != model(other)[0, 0]).any()) is reached


def test_one_way_reads_nothing_that_comes_later() -> None:
    text = ids(37)
    later = text.clone()
    later[:, 20:] = 2 + (text[:, 20:] - 1) % (VOCABULARY - 2)
    for one_way in (True, False):
        model = small(one_way=one_way, depth=3)
        assert torch.allclose(model(text)[:, :20], model(later)[:, :20]) is one_way


def test_packed_and_padded_texts_are_read_as_alone() -> None:
    model, sizes = small(), (21, 1, 8)
    texts = [ids(size, 1) for size in sizes]
    alone = torch.cat([model(text)[0] for text in texts])
    torch.testing.assert_close(model(torch.cat(texts, 1)[0], sizes=sizes), alone)
    mask = (torch.arange(21) < torch.tensor(sizes)[:, None]).long()
    padded = torch.zeros(3, 21, dtype=torch.long)
    padded[mask.bool()] = torch.cat(texts, 1)[0]
    torch.testing.assert_close(model(padded, mask)[mask.bool()], alone)


def test_what_it_cannot_do_is_refused() -> None:
    model, text = small(length=16), ids(16)
    model(text)
    with refused("x", expected="at most 16 nodes", got="17", remedy="larger length"):
        model(ids(17))
    with refused("near", expected="at least 1", got="0", remedy="larger"):
        small(near=0)
    with refused("graph", expected="makes its own", got="Window", remedy="bert"):
        model(text, graph=graphs.window(1))
    with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
        model(text, cache=Cache())
