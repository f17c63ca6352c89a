"""Time and memory of the engine ``rows`` on a CPU, versus other implementations.

    python -m benchmarks.cpu                       # everything, about 15 minutes
    python -m benchmarks.cpu --only transformer    # problems with transformer in the name
    python -m benchmarks.cpu --json results.json   # write the results to this file, too

Ratios are the other implementation's value divided by Edgewise's: above 1, Edgewise is faster or
needs less memory. Before timing, outputs and all gradients are compared, and a disagreement ends
the benchmark. The implementations alternate. Times are medians with half the interquartile range.
Memory is measured in separate processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, replace
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.cpu.measure import copy_bandwidth, disagreement, peak_memory, spread, times
from benchmarks.cpu.problems import PROBLEMS, Problem, build
from edgewise.engines.native.library import instruction_set

MOST_ERROR = 1e-4  # Largest allowed difference, relative to the maximum of a tensor, in float32.
TITLES = {"problem": 58, "peer": -9, "forward": 17, "fwd + bwd": 17, "memory": 7, "ours, ms": 12}
HEADER = " ".join(f"{title:{'>' if 0 < n < 58 else '<'}{abs(n)}}" for title, n in TITLES.items())


def machine() -> dict[str, Any]:
    """Return a description of the machine, the versions and the date, for the results."""
    model = next(
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return {
        "date": date.today().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "instructions": instruction_set(),
        "torch": torch.__version__,
        "pyg-lib": version("pyg-lib") if find_spec("pyg_lib") else "not installed",
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "copy, bytes a second": copy_bandwidth(),
    }


def measure(problem: Problem, rounds: int, bandwidth: float) -> dict[str, Any]:
    """Return times, memory and errors of all implementations of a problem.

    ``bandwidth`` is that of a copy, in bytes per second.
    """
    built = build(problem)
    errors = disagreement(built)
    if not all(error <= MOST_ERROR for error in errors.values()):
        sys.exit(f"{problem.name}: implementations disagree, so nothing is timed: {errors}")
    seconds_of_runs = times(built, rounds)
    start = time.perf_counter()
    built.prepare()
    prepared = time.perf_counter() - start
    edges, gathered = built.edges, built.gathered
    del built
    summary = {
        name: {way: dict(zip(("median", "spread"), spread(v), strict=True)) for way, v in f.items()}
        for name, f in seconds_of_runs.items()
    }
    forward = summary["edgewise"]["forward"]["median"]
    saved = summary[problem.peers[0]]["both"]["median"] - summary["edgewise"]["both"]["median"]
    return {
        "problem": asdict(problem),
        "name": problem.name,
        "edges": edges,
        "errors": errors,
        "seconds": summary,
        "memory": {name: peak_memory(problem, name) for name in seconds_of_runs},
        "preprocessing": {"seconds": prepared, "pays after calls": prepared / saved},
        "gathered / copied": gathered / forward / bandwidth,
        "nanoseconds an edge": forward / edges * 1e9,
    }


def lines(result: dict[str, Any]) -> list[str]:
    """Return the table's lines for a problem, one for each other implementation."""
    seconds, memory = result["seconds"], result["memory"]
    ours = seconds["edgewise"]
    out = []
    for peer in (name for name in seconds if name != "edgewise"):
        cells = []
        for way in ("forward", "both"):
            ratio = seconds[peer][way]["median"] / ours[way]["median"]
            error = seconds[peer][way]["spread"] + ours[way]["spread"]
            cells.append(f"{ratio:8.1f}x ±{error * ratio:5.1f}")
        memory_ratio = memory[peer] / memory["edgewise"]
        milliseconds = ", ".join(f"{ours[way]['median'] * 1e3:.1f}" for way in ours)
        out.append(
            f"{result['name']:<58} {peer:<9} {cells[0]:>17} {cells[1]:>17} {memory_ratio:6.1f}x"
            f"   {milliseconds}"
        )
    return out


def power_law_penalty(results: list[dict[str, Any]]) -> list[str]:
    """Return lines that compare power-law graphs with uniform graphs by the time per edge."""

    def each(result: dict[str, Any]) -> float:
        return float(result["nanoseconds an edge"])

    by_problem = [(r["problem"]["operation"], r["problem"]["kind"], r) for r in results]
    plain = {name: r for name, kind, r in reversed(by_problem) if kind == "uniform"}
    return [
        f"{name}: an edge takes {each(r) / each(plain[name]):.2f}x as long as in a uniform graph"
        for name, kind, r in by_problem
        if kind == "power law" and name in plain
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--rounds", type=int, default=7, help="number of timed rounds")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    about, results = machine(), []
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(HEADER)
    for listed in PROBLEMS:
        peers = tuple(p for p in listed.peers if not (arguments.eager and p == "compiled"))
        problem = replace(listed, peers=peers)
        if arguments.only in problem.name:
            results.append(measure(problem, arguments.rounds, about["copy, bytes a second"]))
            print("\n".join(lines(results[-1])), flush=True)
    print("\n".join(power_law_penalty(results)))
    for result in results:
        paid = result["preprocessing"]
        print(
            f"{result['name']:<58} gathers at {result['gathered / copied']:4.0%} of the bandwidth "
            f"of a copy; sorting the edges takes {paid['seconds'] * 1e3:.0f} ms, which is saved "
            f"after {paid['pays after calls']:.2f} calls"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
