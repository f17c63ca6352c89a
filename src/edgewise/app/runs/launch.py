"""Launcher of the processes that train one model in parallel on one machine.

The processes read their rank from the same environment variables as with torchrun. Other launchers
are not used. PyTorch's (``torch.distributed.elastic``) replaces our handlers of Ctrl-C, so that no
checkpoint is saved, and its processes survive if it is killed. Lightning's starts the script of the
first process again, which fails in a notebook or a test.
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

from edgewise._utils.errors import EdgewiseError, Interrupted
from edgewise.app.train.interrupt import interruptible

PATIENCE = 10.0  # After a process has ended, seconds until the remaining processes are killed.
Worker = subprocess.Popen[bytes]


def launch(path: Path, devices: int, title: str) -> None:
    """Train the recipe in a run folder in several processes; only rank 0 writes files.

    Args:
        path: run folder with ``recipe.json``.
        devices: number of processes.
        title: title of the progress display.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM, after a checkpoint has been saved.
        EdgewiseError: a process failed; the message contains that of the process.
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
                    # One signal is enough: the processes stop after the same step.
                    workers[0].send_signal(stop_signal)
                time.sleep(0.05)
            # The first failed process is the cause; the others fail because they wait for it.
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
    # -P, because -m alone would import files of the current folder, which may be received files.
    command = [sys.executable, "-P", "-m", "edgewise.app.runs.worker", str(path), title]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(devices),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # Hide PyTorch's warnings on find_unused_parameters.
        "OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // devices)),
        # The edgewise command sets this by default, so that waiting threads do not spin.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),
    }
    return [
        subprocess.Popen(
            command,
            env={**os.environ, **common, "LOCAL_RANK": str(rank), "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=outputs[rank],
            stderr=errors[rank] if rank else None,  # Rank 0 shows the progress.
            start_new_session=True,  # Ctrl-C must reach only the launcher.
        )
        for rank in range(devices)
    ]


def _codes(workers: Sequence[Worker]) -> list[int | None]:
    return [worker.poll() for worker in workers]


def _end(workers: Sequence[Worker]) -> None:
    """Wait until all processes have ended, and kill those that still run after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while None in _codes(workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert worker.stdin is not None
        worker.stdin.close()
