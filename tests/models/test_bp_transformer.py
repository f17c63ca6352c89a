"""BP-Transformer: what a token reads covers the text once, with a degree of O(k log(n / k))."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.decoding import beam_search, generate
from edgewise.layers import Cache, LanguageModelHead, TextModel
from edgewise.models.bp_transformer import (
    completion_rank,
    growth_graph,
    kinds,
    nodes_per_level,
    partition_graph,
)
from tests.errors import refused

VOCABULARY = 11


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12, "near": 1}
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
    for level in range(len(nodes_per_level(count))):
        size = 2**level
        found += [set(range(at, min(at + size, count))) for at in range(0, count, size)]
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13, 32, 100])
@pytest.mark.parametrize("near", [1, 2, 5])
@pytest.mark.parametrize("causal", [True, False])
def test_what_a_token_reads_covers_the_text_once(count: int, near: int, causal: bool) -> None:
    graph, _ = partition_graph(count, near, causal)
    contents = tokens_of(count)
    assert graph.num_targets == len(contents)
    assert not graph.has_duplicates
    matrix = graph.dense()
    for token in range(count):
        read = sorted(t for node in matrix[token].nonzero().flatten() for t in contents[node])
        assert read == list(range(token + 1 if causal else count))
        beside = range(max(0, token - near), token + 1 if causal else min(count, token + near + 1))
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
    for causal in (True, False):
        model = small(causal=causal, depth=3)
        assert torch.allclose(model(text)[:, :20], model(later)[:, :20]) is causal


@pytest.mark.parametrize("near", [1, 3])
def test_a_text_grows_by_the_nodes_and_edges_of_its_graph(near: int) -> None:
    """Those of whole nodes, node for node the same whatever was there before."""
    for count in (1, 2, 7, 16, 21):
        whole, kind = partition_graph(count, near, True)
        contents = tokens_of(count)
        first = [sum(nodes_per_level(count)[:each]) for each in range(len(nodes_per_level(count)))]
        known = {}  # the number when whole of each node that is
        for node in range(len(contents)):
            at = next(i for i in reversed(range(len(first))) if first[i] <= node)
            if len(contents[node]) == 2**at:
                known[node] = int(completion_rank(torch.tensor(node - first[at]), at))
        assert sorted(known.values()) == list(range(len(known)))
        wanted = {
            (known[int(s)], known[int(t)], int(k))
            for s, t, k in zip(whole.source, whole.target, kind, strict=True)
            if int(s) in known and int(t) in known
        }
        for past in range(count + 1):
            grown, own = growth_graph(past, count, near)
            before = grown.num_sources - grown.num_targets
            found = [
                (int(s), int(t) + before, int(k))
                for s, t, k in zip(grown.source, grown.target, own, strict=True)
            ]
            assert len(found) == len(set(found))
            assert set(found) == {edge for edge in wanted if edge[1] >= before}


@pytest.mark.parametrize("parts", [(1,) * 23, (9, 1, 1, 12), (16, 7)])
def test_step_by_step_equals_at_once(parts: tuple[int, ...]) -> None:
    model, text, cache = small(causal=True, depth=3), ids(23), Cache()
    found = [model(part, cache=cache) for part in text.split(parts, dim=1)]
    torch.testing.assert_close(torch.cat(found, 1), model(text), rtol=0, atol=1e-12)


@pytest.mark.parametrize("write", [generate, beam_search])
def test_a_cache_changes_time_and_nothing_else(write: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    numbers = {"width": 16, "depth": 2, "heads": 2, "ffn_dim": 24, "near": 2}
    model = models.bp_transformer(VOCABULARY, **numbers, causal=True).eval()
    model.head = LanguageModelHead(VOCABULARY, 16, tied=False)  # a tied one would repeat its words
    for parameter in model.double().parameters():
        if parameter.dim() > 1:  # random biases of the last norm would decide every token
            nn.init.normal_(parameter, std=0.7)
    texts = [write(model, ids(5), max_new_tokens=20, cached=cached) for cached in (True, False)]
    assert torch.equal(*texts)
    assert texts[0][:, 5:].unique().numel() > 1, "the texts are worth comparing"


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
    model, text = small(max_length=16), ids(16)
    model(text)
    with refused("x", expected="at most 16 tokens", got="17", remedy="larger max_length"):
        model(ids(17))
    with refused("near", expected="at least 1", got="0", remedy="set near to"):
        small(near=0)
    with refused("graph", expected="builds its own graph", got="Window", remedy="bert"):
        model(text, graph=graphs.window(1))
    with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
        model(text, cache=Cache())
    causal, cache = small(causal=True, max_length=16), Cache()
    with refused("cache", expected="from the first token", got="Cache", remedy="cached=False"):
        causal(text, (torch.arange(16) > 1).expand_as(text), cache=Cache())
    causal(text, cache=cache)
    with refused("x", expected="at most 16 tokens", got="17", remedy="larger max_length"):
        causal(text[:, :1], cache=cache)
