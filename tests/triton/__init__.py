"""Where the kernels run in these tests: on a GPU, or on CPU tensors in Triton's interpreter."""

from __future__ import annotations

import os

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == os.environ.get("EDGEWISE_TRITON") == "1"
ON_A_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cuda" if ON_A_GPU else "cpu")
