"""SIGKILL of one process in the middle of training: the others end, and the run loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from edgewise import distributed, graphs, models
from tests.distributed.processes import Processes
from tests.distributed.test_training import FSDP, STEPS, TENSOR, TWO, assert_close, run

NODES, EPOCHS = 24, 4
Moment = tuple[str, int]
"""``("forward", 2)``: in the forward pass of epoch 2."""


def kill_this_process(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def ended(folder: Path, killed: int, function: Callable[..., Any], *arguments: Any) -> Exception:
    """The error of the first process of two that remain, when ``killed`` has ended the other."""
    folder.mkdir()
    processes = Processes(2, folder)
    try:
        results = processes.run(function, *arguments)
    finally:
        processes.stop()
    assert results[killed] is None
    return results[1 - killed]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "killed"),
    [(FSDP, 0), (FSDP, 1), (TENSOR, 1), (TWO, 0)],
    ids=["fsdp, 0", "fsdp, 1", "tensor, 1", "ddp, 0"],
)
def test_training(two: Processes, tmp_path: Path, values: dict[str, Any], killed: int) -> None:
    random = {**values, "model.dropout": 0.2}
    two.results(run, random, tmp_path / "whole")
    path = tmp_path / "run"
    error = ended(tmp_path / "killed", killed, run, random, path, STEPS // 2, False, killed)
    assert isinstance(error, distributed.ProcessError), repr(error)
    assert "another process has ended" in str(error)
    two.results(run, random, path, None, True)
    assert_close(path, tmp_path / "whole", rel=1e-12)


def attend_and_train(folder: Path, killed: int = -1, moment: Moment | None = None) -> list[Tensor]:
    """Train a graph Transformer on one divided graph, from the last checkpoint on, and return its
    weights. Process ``killed`` ends at the moment.
    """
    torch.manual_seed(0)
    rank, count = dist.get_rank(), NODES // dist.get_world_size()
    graph = graphs.edges(torch.randint(NODES, (2, 70)), NODES)
    x, labels = torch.randn(NODES, 6), torch.randint(3, (NODES,))
    nodes = slice(rank * count, (rank + 1) * count)
    divided = distributed.partition(graph, count, group=dist.new_group())
    network = models.graph_transformer(6, 3, width=8, heads=2, depth=2, norm="layer")
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    checkpoint, first = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"]
    for epoch in range(first, EPOCHS):
        if rank == killed and moment == ("forward", epoch):
            network.layers[1].register_forward_pre_hook(kill_this_process)
        if rank == killed and moment == ("backward", epoch):
            network.layers[0].register_full_backward_hook(kill_this_process)
        optimizer.zero_grad()
        with distributed.communicating():
            loss = cross_entropy(model(x[nodes], divided), labels[nodes])
            loss.backward()
        optimizer.step()
        if rank == 0:
            state = {"model": network.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch + 1}, folder / "new.pt")
            (folder / "new.pt").replace(checkpoint)
    return [x.detach() for x in network.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("moment", [("forward", 2), ("backward", 2)], ids=["forward", "backward"])
def test_one_graph(two: Processes, tmp_path: Path, moment: Moment, killed: int) -> None:
    (tmp_path / "whole").mkdir()
    whole, _ = two.results(attend_and_train, tmp_path / "whole")
    error = ended(tmp_path / "run", killed, attend_and_train, tmp_path / "run", killed, moment)
    assert isinstance(error, distributed.ProcessError), repr(error)
    assert "another process has ended" in str(error)
    assert torch.load(tmp_path / "run" / "checkpoint.pt")["epoch"] == moment[1]
    for weights in two.results(attend_and_train, tmp_path / "run"):
        assert all(map(torch.equal, weights, whole))
