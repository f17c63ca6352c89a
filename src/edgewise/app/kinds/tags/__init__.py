"""Tags of words."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.tags import reasons, recipes
from edgewise.app.kinds.tags.data import TaggedWords
from edgewise.app.kinds.tags.files import EWT, TagFile
from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.train.tasks.text_classification import Tagging

__all__ = ["EWT", "KIND", "TagFile"]

KIND = Kind(
    "tags",
    recipes=recipes_in(recipes),
    data={"ewt": EWT, "tag_file": TagFile},
    predictors=(WordTags,),
    baselines=(
        Baselines(
            "tags of words", "tag-ewt", TaggedWords, (Tagging,), "edgewise.app.kinds.tags.baseline"
        ),
    ),
    cases={WordTags: reasons.word_tags},
)


def __dir__() -> list[str]:
    return __all__
