"""Starts the processes that train one recipe together, and ends them together.

Each finds its rank in the environment, as under torchrun, which serves scripts of one's own as
well. Not torchrun's own launcher: when it is killed its workers go on alone, and of the one that
failed it gives an exit code and not what it said. Not Lightning's: it starts the program of the
first process again, which in a notebook or a test is another one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import torch

from edgewise.errors import EdgewiseError
from edgewise.training.interrupt import Interrupted, interruptible

PATIENCE = 10.0  # seconds that the others have to end when one has
Worker = subprocess.Popen[bytes]


def launch(path: Path, devices: int, title: str) -> None:
    """Train the recipe in a folder in so many processes, of which the first writes.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; a checkpoint has been left.
        EdgewiseError: a process has failed; with what it said.

    """
    with ExitStack() as files, interruptible() as request:
        outputs, errors = (
            [files.enter_context(TemporaryFile()) for _ in range(devices)] for _ in range(2)
        )
        workers = _start(path, devices, title, outputs, errors)
        stop_signal, first = None, 0
        try:
            while any(code is None for code in _codes(workers)) and not any(_codes(workers)):
                if request.signal is not None and stop_signal is None:
                    stop_signal = request.signal
                    # The processes agree on the step after which they stop.
                    workers[0].send_signal(stop_signal)
                time.sleep(0.05)
            # The cause: the others fail after it, as nobody answers them.
            first = next((rank for rank, code in enumerate(_codes(workers)) if code), 0)
        finally:
            _end(workers)
        if stop_signal is not None and any(_codes(workers)):
            raise Interrupted(stop_signal)
        if any(_codes(workers)):
            text = _text(outputs[first]) or _text(errors[first]) or "see above"
            raise EdgewiseError(f"process {first} of {devices} has failed: {text}")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def _start(
    path: Path,
    devices: int,
    title: str,
    outputs: Sequence[IO[bytes]],
    errors: Sequence[IO[bytes]],
) -> list[Worker]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "edgewise.runs.worker", str(path), title]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(devices),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # unused parameters are asked for, and may be none
        "OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // devices)),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),  # as the command's
    }
    return [
        subprocess.Popen(
            command,
            env={**os.environ, **common, "LOCAL_RANK": str(rank), "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=outputs[rank],
            stderr=errors[rank] if rank else None,  # the first one shows how far they are
            start_new_session=True,  # Ctrl-C comes to this process alone, which passes it on
        )
        for rank in range(devices)
    ]


def _codes(workers: Sequence[Worker]) -> list[int | None]:
    return [worker.poll() for worker in workers]


def _end(workers: Sequence[Worker]) -> None:
    """Wait for those that are about to end by themselves, and end the others."""
    deadline = time.monotonic() + PATIENCE
    while None in _codes(workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert worker.stdin is not None
        worker.stdin.close()
