"""These tests name a device for a whole process: ``tests/graphs/test_device.py`` starts it."""

from __future__ import annotations

import os

collect_ignore = (
    [] if os.environ.get("EDGEWISE_SIMULATED") == "1" else ["test_simulated.py", "test_masks.py"]
)
