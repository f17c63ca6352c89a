"""Multi30k: machine translation of image captions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.files import find_files
from edgewise.data.text.parallel import Parallel

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"


@dataclass(frozen=True)
class Multi30k(Parallel):
    """Image captions in English, German, French and Czech: 29,000 training pairs.

    ``test`` is ``"test_2016_flickr"`` or ``"test_2017_flickr"``; ``folder`` is ignored.

    Paper: Elliott et al., Multi30K: multilingual English-German image descriptions, 2016
    """

    test: str = "test_2016_flickr"

    def find_folder(self) -> Path:
        names = [f"{n}.{end}.gz" for n in self._names() for end in (self.source, self.target)]
        return find_files("multi30k", {name: f"{ADDRESS}/{name}" for name in names})

    def _names(self) -> list[str]:
        return [self.train, self.val, self.test]
