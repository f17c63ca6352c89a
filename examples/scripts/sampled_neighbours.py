"""GraphSAGE on mini-batches of sampled neighbourhoods, for graphs that do not fit in memory.

    EDGEWISE_DATA=<folder> python examples/scripts/sampled_neighbours.py

The graph here is Cora, which fits in memory, so that training on samples can be compared with
training on the whole graph. The memory of a step grows with the batch size and the fanouts, not
with the size of the graph.
"""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from edgewise.app.kinds.nodes import Planetoid
from edgewise.app.train import Loader, NeighbourSampler, neighbour_batches
from edgewise.models import graphsage

EPOCHS, FANOUTS, SIZE = 40, [10, 10], 20  # There is one fanout per layer; SIZE is the batch size.


def trained(batches: Loader, in_width: int, out_width: int) -> torch.nn.Module:
    """Return a model that was trained on these batches, sampled or of the whole graph."""
    torch.manual_seed(0)
    model = graphsage(in_width, out_width, depth=len(FANOUTS), dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(EPOCHS):
        batches.set_epoch(epoch)
        for batch in batches:
            loss = cross_entropy(batch.select_outputs(model(*batch.inputs)), batch.target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def accuracies() -> dict[str, float]:
    """Return the test accuracy after each kind of training; testing uses all neighbours."""
    splits = Planetoid("Cora", sparse=False).load()
    loaders = splits.loaders(0)
    (batch,), (asked,) = loaders["train"], loaders["test"]
    (x, graph), nodes = batch.inputs, batch.select
    labels = torch.zeros(len(x), dtype=torch.long).index_copy_(0, nodes, batch.target)
    sampled = neighbour_batches(
        NeighbourSampler(graph, FANOUTS), x, labels, nodes, size=SIZE, seed=0
    )
    found = {}
    for name, batches in (
        ("sampled neighbourhoods", sampled),
        ("the whole graph", loaders["train"]),
    ):
        model = trained(batches, **splits.model_arguments)
        with torch.no_grad():
            right = asked.select_outputs(model(*asked.inputs)).argmax(-1) == asked.target
        found[name] = float(right.float().mean())
    return found


if __name__ == "__main__":
    for name, accuracy in accuracies().items():
        print(f"trained on {name:24}{accuracy:.1%}")
