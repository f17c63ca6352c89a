"""Sampled training on a graph on disk: time and memory of sorting, an epoch and exact evaluation.

    python -m benchmarks.on_disk [--nodes 200000] [--edges 3000000] [--folder FOLDER]

The graph is made by this script: half of the edges are within a class, and the features of a node
tell a little of its class. Memory is what the process allocates (RssAnon), above what it has
before; pages of the mapped files are not part of it, because the operating system frees them when
memory is short. PyTorch Geometric's NeighborLoader trains GraphSAGE with the same fanouts, batch
size and nodes from memory, if pyg-lib or torch-sparse is installed, which it needs; both sides
evaluate with all neighbours. Time is processor time, then elapsed time.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.cpu.measure import status
from edgewise import models
from edgewise.app.kinds.nodes import NodeArrays
from edgewise.app.train import Batch

CLASSES, FANOUTS, SIZE, BLOCK = 10, (10, 10), 512, 1_000_000

Outputs = Callable[..., tuple[Tensor, Tensor]]
"""Function of a model and a batch that returns outputs and targets."""


def write_graph(folder: Path, nodes: int, edges: int, width: int, labelled: int) -> None:
    """Write the arrays of a graph with classes for ``labelled`` of its nodes."""
    random = np.random.default_rng(0)
    label = random.integers(CLASSES, size=nodes)
    by_class = label.argsort(kind="stable")
    first = np.searchsorted(label[by_class], np.arange(CLASSES + 1))
    mean = 0.1 * random.normal(size=(CLASSES, width))
    x = open_memmap(folder / "x.npy", "w+", np.float32, (nodes, width))
    for start in range(0, nodes, 100_000):
        rows = label[start : start + 100_000]
        x[start : start + len(rows)] = mean[rows] + random.normal(size=(len(rows), width))
    edge_index = open_memmap(folder / "edge_index.npy", "w+", np.int64, (2, edges))
    for start in range(0, edges, BLOCK):
        count = min(BLOCK, edges - start)
        source, target = random.integers(nodes, size=(2, count))
        group = label[source]
        within = first[group] + (random.random(count) * np.diff(first)[group]).astype(np.int64)
        target = np.where(random.random(count) < 0.5, by_class[within], target)
        edge_index[:, start : start + count] = source, target
    label[random.permutation(nodes)[labelled:]] = -1
    np.save(folder / "y.npy", label)


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print time and peak memory of a block."""
    before, peak, stop = status("RssAnon"), [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, processor_start = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        seconds = time.perf_counter() - start
        processor_seconds = time.process_time() - processor_start
        stop.set()
        watcher.join()
    used = max(0, peak[0] - before) / 2**20
    print(f"{name:52}{processor_seconds:8.1f} s {seconds:8.1f} s {used:8,.0f} MiB", flush=True)


def train_epoch(batches: Iterable[Any], model: nn.Module, outputs: Outputs) -> None:
    """Train for one epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches:
        loss = cross_entropy(*outputs(model, batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=3_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--labelled", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="folder for the graph; temporary by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = arguments.nodes, arguments.edges, arguments.width, arguments.labelled
        if not (folder / "y.npy").is_file():
            write_graph(folder, *sizes)
        run(folder)


def run(folder: Path) -> None:
    """Print the table for the graph of a folder."""
    data = NodeArrays(str(folder), fanouts=FANOUTS, batch_size=SIZE)
    with measured("open, and sort the edges if it is the first time"):
        splits = data.load()
    loaders = splits.loaders(0)
    torch.manual_seed(0)
    model = models.graphsage(**splits.model_arguments)

    def of_batch(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        return batch.select_outputs(batch.outputs(model)), batch.target

    with measured(f"epoch of {splits.train.count:,} nodes"):
        train_epoch(loaders["train"], model, of_batch)
    evaluate(f"exact evaluation of {splits.test.count:,} nodes", loaders["test"], model, of_batch)
    near = (batch.neighbourhood() for batch in loaders["test"])  # type: ignore[attr-defined]
    evaluate("the same by neighbourhoods of two steps", near, model, of_batch)
    try:
        peer_epoch(folder, splits.train.count, splits.test.count)
    except ImportError as error:
        print(f"NeighborLoader: {error}")


def evaluate(
    name: str,
    batches: Iterable[Any],
    model: nn.Module,
    outputs: Outputs,
) -> None:
    """Print time, memory and accuracy of an evaluation."""
    model.eval()
    right = count = 0
    with measured(name), torch.no_grad():
        for batch in batches:
            logits, target = outputs(model, batch)
            right += int((logits.argmax(-1) == target).sum())
            count += len(target)
    print(f"accuracy {right / count:.1%}")


def peer_epoch(folder: Path, count: int, tested: int) -> None:
    """Train PyTorch Geometric's GraphSAGE for one epoch on samples of its NeighborLoader, and
    evaluate it with all neighbours.
    """
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.nn import GraphSAGE

    with measured("NeighborLoader: load, and sort the edges"):
        edge_index = torch.from_numpy(np.load(folder / "edge_index.npy"))
        data = Data(
            x=torch.from_numpy(np.load(folder / "x.npy")),
            y=torch.from_numpy(np.load(folder / "y.npy")),
            edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1),
        )
        labelled = (data.y >= 0).nonzero()[:, 0]
        labelled = labelled[torch.randperm(len(labelled))]
        seeds, others = labelled[:count], labelled[-tested:]
        loader = NeighborLoader(data, list(FANOUTS), seeds, batch_size=SIZE, shuffle=True)
    tests = NeighborLoader(data, [-1] * len(FANOUTS), others, batch_size=SIZE)
    model = GraphSAGE(data.num_features, 64, len(FANOUTS), CLASSES)

    def of_batch(model: nn.Module, batch: Data) -> tuple[Tensor, Tensor]:
        outputs = model(batch.x, batch.edge_index)
        return outputs[: batch.batch_size], batch.y[: batch.batch_size]

    with measured(f"NeighborLoader: epoch of {count:,} nodes"):
        train_epoch(loader, model, of_batch)
    evaluate(f"NeighborLoader: evaluation of {tested:,} nodes", tests, model, of_batch)


if __name__ == "__main__":
    main()
