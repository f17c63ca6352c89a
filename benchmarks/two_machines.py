"""Train one recipe on two machines: network namespaces with a link, and an address each.

A process in a namespace reaches the other one only over the link. The script needs Linux and root,
and compares the run with one of two processes on this machine:

    python -m benchmarks.two_machines

"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MACHINES = {"edgewise-a": "10.77.0.1", "edgewise-b": "10.77.0.2"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "--nnodes", "2"]
FIELDS = ["--data.batch_size", "56", "--trainer.epochs", "2", "--trainer.accelerator", "cpu"]


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def machines() -> Iterator[None]:
    """Two network namespaces, joined by a pair of virtual Ethernet devices."""
    names = list(MACHINES)
    try:
        for name in names:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            "link0",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "link0",
            "netns",
            names[1],
        )
        for name, address in MACHINES.items():
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "link0")
            for device in ("lo", "link0"):
                ip("-n", name, "link", "set", device, "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def sent(name: str) -> int:
    """Bytes that a machine has sent over its link."""
    (link,) = json.loads(ip("-n", name, "-s", "-j", "link", "show", "link0"))
    return int(link["stats64"]["tx"]["bytes"])


def train_on_machines(out: Path, options: list[str]) -> None:
    words = ["-m", "edgewise", "train", "digits", *options, "--out", str(out)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "link0", "OMP_NUM_THREADS": "1"}
    processes = []
    for rank, name in enumerate(MACHINES):
        node = ["--node-rank", str(rank), "--master-addr", MACHINES["edgewise-a"]]
        command = ["ip", "netns", "exec", name, *TORCHRUN, *node, "--master-port", "29500", *words]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    wait_for(processes)


def wait_for(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all processes have ended. If one fails, end the others, which wait for it."""
    try:
        while None in (codes := [process.poll() for process in processes]) and not any(codes):
            time.sleep(0.1)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    if any(codes):
        raise SystemExit(f"exit codes of the machines: {codes} (None: ended by this script)")


def main() -> None:
    options = [*FIELDS, *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder, "here"), Path(folder, "there")
        with machines():
            train_on_machines(there, options)
            for name, address in MACHINES.items():
                print(f"{name} ({address}) has sent {sent(name):,} bytes")
        command = [sys.executable, "-m", "edgewise", "train", "digits", *options]
        command += ["--trainer.devices", "2", "--out", str(here)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs = [json.loads((path / "metrics.json").read_text()) for path in (there, here)]
    print(f"{'':14}{'two machines':>20}{'two processes':>20}")
    for metric in ("test/accuracy", "test/loss", "val/loss"):
        print(f"{metric:14}" + "".join(f"{run[metric]!r:>20}" for run in runs))


if __name__ == "__main__":
    main()
