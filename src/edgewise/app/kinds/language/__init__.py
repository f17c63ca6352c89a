"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.language.contrastive import Contrastive
from edgewise.app.kinds.language.files import Shakespeare, TextFiles, WarAndPeace, WikiText2
from edgewise.app.kinds.language.halves import TextHalves
from edgewise.app.kinds.language.masked_text import MaskedText
from edgewise.app.kinds.language.task import LanguageModeling, MaskedLanguageModeling

__all__ = [
    "Contrastive",
    "LanguageModeling",
    "MaskedLanguageModeling",
    "MaskedText",
    "Shakespeare",
    "TextFiles",
    "TextHalves",
    "WarAndPeace",
    "WikiText2",
]


def __dir__() -> list[str]:
    return __all__
