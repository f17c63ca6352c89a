"""WikiText-2, for causal language modelling."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.data.reading import raw_texts
from edgewise.data.text.text_stream import TextStream

COMMIT = "77f55b912142e11fcfdf5b530231fb9c52f181e8"
ADDRESS = (
    "https://raw.githubusercontent.com/pytorch/examples/"
    f"{COMMIT}/word_language_model/data/wikitext-2"
)


@dataclass(frozen=True)
class WikiText2(TextStream):
    """Wikipedia articles (Merity et al., 2016): training on the *validation* file, test on test.

    The published training file is not used, so perplexities are not comparable with published
    perplexities.
    """

    def files(self) -> tuple[str, ...]:
        return ("valid.txt", "test.txt")

    def text(self) -> str:
        return "".join(self._texts())

    def parts(self) -> tuple[str, str, str]:
        valid, test = self._texts()
        first = int(len(valid) * self.val)
        return valid[first:], valid[:first], test

    def _texts(self) -> tuple[str, str]:
        texts = raw_texts("wikitext-2", {name: f"{ADDRESS}/{name}" for name in self.files()})
        return texts["valid.txt"], texts["test.txt"]
