"""Timing of alternating runs, and peak memory in separate processes."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.cpu.problems import Built, Problem, Run, build

STATUS = Path("/proc/self/status")


def gradients(run: Run, leaves: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor, ...]:
    """Run forward and backward, and return the gradient of each leaf."""
    out = run()
    return torch.autograd.grad(out.reshape(grad.shape), leaves, grad, allow_unused=True)


def disagreement(built: Built) -> dict[str, float]:
    """Return the largest error of each other implementation, relative to the tensor's maximum.

    Tensors that contain only rounding errors are compared with a thousandth of the maximum of all
    tensors. An example is the gradient of a key's bias, which is zero, because the bias shifts all
    scores of a row equally.
    """
    errors = {}
    expected = built.runs["edgewise"]()
    grad = torch.randn_like(expected.flatten(1))
    ours = (expected.flatten(1), *gradients(built.runs["edgewise"], built.leaves, grad))
    for name, run in built.runs.items():
        theirs = (run().reshape(grad.shape), *gradients(run, built.leaves, grad))
        both = zip(ours, theirs, strict=True)
        pairs = [(a.detach(), b.detach()) for a, b in both if a is not None]
        largest = max(float(b.abs().max()) for _, b in pairs)
        errors[name] = max(
            float((a - b).abs().max()) / max(float(b.abs().max()), 1e-3 * largest) for a, b in pairs
        )
    return errors


def times(built: Built, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each round of alternating runs: ``[implementation][pass]``."""
    grad = torch.randn_like(built.runs["edgewise"]().flatten(1))
    found: dict[str, dict[str, list[float]]] = {
        name: {"forward": [], "both": []} for name in built.runs
    }
    for turn in range(rounds + 1):
        for name, run in built.runs.items():
            start = time.perf_counter()
            with torch.no_grad():
                run()
            middle = time.perf_counter()
            gradients(run, built.leaves, grad)
            end = time.perf_counter()
            if turn:  # the first round is a warm-up
                found[name]["forward"].append(middle - start)
                found[name]["both"].append(end - middle)
    return found


def spread(values: list[float]) -> tuple[float, float]:
    """Return the median, and half the interquartile range relative to it."""
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, (high - low) / 2 / middle


def copy_bandwidth(rounds: int = 5) -> float:
    """Return the bytes per second that a copy larger than the cache reads and writes."""
    source = torch.ones(1 << 28)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def peak_memory(problem: Problem, implementation: str) -> int:
    """Return the bytes that forward and backward add to the inputs, with graph preprocessing."""
    command = [sys.executable, "-m", "benchmarks.cpu.measure", implementation]
    text = json.dumps(asdict(problem))
    done = subprocess.run([*command, text], capture_output=True, text=True, check=True)
    return int(done.stdout)


def status(field: str) -> int:
    """Return the bytes of a line of /proc/self/status, such as VmRSS or VmHWM."""
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found
    return int(found[1]) * 1024


def _measure_peak(problem: Problem, implementation: str) -> int:
    small = build(Problem(problem.operation, nodes=50, peers=problem.peers))
    run = small.runs[implementation]  # libraries and threads are loaded, compilers have run
    gradients(run, small.leaves, torch.ones_like(run().flatten(1)))
    built = build(problem)
    run = built.runs[implementation]
    if implementation == "compiled":  # the peak of the compiler is not of interest
        gradients(run, built.leaves, torch.ones_like(run().flatten(1)))
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = status("VmRSS")
    gradients(run, built.leaves, torch.ones_like(run().flatten(1)))
    return status("VmHWM") - before


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    given["peers"] = tuple(given["peers"])
    print(_measure_peak(Problem(**given), sys.argv[1]))
