"""Tokenizer of a run, which is saved in the run folder and checked before weights are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.hugging_face import hf_tokenizer_path
from edgewise.app.runs.pretrained import is_hugging_face
from edgewise.app.train.folder import RECIPE, RunFolder
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import TOKENIZER, load_tokenizer, vocabulary_hash

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def with_vocabulary(recipe: Recipe, folder: RunFolder | None) -> Recipe:
    """Set the tokenizer of a recipe to that in its run folder or in ``recipe.start``."""
    data = recipe.data
    if not isinstance(data, TextData):
        return recipe
    path = ""
    if folder is not None and folder.has(TOKENIZER):
        path = _checked_tokenizer(folder)
    elif is_hugging_face(recipe.start):
        path = data.tokenizer or hf_tokenizer_path(recipe.start)
    elif recipe.start:
        start = RunFolder(Path(recipe.start))
        start.refuse_several()
        if data.tokenizer:
            check_vocabulary(start, load_tokenizer(Path(data.tokenizer)), "data.tokenizer")
        elif start.has(TOKENIZER):
            path = _checked_tokenizer(start)
    return replace(recipe, data=replace(data, tokenizer=path)) if path else recipe


def _checked_tokenizer(run: RunFolder) -> str:
    path = run.path / TOKENIZER
    check_vocabulary(run, load_tokenizer(path), TOKENIZER)
    return str(path)


def write_tokenizer(folder: RunFolder, tokenizer: Tokenizer) -> None:
    """Write ``tokenizer.json`` to a run folder."""
    text = tokenizer.to_str(pretty=True)
    folder.write(TOKENIZER, lambda file: file.write_text(text, encoding="utf-8"))


def check_vocabulary(run: RunFolder, tokenizer: Tokenizer | None, argument: str) -> None:
    """Raise ArgumentError about ``argument`` unless a run was trained with the tokenizer."""
    expected = run.read_json(RECIPE).get("vocabulary")
    actual = None if tokenizer is None else vocabulary_hash(tokenizer)
    if expected != actual:
        raise ArgumentError(
            argument,
            expected=f"the tokenizer of the run in {run.path}, with the hash {expected}",
            got=f"a tokenizer with the hash {actual}",
            remedy=f"use the {TOKENIZER} in the folder of this run, by omitting --data.tokenizer",
        )
