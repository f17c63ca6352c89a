"""Measurement of alternating runs: time, and peak memory in separate processes."""

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
    """Call ``run``, and return the gradients of ``leaves`` given the gradient of its result."""
    out = run()
    return torch.autograd.grad(out.reshape(grad.shape), leaves, grad, allow_unused=True)


def disagreement(built: Built) -> dict[str, float]:
    """Return the largest error of each other implementation, relative to the tensor's maximum.

    Errors of a tensor are divided by at least a thousandth of the maximum over all tensors, because
    some gradients are zero except for rounding errors. An example is the gradient of a bias of the
    keys, which shifts all scores of a target equally.
    """
    errors = {}
    expected = built.runs["edgewise"]()
    grad = torch.randn_like(expected.flatten(1))
    ours = (expected.flatten(1), *gradients(built.runs["edgewise"], built.leaves, grad))
    for name, run in built.runs.items():
        results = (run().reshape(grad.shape), *gradients(run, built.leaves, grad))
        both = zip(ours, results, strict=True)
        pairs = [(a.detach(), b.detach()) for a, b in both if a is not None]
        largest = max(float(b.abs().max()) for _, b in pairs)
        relative = [
            float((a - b).abs().max()) / max(float(b.abs().max()), 1e-3 * largest) for a, b in pairs
        ]
        errors[name] = float(torch.tensor(relative).max())  # NaN if one is NaN, unlike max().
    return errors


def times(built: Built, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each round of alternating runs: ``{implementation: {pass: seconds}}``.

    A pass is "forward" or "both" (forward and backward).
    """
    grad = torch.randn_like(built.runs["edgewise"]().flatten(1))
    seconds: dict[str, dict[str, list[float]]] = {
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
            if turn:  # The first round is a warm-up.
                seconds[name]["forward"].append(middle - start)
                seconds[name]["both"].append(end - middle)
    return seconds


def spread(values: list[float]) -> tuple[float, float]:
    """Return the median, and half the interquartile range divided by the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, (high - low) / 2 / middle


def copy_bandwidth(rounds: int = 5) -> float:
    """Return the bytes per second that a copy reads and writes; it is larger than the cache."""
    source = torch.ones(1 << 28)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def peak_memory(problem: Problem, implementation: str) -> int:
    """Return the bytes that forward and backward need in addition to the inputs.

    These include what preprocessing of the graph needs.
    """
    command = [sys.executable, "-m", "benchmarks.cpu.measure", implementation]
    text = json.dumps(asdict(problem))
    done = subprocess.run([*command, text], capture_output=True, text=True, check=True)
    return int(done.stdout)


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes, such as VmRSS or VmHWM."""
    match = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert match
    return int(match[1]) * 1024


def _measure_peak(problem: Problem, implementation: str) -> int:
    small = build(Problem(problem.operation, nodes=50, peers=problem.peers))
    # Run a small problem first, to load libraries, start threads and run compilers.
    run = small.runs[implementation]
    gradients(run, small.leaves, torch.ones_like(run().flatten(1)))
    built = build(problem)
    run = built.runs[implementation]
    if implementation == "compiled":  # Exclude the memory that the compiler needs.
        gradients(run, built.leaves, torch.ones_like(run().flatten(1)))
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    start_memory = status("VmRSS")
    gradients(run, built.leaves, torch.ones_like(run().flatten(1)))
    return status("VmHWM") - start_memory


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    given["peers"] = tuple(given["peers"])
    print(_measure_peak(Problem(**given), sys.argv[1]))
