"""A run keeps its tokenizer, and neither is ever used with the other's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.data.text_data import TextData
from edgewise.data.tokenizer import FILE, load_tokenizer, vocabulary_hash
from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe
from edgewise.training import RunFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def with_vocabulary(recipe: Recipe, folder: RunFolder | None) -> Recipe:
    """The recipe with the tokenizer of its run folder, or of the run that it starts from.

    Args:
        recipe: what is going to be trained or tested.
        folder: of a run that has been started already, if it has.

    Raises:
        ArgumentError: the file is not the tokenizer that the run was trained with.
    """
    if not isinstance(recipe.data, TextData):
        return recipe
    kept = folder
    if folder is None or not folder.has(FILE):
        kept = RunFolder(Path(recipe.start)) if recipe.start else None
        if kept is None or recipe.data.tokenizer or not kept.has(FILE):
            return recipe
    assert kept is not None
    check_vocabulary(kept, load_tokenizer(kept.path / FILE), FILE)
    return replace(recipe, data=replace(recipe.data, tokenizer=str(kept.path / FILE)))


def keep_vocabulary(folder: RunFolder, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Write ``tokenizer.json``; gives what ``recipe.json`` says of it."""
    if tokenizer is None:
        return {}
    text = tokenizer.to_str(pretty=True)
    folder.write(FILE, lambda part: part.write_text(text, encoding="utf-8"))
    return {"vocabulary": vocabulary_hash(tokenizer)}


def check_vocabulary(run: RunFolder, tokenizer: Tokenizer | None, argument: str) -> None:
    """Check that this is the tokenizer that a run was trained with.

    Raises:
        ArgumentError: it is another one.
    """
    known = run.read_json("recipe.json").get("vocabulary")
    found = None if tokenizer is None else vocabulary_hash(tokenizer)
    if known != found:
        raise ArgumentError(
            argument,
            expected=f"the vocabulary {known} that the run in {run.path} was trained with",
            got=f"the vocabulary {found}",
            remedy=f"use the {FILE} of that run, which is what data.tokenizer is without a value",
        )
