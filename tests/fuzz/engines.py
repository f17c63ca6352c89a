"""Fuzz test of the engines: ``python -m tests.fuzz.engines --graphs 100000 --workers 2``.

Each case is a graph (explicit edges with hubs, duplicates and empty rows; patterns, compositions of
them and packed batches), a dtype, a batch shape, a memory layout, a score, a normaliser and edge
terms. Every engine that does not refuse must return the oracle's output, log-sum-exp and gradients,
within bounds that follow from the arithmetic. NaN and infinity in any argument must follow the
formula, autocast and inference mode must not change a bit, and results must repeat bit by bit.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import faulthandler
import multiprocessing
import queue
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.engines.case import Case
from tests.engines.checks import Report, check_case
from tests.fuzz.cases import draw_case

MOST_SHOWN = 200


@dataclass
class Summary:
    """What ran, and what failed."""

    cases: int = 0
    counts: dict[str, collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    failures: list[str] = field(default_factory=list)
    closest: tuple[float, str] = (0.0, "")

    def add(self, case: Case | None, report: Report, number: int) -> None:
        """Count a case."""
        self.cases += 1
        used, what = report.closest
        self.closest = max(self.closest, (used, f"{what} of case {number}"))
        if case is not None:
            self.counts["operation"][case.operation] += 1
            self.counts["type"][str(case.dtype)[6:]] += 1
            self.counts["term"].update(case.terms)
            self.counts["ran"].update(report.ran)
        if report.failures:
            lines = [f"case {number}: {case}", *(f"  {why}" for why in report.failures)]
            lines += [f"  again: {again(case.seed, number)}"] if case is not None else []
            self.failures.append("\n".join(lines))

    def join(self, other: Summary) -> None:
        """Count what another process did."""
        self.cases += other.cases
        self.closest = max(self.closest, other.closest)
        self.failures += other.failures
        for kind, counter in other.counts.items():
            self.counts[kind].update(counter)


def again(seed: int, number: int) -> str:
    """What runs this case again."""
    return f"python -m tests.fuzz.engines --seed {seed} --case {number}"


def run_cases(seed: int, numbers: Any, *, until: float = float("inf"), now: Any = None) -> Summary:
    """The cases of these numbers, until this time; ``now`` is told which one is at work."""
    torch.set_num_threads(1)
    summary = Summary()
    for number in numbers:
        if time.monotonic() > until:
            break
        if now is not None:
            now.value = number
        summary.add(*run_case(seed, number), number)
    return summary


def run_case(seed: int, number: int) -> tuple[Case | None, Report]:
    """Draw a case and check it; whatever is raised is a failure."""
    case = None
    try:
        case = draw_case(seed, number)
        return case, check_case(case)
    except Exception:  # a case that cannot be made or judged is a finding too
        return case, Report(failures=[traceback.format_exc()])


def _work(options: argparse.Namespace, worker: int, until: float, now: Any, results: Any) -> None:
    """In a process of its own, so that a crash of a kernel is a failure like others."""
    faulthandler.enable()
    numbers = range(options.first + worker, options.first + options.graphs, options.workers)
    for start in range(0, len(numbers), 200):
        if time.monotonic() > until:
            break
        results.put(run_cases(options.seed, numbers[start : start + 200], until=until, now=now))
    results.put(None)


def _in_processes(options: argparse.Namespace, until: float) -> Summary:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    summary, workers = Summary(), []
    for worker in range(options.workers):
        now = context.Value(ctypes.c_int64, -1)
        arguments = options, worker, until, now, results
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        workers.append((process, now))
    running, shown, begun = len(workers), 0, time.monotonic()
    while running:
        try:
            given = results.get(timeout=2)
        except queue.Empty:  # look whether a process has died
            for process, now in list(workers):
                if process.exitcode not in (None, 0):
                    command = again(options.seed, now.value)
                    why = f"case {now.value}: exit code {process.exitcode}\n  again: {command}"
                    summary.failures.append(why)
                    workers.remove((process, now))
                    running -= 1
            continue
        if given is None:
            running -= 1
            continue
        summary.join(given)
        for failure in summary.failures[shown:MOST_SHOWN]:
            print(failure, flush=True)
        shown = len(summary.failures)
        if options.progress and time.monotonic() - begun > 60:
            begun = time.monotonic()
            print(f"{summary.cases} graphs, {len(summary.failures)} failures", flush=True)
    for failure in summary.failures[shown:MOST_SHOWN]:
        print(failure, flush=True)
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.engines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="One core checks about 80,000 to 200,000 graphs per hour.",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of all cases (default: 0)")
    parser.add_argument("--case", type=int, help="run only the case with this number")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first case (default: 0)"
    )
    parser.add_argument(
        "--graphs", type=int, default=10**9, help="number of cases (default: no limit)"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit in seconds")
    parser.add_argument("--workers", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--progress", action="store_true", help="print a line each minute")
    options = parser.parse_args()
    begun = time.monotonic()
    if options.case is not None:
        case, report = run_case(options.seed, options.case)
        print(f"case {options.case}: {case}")
        print("\n".join(report.failures) or f"passes: {', '.join(report.ran)}")
        return bool(report.failures)
    summary = _in_processes(options, begun + options.seconds)
    spent = time.monotonic() - begun
    for kind, counter in summary.counts.items():
        print(f"{kind}: " + ", ".join(f"{name} {n}" for name, n in counter.most_common()))
    hourly = summary.cases / spent * 3600
    print(
        f"{summary.cases} graphs, {len(summary.failures)} failures, {spent:.0f} s "
        f"({hourly:,.0f} an hour); "
        f"closest to a bound: {summary.closest[0]:.0%}, {summary.closest[1]}"
    )
    return bool(summary.failures)


if __name__ == "__main__":
    sys.exit(main())
