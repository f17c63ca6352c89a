"""All processes end with the same error; no process waits for one that has died."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from edgewise import Additive, ArgumentError, Graph, distributed, graphs
from edgewise._utils.errors import EdgewiseError
from edgewise.app.train import process
from edgewise.distributed.exchange import all_to_all, communicating, sendable
from tests.distributed.processes import Processes
from tests.errors import refused


def nodes(count: int = 6, heads: int = 2, width: int = 4) -> list[torch.Tensor]:
    return [torch.randn(count, heads, width) for _ in range(3)]


def on_second(first: Any, second: Any) -> Any:
    return second if dist.get_rank() else first


def other_heads() -> None:
    distributed.attend(*nodes(heads=on_second(2, 4)), graphs.window(1))


def other_dtype() -> None:
    distributed.attend(
        *(x.to(on_second(torch.float, torch.double)) for x in nodes()), graphs.window(1)
    )


def other_gradient() -> None:
    query, key, value = nodes()
    distributed.attend(query.requires_grad_(on_second(False, True)), key, value, graphs.window(1))


def bias_with_a_gradient_on_one() -> None:
    bias = torch.randn(34, 2, requires_grad=on_second(False, True))
    distributed.attend(*nodes(), graphs.window(1), by="ring", bias=bias)


def score_with_a_gradient_on_one() -> None:
    score = Additive(weight=torch.randn(2, 4, requires_grad=on_second(False, True)))
    distributed.attend(*nodes(), graphs.window(1), by="heads", score=score)


def nodes_without_heads_on_one() -> None:
    divided = distributed.partition(graphs.window(1), 6)
    heads_first = [x.transpose(0, 1) for x in nodes()]
    divided.attend(*on_second(heads_first, [x[0] for x in heads_first]), layout="HND")


def other_pattern() -> None:
    distributed.attend(*nodes(), graphs.window(on_second(1, 2)))


def other_edges() -> None:
    edge_index = torch.tensor([[0, 5], [on_second(1, 2), 11]])
    distributed.attend(*nodes(), graphs.edges(edge_index, 12))


def local_pattern() -> None:
    distributed.partition(graphs.causal(), 6, is_local=True)


def other_way() -> None:
    distributed.attend(*nodes(), graphs.window(1), by=on_second("halo", "ring"))


def other_size() -> None:
    distributed.attend(*nodes(), graphs.window(1).bind(11))


def fewer_nodes_than_in_the_partition() -> None:
    divided = distributed.partition(graphs.window(1), 6)
    distributed.attend(*nodes(on_second(6, 5)), divided)


def bias_of_another_length() -> None:
    bias = torch.randn(on_second(34, 33), 2)
    distributed.attend(*nodes(), graphs.window(1), bias=bias)


def local_graph_of_another_size() -> None:
    distributed.partition(graphs.complete().bind(6, on_second(12, 11)), 6, is_local=True)


def unknown_way() -> None:
    distributed.attend(*nodes(), graphs.window(1), by="hallo")  # type: ignore[arg-type]


def three_heads() -> None:
    distributed.attend(*nodes(heads=3), graphs.window(1), by="heads")


def local_heads() -> None:
    distributed.partition(graphs.complete().bind(6, 12), 6, by="heads", is_local=True)


def zigzag_of_seven() -> None:
    distributed.attend(*nodes(7), graphs.causal(), by="zigzag")


def zigzag_of_edges() -> None:
    distributed.partition(graphs.edges(torch.zeros(2, 1).long(), 12), 6, by="zigzag")


def ring_of_sparsemax() -> None:
    distributed.attend(*nodes(), graphs.window(1), by="ring", normaliser="sparsemax")


def ring_of_a_function() -> None:
    score = lambda query, key: (query - key).square().sum(-1)  # noqa: E731
    distributed.attend(*nodes(), graphs.window(1), by="ring", score=score)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (other_heads, r"`heads of query`.* got 2 on process 0 and 4 on process 1"),
        (other_dtype, r"`dtype`.* got torch.float32 on process 0 and torch.float64 on process 1"),
        (
            other_gradient,
            r"`requires_grad of query`.* got False on process 0 and True on process 1",
        ),
        (bias_with_a_gradient_on_one, r"`requires_grad of bias`.* True on process 1"),
        (score_with_a_gradient_on_one, r"`requires_grad of score`.* True on process 1"),
        (nodes_without_heads_on_one, r"`query`: expected floats.*, on process 1"),
        (other_pattern, r"`graph`.* got window\(1\) on process 0 and window\(2\) on process 1"),
        (other_edges, r"`graph`.* 2 edges>, checksums of edges .* on process 1"),
        (local_pattern, r"`graph`: expected .* got the pattern causal"),
        (other_way, r"`by`.* got halo on process 0 and ring on process 1"),
        (other_size, r"`graph`: expected a graph with 12 targets.* 11 nodes.*, on process 0"),
        (fewer_nodes_than_in_the_partition, r"`query`: expected 6 nodes.* got 5, on process 1"),
        (bias_of_another_length, r"`bias`: expected shape .* \[33, 2\], on process 1"),
        (local_graph_of_another_size, r"`graph`.* 11 sources.* on process 1"),
        (unknown_way, r"`by`.* did you mean 'halo'"),
        (three_heads, r"`query`: expected a multiple of 2 heads.* got 3 heads"),
        (local_heads, r"`is_local`: expected False"),
        (zigzag_of_seven, r"`graph`: expected causal.* multiple of 4.* \[7, 7\] targets"),
        (zigzag_of_edges, r"`graph`: expected causal\(\), a window"),
        (ring_of_sparsemax, r"`normaliser`: expected softmax"),
        (ring_of_a_function, r"`score`: expected Dot"),
    ],
)
def test_all_processes_raise_the_same_error(
    two: Processes, call: Callable[[], None], message: str
) -> None:
    first, second = two.run(call)
    assert isinstance(first, ArgumentError)
    assert str(first) == str(second)
    assert re.search(message, str(first)), str(first)


def test_without_a_process_group() -> None:
    group = "an initialised process group"
    with refused("group", expected=group, got="none", remedy="init_process_group"):
        distributed.attend(*nodes(), graphs.window(1))


def of_another_group() -> None:
    first = dist.new_group([0])
    if dist.get_rank():
        with refused("group", expected="this process", got="other", remedy="of the group"):
            distributed.partition(graphs.window(1), 6, group=first)


def test_a_group_without_this_process(two: Processes) -> None:
    two.results(of_another_group)


def die_in(graph: Graph, way: Any) -> None:
    query, key, value = nodes()
    divided = distributed.partition(graph, 6, by=way)
    divided.attend(query, key, value)
    if dist.get_rank():
        os._exit(1)
    divided.attend(query, key, value)


def test_a_process_that_dies_ends_the_others(tmp_path: Path) -> None:
    processes = Processes(2, tmp_path)
    try:
        error, _ = processes.run(die_in, graphs.window(1).bind(12), "halo")
        assert isinstance(error, distributed.ProcessError)
        assert "another process has ended" in str(error)
    finally:
        processes.stop()


def die_in_backward(way: Any) -> None:
    nodes_of_process = [x.requires_grad_() for x in nodes()]
    out = distributed.attend(*nodes_of_process, graphs.window(1), by=way)
    if dist.get_rank():
        os._exit(1)
    out.sum().backward()


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("way", ["ring", "halo", "heads"])
def test_a_process_that_dies_in_backward_ends_the_others(tmp_path: Path, way: str) -> None:
    processes = Processes(2, tmp_path)
    try:
        error, _ = processes.run(die_in_backward, way)
        assert isinstance(error, distributed.ProcessError)
    finally:
        processes.stop()


def answer_late() -> None:
    group = dist.new_group(timeout=timedelta(seconds=1))
    divided = distributed.partition(graphs.window(1), 6, group=group)
    if dist.get_rank():
        time.sleep(3)
        return
    divided.attend(*nodes())


def test_a_process_that_does_not_answer_ends_the_others(two: Processes) -> None:
    error, _ = two.run(answer_late)
    assert isinstance(error, distributed.ProcessError)
    assert "does not answer" in str(error)


def fail_on_the_second(error: type[BaseException]) -> None:
    rank = dist.get_rank()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_TRACEBACK", "1")
        patch.setattr(process, "rank_and_world_size", lambda: (rank, 2))
        if rank:
            with pytest.raises(error), process.agreed():
                raise error("only here")
        else:
            with pytest.raises(EdgewiseError, match="process 1 of 2 has failed"), process.agreed():
                pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_unexpected_error_of_one_process_ends_all(
    two: Processes, error: type[BaseException]
) -> None:
    two.results(fail_on_the_second, error)


def send_from_the_cpu_in_a_group_of_gpus() -> None:
    group = dist.new_group(backend="cuda:gloo")
    with pytest.raises(RuntimeError, match="No backend type associated") as raised:
        all_to_all(torch.ones(2, 3), [1, 1], [1, 1], group)
    assert not isinstance(raised.value, distributed.ProcessError)


def test_other_errors_are_unchanged(two: Processes) -> None:
    two.results(send_from_the_cpu_in_a_group_of_gpus)
    with pytest.raises(torch.OutOfMemoryError, match="no memory"), communicating():
        raise torch.OutOfMemoryError("no memory")
    lost = pytest.raises(distributed.ProcessError, match="NCCL")
    with lost as raised, communicating(), communicating():
        raise dist.DistBackendError("NCCL error")
    assert str(raised.value).count("another process has ended") == 1


def devices_of_sent_indices() -> list[str]:
    index = torch.arange(3)
    groups = [
        dist.new_group(backend=f"{device}:gloo") for device in ("cpu", "meta", "meta:gloo,cpu")
    ]
    return [sendable(index, group).device.type for group in groups]


def test_indices_are_sent_from_a_device_of_the_group(two: Processes) -> None:
    assert two.results(devices_of_sent_indices) == [["cpu", "meta", "cpu"]] * 2
