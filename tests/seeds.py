"""Random numbers that are the same every time."""

from __future__ import annotations

import torch


def seed(number: int) -> None:
    """``torch.manual_seed``, which keeps a traceback for each kind of device that has not begun.

    That costs a millisecond and memory: too much for what is called some 50,000 times.
    """
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
