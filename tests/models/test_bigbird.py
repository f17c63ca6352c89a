"""BigBird: its graph by the definition, when it is whole, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs, models
from edgewise.layers import Cache, TextModel
from edgewise.models.bigbird import BlockAttention, BlockSparse, sample_blocks
from tests.errors import refused

VOCABULARY = 11


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12}
    numbers |= {"block": 2, "random_blocks": 1, "max_length": 64}
    model = models.bigbird(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


@pytest.mark.parametrize("tokens", [15, 16, 23])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_block_reads_itself_its_neighbours_the_ends_and_random_ones(
    tokens: int, seed: int
) -> None:
    size, number, heads = 2, 1, 3
    pattern = BlockSparse(size, number, heads, seed, 64)
    whole = pattern.bind(heads * tokens).dense()
    count = -(-tokens // size)
    for head in range(heads):
        places = slice(head * tokens, (head + 1) * tokens)
        matrix = whole[places, places]
        assert int(matrix.sum()) == int(whole[places].sum()), "no head reads another"
        reads = matrix[::size, ::size]  # a token of each block
        assert torch.equal(matrix, reads.repeat_interleave(size, 0).repeat_interleave(size, 1)[
            :tokens, :tokens
        ])  # fmt: skip
        assert reads[[0, -1]].all()
        assert reads[:, [0, -1]].all()
        for row in range(1, count - 1):
            sure = {0, row - 1, row, row + 1, count - 1}
            read = set(reads[row].nonzero().flatten().tolist())
            assert sure <= read
            assert len(read - sure) == number


def test_random_blocks_are_those_of_the_layer_the_head_and_the_seed() -> None:
    sizes = {"size": 2, "max_length": 64}
    first = sample_blocks(20, 2, 3, seed=0, **sizes)
    assert first.shape == (2, 18, 3)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, sample_blocks(20, 2, 3, seed=1, **sizes))
    assert first.max() < 5 + 2 * 3
    assert all(len(set(row.tolist())) == 3 for row in first.flatten(0, 1))
    blocks = torch.arange(1, 19)[None, :, None]
    assert ((first - blocks).abs() > 1).all()


def test_edges_grow_with_the_text_and_not_with_its_square() -> None:
    def edges(tokens: int) -> int:
        return BlockSparse(16, 3, 1, 0, 1 << 20).bind(tokens).num_edges

    # Two blocks read all; of the others each reads 5 + 3, and two of them have one end beside them.
    for tokens in (2048, 32768):
        blocks = tokens // 16
        assert edges(tokens) == (2 * blocks + (blocks - 2) * (5 + 3) - 2) * 16**2


@pytest.mark.parametrize("tokens", [1, 5, 14])
def test_a_text_of_few_blocks_is_read_whole(tokens: int) -> None:
    text = ids(tokens)
    torch.testing.assert_close(small()(text), small(graph=graphs.complete())(text))


def test_a_longer_text_is_not() -> None:
    text = ids(15)
    assert not torch.allclose(small()(text), small(graph=graphs.complete())(text))


def test_heads_with_one_graph_after_the_other_read_each_its_own() -> None:
    torch.manual_seed(0)
    layer, tokens = BlockAttention(8, 2).double(), 16
    x = torch.randn(3, tokens, 8, dtype=torch.double)
    pattern = BlockSparse(2, 1, 2, 0, 64)
    out = layer(x, pattern.bind(2 * tokens))
    query, key, value, _ = layer._project(x, None, None, None)
    heads = []
    for head, graph in enumerate(pattern.head_graphs(tokens, tokens)):
        own = (n[..., head : head + 1, :] for n in (query, key, value))
        heads.append(ew.attend(*own, graph))
    torch.testing.assert_close(out, layer.output(torch.cat(heads, -2).flatten(-2)))


def test_what_is_read_again_counts_twice() -> None:
    torch.manual_seed(0)
    layer, tokens = BlockAttention(8, 2).double(), 5
    x = torch.randn(tokens, 8, dtype=torch.double)
    once, twice = graphs.causal().bind(tokens), graphs.window(0).bind(tokens)
    edges = torch.cat([once.edge_index, twice.edge_index], 1)
    expected = layer(x, graphs.edges(edges, tokens))
    torch.testing.assert_close(layer(x, once, repeats=[(twice, 1)]), expected)
    assert not torch.allclose(layer(x, once), expected)
    often = graphs.edges(torch.cat([once.edge_index, *3 * [twice.edge_index]], 1), tokens)
    torch.testing.assert_close(layer(x, once, repeats=[(twice, 3)]), layer(x, often))


def test_random_blocks_may_be_read_in_training_alone() -> None:
    text = ids(20)
    always, training = small(dropout=0.0), small(dropout=0.0, random_attention="training")
    assert not torch.allclose(always(text), training(text))
    torch.testing.assert_close(always(text), always.train()(text))
    torch.testing.assert_close(training.train()(text), always(text))


def test_packed_texts_have_their_own_blocks() -> None:
    model, sizes = small(), (20, 3, 17)
    texts = [ids(size, 1) for size in sizes]
    packed = model(torch.cat(texts, 1)[0], sizes=sizes)
    torch.testing.assert_close(packed, torch.cat([model(text)[0] for text in texts]))


def test_padding_changes_nothing_that_is_read() -> None:
    model, text = small(), ids(20)
    mask = (torch.arange(20) < torch.tensor([20, 9])[:, None]).long()
    other = text.where(mask.bool(), 3)
    real = mask.bool()
    assert torch.equal(model(text, mask)[real], model(other, mask)[real])
    torch.testing.assert_close(model(text, mask)[0], model(text)[0])
    assert not model(text, mask)[1, 9:].any()


def test_another_graph_at_the_call() -> None:
    model, text = small(), ids(20)
    mask = (torch.arange(20) < torch.tensor([20, 9])[:, None]).long()
    wide = model(text, mask, graph=graphs.complete())
    torch.testing.assert_close(wide, small(graph=graphs.complete())(text, mask))
    assert not torch.allclose(wide, model(text, mask))


def test_what_it_cannot_do_is_refused() -> None:
    model, text = small(), ids(5)
    with refused("random_attention", expected="always", got="'never'", remedy=""):
        small(random_attention="never")
    with refused("block", expected="at least 1", got="0", remedy="set block to"):
        small(block=0)
    with refused("attention_mask", expected="counted from the start", got="before", remedy="right"):
        model(text, torch.tensor([[0, 1, 1, 1, 1]]).expand(2, 5))
    with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
        model(text, cache=Cache())
    with refused("random_blocks", expected="at most", got="3", remedy="fewer"):
        sample_blocks(12, 1, 3, seed=0, size=256, max_length=4096)
    pattern = BlockSparse(2, 1, 3, 0, 64)
    with refused("graph", expected="3 times", got="16 targets", remedy="another pattern"):
        pattern.bind(16)
