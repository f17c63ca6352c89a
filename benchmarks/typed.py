"""Processor time on a CPU of R-GCN and HGT layers, of PyTorch Geometric and of Edgewise.

    python -m benchmarks.typed [--relations 8 50 90] [--bases 0] [--rounds 5] [--json FILE]

The layers have the same weights and get the same random graph, in which each relation joins nodes
of one type with nodes of one type (R-GCN ignores the types of nodes). Outputs must agree. Then
forward passes, and forward and backward passes, of both alternate on one thread, and their median
processor times are compared, because other load on the machine hardly changes these. Freed memory
is kept, as in the command ``edgewise train``, for both. ``--profile`` instead prints the operators
of Edgewise that take most of a forward and backward pass, by PyTorch's profiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import edgewise.interop.pyg as drop_ins
from edgewise import graphs
from edgewise.app.train.process import keep_freed_memory
from edgewise.models.rgcn import RGCNLayer

WIDTH, HEADS, TYPES = 64, 8, 4
AGREEMENT = 1e-4  # Largest absolute difference of outputs, which are sums of up to 100 float32.


def random_graph(nodes: int, edges: int, relations: int) -> graphs.TypedGraph:
    """Return a random typed graph with equally many edges in each relation."""
    names = [f"type{i}" for i in range(TYPES)]
    per_type = nodes // TYPES
    return graphs.typed(
        {
            (names[r % TYPES], f"r{r}", names[r // TYPES % TYPES]): torch.randint(
                per_type, (2, edges // relations)
            )
            for r in range(relations)
        },
        dict.fromkeys(names, per_type),
    )


def rgcn(graph: graphs.TypedGraph, bases: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return a call of each library's R-GCN layer with the same weights."""
    edgewise = RGCNLayer(WIDTH, WIDTH, len(graph.relations), bases)
    layer = pyg.RGCNConv(WIDTH, WIDTH, len(graph.relations), num_bases=bases or None)
    layer.load_state_dict(edgewise.state_dict())
    index, types = graph.edge_index, graph.edge_type
    return {"PyG": lambda x: layer(x, index, types), "Edgewise": lambda x: edgewise(x, graph)}


def hgt(graph: graphs.TypedGraph, _bases: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return a call of each library's HGT layer with the same weights."""
    metadata = list(graph.node_types), list(graph.relations)
    layers = [library.HGTConv(WIDTH, WIDTH, metadata, heads=HEADS) for library in (pyg, drop_ins)]
    layers[1].load_state_dict(layers[0].state_dict())
    start = dict(zip(graph.node_types, range(0, 10**9, graph.num_targets // TYPES), strict=False))
    indices = {
        (s, name, t): graph.select(graph.edge_type == r).edge_index
        - torch.tensor([[start[s]], [start[t]]])
        for r, (s, name, t) in enumerate(graph.relations)
    }

    def call(layer: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.cat([*layer(graph.unpack(x), indices).values()])

    return {"PyG": call(layers[0]), "Edgewise": call(layers[1])}


def compared(calls: dict[str, Callable[[Tensor], Tensor]], x: Tensor, rounds: int) -> dict:
    """Return the median seconds of both, forward, and forward and backward."""
    outs = [call(x).detach() for call in calls.values()]
    difference = float((outs[0] - outs[1]).abs().max())
    if difference > AGREEMENT:
        raise SystemExit(f"outputs differ by {difference:.1e}")
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.process_time()
            out = call(x)
            forward = time.process_time() - began
            out.sum().backward()
            both = time.process_time() - began
            x.grad = None
            for phase, taken in (("forward", forward), ("forward + backward", both)):
                seconds.setdefault((phase, name), []).append(taken)
    medians = {key: statistics.median(taken[1:]) for key, taken in seconds.items()}
    return {
        phase: {name: medians[phase, name] for name in calls}
        for phase in ("forward", "forward + backward")
    }


def profile(call: Callable[[Tensor], Tensor], x: Tensor, rounds: int) -> None:
    """Print the operators that take most of the processor time of forward and backward passes."""
    call(x).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(rounds):
            call(x).sum().backward()
    operators = profiler.key_averages()
    total = sum(operator.self_cpu_time_total for operator in operators)
    for operator in sorted(operators, key=lambda operator: -operator.self_cpu_time_total)[:8]:
        print(f"    {operator.self_cpu_time_total / total:5.0%}  {operator.key}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=20_000, help="number of nodes")
    parser.add_argument("--edges", type=int, default=400_000, help="number of edges")
    parser.add_argument("--relations", type=int, nargs="+", default=[8, 50, 90])
    parser.add_argument("--bases", type=int, default=0, help="basis matrices of R-GCN (0 = none)")
    parser.add_argument("--rounds", type=int, default=4, help="number of rounds after the first")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--profile", action="store_true", help="print the slowest operators")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(1)
    results = {}
    print(f"{arguments.nodes} nodes, {arguments.edges} edges, width {WIDTH}, processor seconds")
    for relations in arguments.relations:
        graph = random_graph(arguments.nodes, arguments.edges, relations)
        x = torch.randn(graph.num_targets, WIDTH, requires_grad=True)
        for make in (rgcn, hgt):
            name = f"{make.__name__}, {relations} relations"
            calls = make(graph, arguments.bases)
            if arguments.profile:
                print(name)
                profile(calls["Edgewise"], x, arguments.rounds)
                continue
            results[name] = compared(calls, x, arguments.rounds + 1)
            for phase, seconds in results[name].items():
                slow, fast = seconds["PyG"], seconds["Edgewise"]
                times = f"{slow:>9.3f}{fast:>9.3f}{slow / fast:>8.1f}×"
                print(f"{name:24}{phase:20}{times}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
