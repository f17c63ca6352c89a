"""Tokenizer of a run, which is saved in the run folder and checked before weights are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.hugging_face import is_hugging_face, their_tokenizer
from edgewise.app.train.folder import RECIPE, RunFolder
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import TOKENIZER, load_tokenizer, vocabulary_hash

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def with_vocabulary(recipe: Recipe, folder: RunFolder | None) -> Recipe:
    """Set the tokenizer of a recipe to that in its run folder or in ``recipe.start``.

    Args:
        recipe: recipe to train or test.
        folder: run folder, if the run was started before.

    Raises:
        ArgumentError: ``data.tokenizer``, or the tokenizer file in the folder, is not the tokenizer
            with which the run was trained, or ``recipe.start`` contains several runs.
    """
    if not isinstance(recipe.data, TextData):
        return recipe
    if folder is not None and folder.has(TOKENIZER):
        return _with_own(recipe, folder)
    if not recipe.start:
        return recipe
    if is_hugging_face(recipe.start):
        own = recipe.data.tokenizer or their_tokenizer(recipe.start)
        return replace(recipe, data=replace(recipe.data, tokenizer=own))
    start = RunFolder(Path(recipe.start))
    start.refuse_several()
    if recipe.data.tokenizer:
        check_vocabulary(start, load_tokenizer(Path(recipe.data.tokenizer)), "data.tokenizer")
        return recipe
    return _with_own(recipe, start) if start.has(TOKENIZER) else recipe


def _with_own(recipe: Recipe, run: RunFolder) -> Recipe:
    assert isinstance(recipe.data, TextData)
    check_vocabulary(run, load_tokenizer(run.path / TOKENIZER), TOKENIZER)
    return replace(recipe, data=replace(recipe.data, tokenizer=str(run.path / TOKENIZER)))


def vocabulary_record(tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return the entry of ``recipe.json`` with the tokenizer's hash; empty without a tokenizer."""
    return {} if tokenizer is None else {"vocabulary": vocabulary_hash(tokenizer)}


def keep_vocabulary(folder: RunFolder, tokenizer: Tokenizer | None) -> None:
    """Write ``tokenizer.json`` to a run folder, unless ``tokenizer`` is None."""
    if tokenizer is not None:
        text = tokenizer.to_str(pretty=True)
        folder.write(TOKENIZER, lambda file: file.write_text(text, encoding="utf-8"))


def check_vocabulary(run: RunFolder, tokenizer: Tokenizer | None, argument: str) -> None:
    """Raise ArgumentError unless a run was trained with this tokenizer.

    Args:
        run: run folder, whose ``recipe.json`` contains the hash of its tokenizer.
        tokenizer: tokenizer to check.
        argument: name of the argument that selected the tokenizer, for the error.
    """
    known = run.read_json(RECIPE).get("vocabulary")
    found = None if tokenizer is None else vocabulary_hash(tokenizer)
    if known != found:
        raise ArgumentError(
            argument,
            expected=f"the tokenizer of the run in {run.path}, with the hash {known}",
            got=f"a tokenizer with the hash {found}",
            remedy=f"use the {TOKENIZER} in the folder of this run, by omitting --data.tokenizer",
        )
