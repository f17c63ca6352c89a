"""A start from a folder of Hugging Face's transformers: its model, tokenizer and weights."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.recipes.recipe import Recipe
from edgewise.runs.recipe_fields import with_values

CONFIG = "config.json"
FAMILIES = ("bert", "roberta")
"""Models of texts that are fine-tuned for labels and tags; theirs and ours have one name."""
NUMBERS = {
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "length": "max_position_embeddings",
    "types": "type_vocab_size",
    "epsilon": "layer_norm_eps",
}
"""What we and their configuration call the same."""
TRUNK, TOKENS = "trunk.", "embedding.tokens.weight"
OF_TOKENS = (TOKENS, "head.bias", "head.weight")
"""Weights with a row for each token."""


def is_hugging_face(start: str) -> bool:
    """Whether this is a folder as ``save_pretrained`` writes it, and not a run's."""
    folder = Path(start)
    return bool(start) and (folder / CONFIG).is_file() and not (folder / "recipe.json").exists()


def with_their_model(recipe: Recipe) -> Recipe:
    """The recipe with the model that its ``start`` is of; the graph and the dropout stay.

    Raises:
        ArgumentError: that is no model of texts of a family that we have, or the recipe's is none.

    """
    if not is_hugging_face(recipe.start):
        return recipe
    from edgewise.interop.huggingface.checkpoint import read

    theirs = read(recipe.start)
    kind = str(theirs.config.get("model_type", "none"))
    check_choice(f"{recipe.start}/{CONFIG}: model_type", kind, FAMILIES)
    values: dict[str, Any] = {
        f"model.{ours}": theirs.config[name]
        for ours, name in NUMBERS.items()
        if name in theirs.config
    }
    values |= {"model": kind, "model.act": theirs.activation("hidden_act")}
    values["model.padding"] = theirs["pad_token_id"] if kind == "roberta" else None
    return with_values(recipe, values)


def load_their_weights(model: nn.Module, start: str) -> None:
    """Take the weights of a folder; of tokens that its tokenizer does not have there are none.

    What the model has no place for is named in a warning.

    Raises:
        ArgumentError: a weight is missing or has another shape; all of them are listed.
        MissingDataError: there are no safetensors in the folder.

    """
    from edgewise.interop import huggingface

    theirs = huggingface.load(start)
    wanted = {
        name.removeprefix(TRUNK): weight
        for name, weight in model.state_dict().items()
        if name.startswith(TRUNK)
    }
    if not wanted:
        raise ArgumentError(
            "--from",
            expected="a recipe of a text model, such as texts, whose weights carry over",
            got=f"a {type(model).__name__}",
            remedy="leave it out, or choose another recipe",
        )
    found = theirs.state_dict()
    wrong, ready = [], {}
    for name, weight in wanted.items():
        given = _rows(name, found.get(name), len(wanted[TOKENS]))
        if given is None or given.shape != weight.shape:
            shape = "none" if given is None else list(given.shape)
            wrong.append(f"{name} is {shape} there and {list(weight.shape)} here")
        else:
            ready[f"{TRUNK}{name}"] = given
    if wrong:
        raise ArgumentError(
            "--from",
            expected=f"the model of {start}",
            got=f"{len(wrong)} weights that differ: {'; '.join(wrong)}",
            remedy="use the tokenizer.json that was saved with it, and a recipe that wants no head "
            "where it has none",
        )
    left = sorted(name for name in found if name not in wanted)
    if left:
        warnings.warn(
            f"not loaded from {start}, as this model has no place for them: {', '.join(left)}",
            stacklevel=2,
        )
    model.load_state_dict(ready, strict=False)


def _rows(name: str, weight: Tensor | None, vocabulary: int) -> Tensor | None:
    """Tables are often longer than the vocabulary, for the sake of speed."""
    if weight is None or name not in OF_TOKENS:
        return weight
    return weight[:vocabulary]


def their_tokenizer(start: str) -> str:
    """The path of a folder's tokenizer.

    Raises:
        MissingDataError: there is none in the form that Hugging Face's libraries share.

    """
    path = Path(start) / "tokenizer.json"
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: save the tokenizer there with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    return str(path)
