"""``python -m edgewise.cli``."""

import sys

from edgewise.cli import main

sys.exit(main())
