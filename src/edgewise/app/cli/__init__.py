"""The command ``edgewise``: it runs one subcommand and returns the exit code."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # Importing typing takes as long as all other modules of this file.
if TYPE_CHECKING:
    from collections.abc import Sequence

# Idle OpenMP threads sleep instead of spinning. Spinning makes training ten times slower when
# another process uses the same core. OpenMP reads this variable once, when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if {"LOCAL_RANK", "SLURM_STEP_ID"} & os.environ.keys():
    # Hide PyTorch's warnings on find_unused_parameters in processes of torchrun and srun.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    * 0: success.
    * 1: a check of ``verify`` failed, or some inputs of ``predict`` or ``explain`` are invalid; the
      valid inputs are processed.
    * 2: the command cannot run, for example because an option is invalid or a file cannot be read
      or written. The error is printed on one line.
    * 70: internal error.
    * 130: Ctrl-C. 141: the program that reads the output has ended. 143: SIGTERM.

    Args:
        argv: command-line arguments, without the name of the program. Defaults to ``sys.argv[1:]``.
    """
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until all modules are imported: some modules catch KeyboardInterrupt in their imports.
        signal.signal(signal.SIGINT, _end)
    from edgewise.app.cli.process import run

    return run(argv, _end)


def _end(number: int, _frame: object) -> None:
    """End the process at once, because a command that has only imported modules leaves nothing."""
    os.write(2, b"edgewise: interrupted.\n")
    os._exit(128 + number)


__all__ = ["main"]
