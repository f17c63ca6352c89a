"""Entry point of ``python -m edgewise.cli``, which is the command ``edgewise``."""

import sys

from edgewise.cli import main

sys.exit(main())
