"""Time and memory of the attention that sources receive, beside the forward pass of attention.

    OMP_NUM_THREADS=1 python -m benchmarks.attention_received "window(64)" "window(512)" "causal()"

Both are computed in turn; the times are medians of processor time, and the memory is what the peak
of the process grows by in the first call.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch

import edgewise as ew
from edgewise.graphs import parse


def processor_time(compute: Callable[[], object]) -> float:
    """Return the seconds of processor time of a call."""
    start = time.process_time()
    compute()
    return time.process_time() - start


def peak() -> int:
    """Return the largest memory of the process so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="+", help="attention graphs, such as window(64)")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="width of a head")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", default="tiles")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    shape = arguments.tokens, arguments.heads, arguments.width
    query, key, value = (torch.randn(shape) for _ in range(3))
    for text in arguments.patterns:
        graph, engine = parse(text).bind(arguments.tokens), arguments.engine

        def received() -> object:
            return ew.attention_received(query, key, graph, engine=engine)  # noqa: B023

        def attended() -> object:
            return ew.attend(query, key, value, graph, engine=engine)  # noqa: B023

        with torch.no_grad():
            attended()
            before = peak()
            received()
            grown = (peak() - before) / 1024
            times = [
                (processor_time(received), processor_time(attended))
                for _ in range(arguments.rounds)
            ]
        seconds = [statistics.median(column) for column in zip(*times, strict=True)]
        print(
            f"{text:14} {engine}: received {seconds[0]:.3f} s, attend {seconds[1]:.3f} s, ratio "
            f"{statistics.median(a / b for a, b in times):.2f}, memory +{grown:.0f} MB"
        )


if __name__ == "__main__":
    main()
