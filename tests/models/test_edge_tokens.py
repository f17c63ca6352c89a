"""ESA and TokenGT, whose tokens include the edges, against their formulas with dense masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import encodings, graphs, models
from edgewise.layers import MultiHeadAttention
from tests.errors import refused
from tests.models.test_graph_transformers import EDGE, HEADS, SIZES, WIDTH, packed


def attention(layer: MultiHeadAttention, query: Tensor, source: Tensor, mask: Tensor) -> Tensor:
    """Attention with a dense mask ``[targets, sources]``; zeros for a target without sources."""
    if layer.qkv is not None:
        q, k, v = (source @ w.T for w in layer.qkv.weights())
        q, k, v = (
            x + b for x, b in zip((q, k, v), layer.qkv.bias.split(layer.qkv.widths), strict=True)
        )
    else:
        q, k, v = layer.query(query), layer.key(source), layer.value(source)
    q, k, v = (x.view(len(x), HEADS, WIDTH // HEADS) for x in (q, k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0)
    out: Tensor = layer.output(torch.einsum("hij,jhd->ihd", weights, v).flatten(1))
    return out


def dense_block(layer: nn.Module, h: Tensor, mask: Tensor) -> Tensor:
    """Pre-norm Transformer layer with a dense mask."""
    first, second = layer.attention, layer.feed_forward
    normed = first.norm(h)
    h = h + attention(first.sublayer, normed, normed, mask)
    out: Tensor = h + second.sublayer(second.norm(h))
    return out


def shares_an_end(edge_index: Tensor) -> Tensor:
    """The [E, E] mask of the paper: edges with a node in common, none with itself."""
    ends = [set(pair) for pair in edge_index.T.tolist()]
    return torch.tensor(
        [[i != j and bool(a & b) for j, b in enumerate(ends)] for i, a in enumerate(ends)],
        dtype=torch.bool,
    ).view(len(ends), len(ends))


def test_the_line_graph_is_the_mask_of_the_paper() -> None:
    pairs = torch.tensor([[0, 1, 2, 2, 3, 3, 0, 0], [1, 0, 1, 2, 4, 5, 1, 4]])
    graph = graphs.edges(pairs, 7)  # with a reverse, a duplicate, a self-loop and a lone node
    assert torch.equal(graphs.line_graph(graph).dense(), shares_an_end(pairs))
    nothing = graphs.line_graph(graphs.edges(torch.empty(2, 0).long(), 3))
    assert (nothing.num_targets, nothing.num_edges) == (0, 0)
    with refused("graph", expected="as many targets", got="", remedy="same nodes"):
        graphs.line_graph(graphs.complete().bind(2, 3))


def test_esa_by_its_formula() -> None:
    torch.manual_seed(0)
    model = models.esa(
        WIDTH, 2, edge_width=EDGE, position_size=3, width=WIDTH, heads=HEADS, blocks="MSPS", seeds=3
    )
    model = model.double().eval()
    model.head = nn.Identity()  # A ReLU could hide differences.
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    x, graph, edge_attr = packed(4)
    nodes = model.position(model.embed(x), model.position.code(graph))
    masked, complete, pool, last = model.layers
    expected, first = [], 0
    for n in SIZES:
        inside = (graph.target >= first) & (graph.target < first + n)
        source, target = graph.edge_index[:, inside]
        h = model.embed_edges(torch.cat([nodes[source], nodes[target], edge_attr[inside]], -1))
        h = dense_block(masked, h, shares_an_end(graph.edge_index[:, inside]))
        h = dense_block(complete, h, torch.ones(len(h), len(h), dtype=torch.bool))
        reads = torch.ones(3, len(h), dtype=torch.bool)
        z = attention(pool.attention, pool.seeds, pool.norm(h), reads)
        z = z + pool.network.sublayer(pool.network.norm(z))
        z = dense_block(last, z, torch.ones(3, 3, dtype=torch.bool))
        expected.append(model.norm(z).mean(0))
        first += n
    out = model(x, graph, edge_attr=edge_attr, batch=SIZES)
    torch.testing.assert_close(out, torch.stack(expected), rtol=0, atol=1e-11)


def test_the_line_graph_of_a_packed_batch_is_packed() -> None:
    _, graph, _ = packed()
    line = graphs.line_graph(graph)
    assert line.segments is not None
    owner = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))[graph.target]
    assert all(torch.equal(sizes, owner.bincount(minlength=3)) for sizes in line.segments)
    shuffled = graphs.Edges(graph.edge_index.flip(1), 11, 11, graph.segments)
    assert graphs.line_graph(shuffled).segments is None


def test_a_line_graph_that_does_not_fit_in_memory_is_refused() -> None:
    spokes = torch.arange(1, 100_001)
    hub = graphs.edges(torch.stack([spokes, torch.zeros_like(spokes)]), 100_001)
    with refused("graph", expected="free memory", got="10,000,100,000 pairs", remedy="degree"):
        graphs.line_graph(hub)


@pytest.mark.parametrize("blocks", ["MMS", "PM", "MPP", "MXP", "", 3, None])
def test_blocks_that_do_not_fit_are_refused(blocks: str) -> None:
    with refused("blocks", expected="one P", got=repr(blocks), remedy="MMSPS"):
        models.esa(WIDTH, 2, blocks=blocks)


def test_token_gt_by_its_formula() -> None:
    torch.manual_seed(0)
    model = models.token_gt(
        WIDTH, 2, edge_width=EDGE, position_size=3, width=WIDTH, depth=2, heads=HEADS
    )
    model = model.double().eval()
    model.head = nn.Identity()  # A ReLU could hide differences.
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    x, graph, edge_attr = packed(5)
    identifiers = encodings.laplacian_eigenvectors(graph, 3).double()
    before, after = model.identify.weight.split(3, dim=1)
    expected, first = [], 0
    for n in SIZES:
        inside = (graph.target >= first) & (graph.target < first + n)
        source, target = graph.edge_index[:, inside]
        own = identifiers[first : first + n]
        tokens = [
            model.kinds[:1],
            model.embed(x[first : first + n]) + own @ (before + after).T + model.kinds[1],
            model.embed_edges(edge_attr[inside])
            + identifiers[source] @ before.T
            + identifiers[target] @ after.T
            + model.kinds[2],
        ]
        h = torch.cat(tokens)
        for layer in model.layers:
            h = dense_block(layer, h, torch.ones(len(h), len(h), dtype=torch.bool))
        expected.append(model.norm(h[0]))
        first += n
    out = model(x, graph, edge_attr=edge_attr, batch=SIZES)
    torch.testing.assert_close(out, torch.stack(expected), rtol=0, atol=1e-11)


def test_signs_of_identifiers_are_random_for_each_graph_in_training() -> None:
    torch.manual_seed(0)
    ring = graphs.edges(torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), 3)
    graph = graphs.batch([ring] * 16)
    x = torch.randn(3, WIDTH).repeat(16, 1)
    model = models.token_gt(WIDTH, 2, position_size=2, width=WIDTH, depth=1, heads=HEADS)
    code = model.position.code(graphs.batch([ring])).repeat(16, 1)
    outputs = model(x, graph, positions=code, batch=[3] * 16)
    assert len(outputs.mul(1e4).round().unique(dim=0)) == 4  # two signs for two eigenvectors
    outputs = model.eval()(x, graph, positions=code, batch=[3] * 16)
    torch.testing.assert_close(outputs, outputs[:1].expand(16, -1))
