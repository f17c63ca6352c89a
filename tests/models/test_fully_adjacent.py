"""A complete last layer reads what no edge leads to; without it nothing beyond the layers is."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data

from edgewise import graphs, models


@pytest.mark.parametrize("layer", ["gcn", "gin", "gat", "gatv2", "transformer"])
@pytest.mark.parametrize("last", ["complete", "graph"])
def test_who_is_seen(layer: str, last: str) -> None:
    line = graphs.edges(torch.stack([torch.arange(1, 6), torch.arange(5)]), 6)  # i reads i + 1
    two = graphs.batch([line, line])
    torch.manual_seed(0)
    x = torch.randn(12, 3, requires_grad=True)
    model = models.fully_adjacent(3, 2, layer=layer, last=last, depth=3, pool="class").eval()
    (model(x, two, batch=[6, 6])[0] * torch.randn(2)).sum().backward()
    seen = (x.grad != 0).any(-1).tolist()
    reach = 6 if last == "complete" else 4
    assert seen == [True] * reach + [False] * (12 - reach)


def test_the_last_layer_alone_has_all_pairs() -> None:
    line, edges = graphs.window(0, 1).bind(6), []
    model = models.fully_adjacent(3, 2, depth=3)
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda _, called: edges.append(called[1].num_edges))
    model(torch.randn(6, 3), line)
    assert edges == [line.num_edges, line.num_edges, 36]


@pytest.mark.slow
def test_the_complete_layer_alone_picks_the_leaf() -> None:
    """NeighborsMatch of depth 3, as far as a few hundred steps of training go."""
    found = {}
    for last in ("complete", "graph"):
        torch.manual_seed(0)
        splits = data.neighbors_match(depth=3, batch_size=100).load()
        model = models.fully_adjacent(
            **splits.model_arguments, layer="transformer", last=last, heads=1, depth=2, pool="class"
        )
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        loader = iter(splits.train.loader(100, seed=0))
        for _ in range(150):
            batch = next(loader)
            out = model(*batch.inputs, **batch.keywords)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(out, batch.target).backward()
            optimiser.step()
        batch = splits.test.make(torch.arange(1000))
        right = model.eval()(*batch.inputs, **batch.keywords).argmax(1) == batch.target
        found[last] = right.float().mean()
    assert found["complete"] > 0.9
    assert found["graph"] < 0.3
