"""Entry point of ``python -m edgewise``, which is the command ``edgewise``."""

import sys

from edgewise.app.cli import main

sys.exit(main())
