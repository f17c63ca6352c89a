"""Time to precompute the structural encodings of ZINC's 12,000 molecules.

    EDGEWISE_DATA=<folder> python -m benchmarks.encodings [--threads 2] [--json FILE]

Encodings of nodes and of pairs of nodes are computed as before the first epoch of a training: for
several hundred molecules at a time, and written to an empty cache. The benchmark also times the
edges on shortest paths, resistance distances, the intimate nodes of Graph-BERT, and the distance
encoding relative to the first atom of each molecule.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from edgewise import encodings
from edgewise._utils.ragged import starts
from edgewise.app.kinds.molecules import ZINC
from edgewise.app.train import PackedGraphs
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph

WIDTH, HEADS, AT_ONCE = 64, 8, 500


def cut(graphs: PackedGraphs, count: int) -> PackedGraphs:
    """Return the first ``count`` of the graphs."""
    nodes, edges = int(graphs.node_start[count]), int(graphs.edge_start[count])
    return PackedGraphs(
        graphs.x[:nodes],
        graphs.edge_index[:, :edges],
        graphs.edges[:edges],
        graphs.node_start[: count + 1],
        graphs.edge_start[: count + 1],
    )


def kept(graphs: PackedGraphs) -> dict[str, Callable[[], Any]]:
    """Return functions by name, each of which computes one encoding that training caches."""
    by_name: dict[str, Any] = {name: kind(WIDTH) for name, kind in encodings.OF_NODES.items()}
    by_name |= {name: kind(HEADS) for name, kind in encodings.OF_PAIRS.items()}
    by_name["path_edges"] = encodings.PathEdges(3, HEADS)
    return {
        name: lambda e=encoding: PrecomputedEncodings(graphs).prepare({"codes": e})
        for name, encoding in by_name.items()
    }


def others(graphs: PackedGraphs) -> dict[str, Callable[[], Any]]:
    """Return functions by name, each of which computes an encoding that training does not cache."""

    def chunks() -> Iterator[Graph]:
        for which in torch.arange(len(graphs)).split(AT_ONCE):
            yield graphs.take(which)[1]

    def from_the_first(graph: Graph) -> torch.Tensor:
        return encodings.distance_encoding(graph, starts(member_sizes(graph)), 5, walk=4)

    return {
        "resistance": lambda: [encodings.resistance_distances(g) for g in chunks()],
        "intimacy": lambda: [encodings.intimate_nodes(g, 7) for g in chunks()],
        "distance encoding": lambda: [from_the_first(g) for g in chunks()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="number of CPU threads"
    )
    parser.add_argument("--molecules", type=int, default=12_000, help="number of molecules")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    codes = ZINC().load().codes
    assert codes is not None
    graphs = cut(codes.graphs, arguments.molecules)
    print(f"{len(graphs)} molecules, {arguments.threads} threads")
    times = {}
    with TemporaryDirectory() as cache:
        os.environ["EDGEWISE_CACHE"] = cache
        for name, run in (kept(graphs) | others(graphs)).items():
            began = time.perf_counter(), time.process_time()
            run()
            wall, spent = time.perf_counter() - began[0], time.process_time() - began[1]
            times[name] = {"seconds": wall, "cpu_seconds": spent}
            print(f"{name:20} {wall:6.1f} s, {spent:6.1f} s of CPU time", flush=True)
    wall, spent = (
        sum(entry[key] for entry in times.values()) for key in ("seconds", "cpu_seconds")
    )
    print(f"{'all':20} {wall:6.1f} s, {spent:6.1f} s of CPU time")
    if arguments.json:
        arguments.json.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
