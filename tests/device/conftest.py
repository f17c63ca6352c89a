"""These tests name a device of their own for the process: ``tests/graphs/test_device.py``."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("EDGEWISE_SIMULATED") == "1" else ["test_simulated.py"]
