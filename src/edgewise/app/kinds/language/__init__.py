"""Language models: next tokens, masked words and text embeddings."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.language import contrastive_recipes, masked_recipes, reasons, recipes
from edgewise.app.kinds.language.contrastive import Contrastive
from edgewise.app.kinds.language.data import TextStream
from edgewise.app.kinds.language.files import Shakespeare, TextFiles, WarAndPeace, WikiText2
from edgewise.app.kinds.language.halves import TextHalves
from edgewise.app.kinds.language.masked_text import MaskedText
from edgewise.app.kinds.language.predict import Continuations, HiddenWords, TextEmbeddings
from edgewise.app.kinds.language.task import LanguageModeling, MaskedLanguageModeling
from edgewise.app.train.preprocessing import Preprocessing

__all__ = [
    "KIND",
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

QUICK = 500_000
"""Maximum number of training tokens with which ``edgewise train`` evaluates baselines."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    return run.train_examples > QUICK  # A window begins at each token.


KIND = Kind(
    "language",
    recipes=recipes_in(recipes, masked_recipes, contrastive_recipes),
    data={
        "masked_text": MaskedText,
        "shakespeare": Shakespeare,
        "text_files": TextFiles,
        "text_halves": TextHalves,
        "war_and_peace": WarAndPeace,
        "wikitext2": WikiText2,
    },
    tasks={
        "contrastive": Contrastive,
        "language_modeling": LanguageModeling,
        "masked_language_modeling": MaskedLanguageModeling,
    },
    predictors=(Continuations, HiddenWords, TextEmbeddings),
    baselines=(
        Baselines(
            "language models",
            "gpt-shakespeare",
            TextStream,
            (LanguageModeling,),
            "edgewise.app.kinds.language.baseline",
            "graphs",
        ),
        Baselines(
            "masked words",
            "bert-wikitext",
            MaskedText,
            (MaskedLanguageModeling,),
            "edgewise.app.kinds.language.masked_baseline",
            "graphs",
            is_large=is_large,
        ),
    ),
    cases={Continuations: reasons.continuation, HiddenWords: reasons.hidden_words},
    explanations={Continuations: reasons.explain_beginning},
)


def __dir__() -> list[str]:
    return __all__
