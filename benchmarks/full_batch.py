"""Time and memory of a full-batch training step on graphs with millions of edges, on a CPU.

    EDGEWISE_DATA=<folder> python -m benchmarks.full_batch [hollywood-gat ...] [--steps 5]

Each step computes the outputs of all nodes, the loss on a batch of links, the backward pass and the
update by Adam. The peak is the memory that a step adds to that of data, model and optimizer state.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from edgewise_examples import data as example_data
from torch import nn

from benchmarks.cpu.measure import spread, status
from edgewise import Graph, models
from edgewise.app.kinds.items import Gowalla, Recommendation
from edgewise.app.kinds.links import LinkPrediction
from edgewise.app.train import Data, Task
from edgewise.models.link_predictor import LinkPredictor


def gat_links(num_nodes: int) -> nn.Module:
    """Return a link predictor with node embeddings of width 64 and two GAT layers of 8 heads."""
    encoder = models.gat(64, 64, head_width=8, heads=8, output_heads=1, dropout=0.0)
    return LinkPredictor(num_nodes, 64, encoder, "dot")


CHOICES: dict[str, tuple[Callable[..., nn.Module], Data, Task]] = {
    "hollywood-sage": (
        models.link_predictor,
        example_data.hollywood_actors(),
        LinkPrediction(),
    ),
    "hollywood-gat": (gat_links, example_data.hollywood_actors(), LinkPrediction()),
    "gowalla-lightgcn": (models.lightgcn, Gowalla(), Recommendation()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "choices", nargs="*", default=list(CHOICES), help=f"models: {', '.join(CHOICES)}"
    )
    parser.add_argument("--steps", type=int, default=5, help="number of timed steps")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{arguments.threads} threads")
    for name in arguments.choices:
        make, source, task = CHOICES[name]
        splits = source.load()
        torch.manual_seed(0)
        model = make(**splits.model_arguments)
        batch = next(iter(splits.loaders(0)["train"]))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        seconds, peaks, losses = [], [], []
        for _ in range(arguments.steps + 1):
            Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
            start_memory, began = status("VmRSS"), time.perf_counter()
            optimizer.zero_grad()
            loss = task.loss(
                batch.select_outputs(model(*batch.inputs, **batch.keywords)), batch.target
            )
            loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - began)
            peaks.append(status("VmHWM") - start_memory)
            losses.append(loss.item())
        if not losses[-1] < losses[0]:
            raise SystemExit(f"{name}: the loss does not decrease: {losses}")
        middle, about = spread(seconds[1:])  # The first step also prepares the graph.
        graph = next(value for value in batch.inputs if isinstance(value, Graph))
        size = f"{graph.num_targets} nodes, {graph.num_edges} edges"
        print(
            f"{name:18}{size:34}{middle:7.2f} s ± {about:.0%}   peak {max(peaks) / 2**20:6.0f} MiB"
            f"   process {status('VmHWM') / 2**20:6.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
