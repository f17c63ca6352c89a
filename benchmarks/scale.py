"""Bytes, memory and seconds of one graph on several processes, measured and computed.

``python -m benchmarks.scale`` compares the bytes that two and four processes send over their
sockets with those that ``Partition.report`` computes, and the halo of a random graph with its
expected size. From the bytes and seconds an edge that it measures here, it computes the same for a
graph of 10⁸ nodes and 10⁹ edges on several machines. ``docs/background/scale.md`` has the formulas.
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import edgewise as ew
from edgewise import distributed, graphs
from edgewise.graphs.graph import held_bytes

BYTES_SENT = 200
"""Offset in ``struct tcp_info`` (Linux 4.19 and later) of the bytes sent and the bytes repeated."""


def bytes_sent() -> int:
    """Bytes that this process has sent over all its TCP sockets (Linux)."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        if not (entry.is_symlink() and str(entry.readlink()).startswith("socket:")):
            continue
        with socket.socket(fileno=os.dup(int(entry.name))) as connection:
            if connection.type == socket.SOCK_STREAM and connection.family != socket.AF_UNIX:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                sent, repeated = struct.unpack_from("<QQ", info, BYTES_SENT)
                total += sent - repeated
    return total


def random_graph(nodes: int, edges: int) -> ew.Graph:
    """Directed graph of random edges, with duplicates."""
    generator = torch.Generator().manual_seed(0)
    return graphs.edges(torch.randint(nodes, (2, edges), generator=generator), nodes)


def expected_halo(nodes: int, edges: int, processes: int) -> float:
    """Expected number of distinct sources on other processes, for random edges.

    A process has E/k edges with uniformly random sources, 1 - 1/k of them on other processes.
    """
    return nodes * (1 - 1 / processes) * -math.expm1(-edges / (processes * nodes))


def measure(pattern: graphs.Pattern, nodes: int, heads: int, width: int, way: Any) -> list[int]:
    """Bytes that this process sends in one call forward and backward, reported and measured."""
    rank, count = dist.get_rank(), dist.get_world_size()
    sizes = [nodes * (r + 1) // count - nodes * r // count for r in range(count)]
    divided = distributed.partition(pattern, sizes[rank], by=way)
    shape = sizes[rank], heads, width
    query, key, value = (torch.randn(shape).requires_grad_() for _ in range(3))
    divided.attend(query, key, value).sum().backward()
    # The system sends what it has buffered before a barrier ends.
    dist.barrier()
    start = bytes_sent()
    out = divided.attend(query, key, value)
    dist.barrier()
    forward = bytes_sent()
    out.sum().backward()
    dist.barrier()
    backward = bytes_sent()
    traffic = divided.report(query, key, value).processes[rank]
    return [
        traffic.received_rows,
        traffic.sent_forward,
        forward - start,
        traffic.sent_backward,
        backward - forward,
    ]


def work(rank: int, count: int, store: str, problems: list[Any], queue: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    queue.put((rank, [measure(*problem) for problem in problems]))
    dist.barrier()
    dist.destroy_process_group()


def print_traffic(count: int, nodes: int, edges: int, heads: int, width: int) -> None:
    named = {
        "random edges": random_graph(nodes, edges),
        "window(64)": graphs.window(64),
        "window + hub": graphs.window(64) | graphs.hubs([0]),
        "causal()": graphs.causal(),
    }
    ways = [(name, way) for name in named for way in ("halo", "heads", "ring")]
    problems = [(named[name], nodes, heads, width, way) for name, way in ways]
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = count, f"{folder}/store", problems, queue
        started = mp.start_processes(
            work, arguments, nprocs=count, join=False, start_method="spawn"
        )
        results = dict(queue.get() for _ in range(count))
        started.join()
    print(f"\n{count} processes, {nodes:,} nodes, {heads} heads of width {width}, float32")
    print(
        "graph         by     process  rows received  forward: reported      sent  "
        "backward: reported      sent"
    )
    for number, (name, way) in enumerate(ways):
        for rank in range(count):
            rows, forward, sent, backward, returned = results[rank][number]
            print(
                f"{name:12}  {way:5}  {rank:7}  {rows:13,}  {forward:17,}  {sent:8,}  "
                f"{backward:18,}  {returned:8,}"
            )
    print(f"expected halo of random edges: {expected_halo(nodes, edges, count):,.0f} rows")


def seconds_and_bytes(nodes: int, edges: int, heads: int, width: int) -> tuple[float, float]:
    """Seconds of one edge, forward and backward on one thread, and bytes of its graph."""
    graph = random_graph(nodes, edges)
    query, key, value = (torch.randn(nodes, heads, width).requires_grad_() for _ in range(3))
    seconds = []
    for _ in range(4):
        start = time.process_time()
        ew.attend(query, key, value, graph, engine="rows").sum().backward()
        seconds.append(time.process_time() - start)
    return min(seconds) / edges, held_bytes(graph) / edges


def print_estimate(options: argparse.Namespace, seconds: float, graph_bytes: float) -> None:
    nodes, edges, width = options.all_nodes, options.all_edges, options.heads * options.width
    gigabytes, hours = 1e9, 3600
    print(
        f"\n{nodes:.0e} nodes, {edges:.0e} edges, width {width}, {options.layers} layers, float32, "
        f"{options.bandwidth} GB/s a machine, {options.cores} cores a machine, a training step "
        "over the whole graph"
    )
    print("machines  halo rows  graph GB  nodes GB  halo GB  sent GB  compute h  network h")
    for machines in options.machines:
        halo = expected_halo(nodes, edges, machines)
        node_bytes = 4 * width * nodes / machines
        # Query, key, value, output and their gradients of each layer.
        stored = 8 * node_bytes * options.layers
        received = 2 * 4 * width * halo
        sent = 2 * received * options.layers
        compute = seconds * edges / machines / options.cores * options.layers
        network = sent / gigabytes / options.bandwidth
        print(
            f"{machines:8}  {halo:9.2e}  {graph_bytes * edges / machines / gigabytes:8.1f}  "
            f"{stored / gigabytes:8.1f}  {2 * received * options.layers / gigabytes:7.1f}  "
            f"{sent / gigabytes:7.1f}  {compute / hours:9.4f}  {network / hours:9.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--edges", type=int, default=40000)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--all-nodes", type=float, default=1e8)
    parser.add_argument("--all-edges", type=float, default=1e9)
    parser.add_argument("--machines", type=int, nargs="*", default=[4, 16, 64])
    parser.add_argument("--cores", type=int, default=32)
    parser.add_argument("--bandwidth", type=float, default=1.25, help="GB/s of each machine")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for count in options.processes:
        print_traffic(count, options.nodes, options.edges, options.heads, options.width)
    scale = 50
    seconds, graph_bytes = seconds_and_bytes(
        scale * options.nodes, scale * options.edges, options.heads, options.width
    )
    flops = 4 * options.heads * options.width
    print(
        f"\nOne edge: {flops} floating-point operations forward, {graph_bytes:.1f} bytes of graph, "
        f"{1e9 * seconds:.0f} ns forward and backward on one core"
    )
    print_estimate(options, seconds, graph_bytes)


if __name__ == "__main__":
    main()
