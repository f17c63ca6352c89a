"""A start from a folder of Hugging Face's transformers: its model, tokenizer and weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.data.text.tokenizer import TOKENIZER
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.layers import TextClassifier, TokenClassifier
from edgewise.recipes.recipe import Recipe
from edgewise.runs.fine_tuning import differing
from edgewise.runs.recipe_fields import with_values
from edgewise.tasks import TextClassification
from edgewise.training.folder import RECIPE

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
TRUNK, HEAD, TOKENS = "trunk.", "head.", "trunk.embedding.tokens.weight"
OF_TOKENS = (TOKENS, "trunk.head.bias", "trunk.head.weight")
"""Weights with a row for each token."""
OF_LABELS = ("head.output.weight", "head.output.bias", "head.1.weight", "head.1.bias")
"""Weights with a row for each label, of texts and of words."""
NEXT_SENTENCE = ("cls.seq_relationship",)
"""BERT's other head, which nothing here is trained with."""


def is_hugging_face(start: str) -> bool:
    """Whether this is a folder as ``save_pretrained`` writes it, and not a run's."""
    folder = Path(start)
    return bool(start) and (folder / CONFIG).is_file() and not (folder / RECIPE).exists()


def with_their_model(recipe: Recipe) -> Recipe:
    """The recipe with the model that its ``start`` is of; the graph and the dropout stay.

    Where that has a head for labels of texts, they are told from the class token, as there.

    Raises:
        ArgumentError: that is no model of texts of a family that we have, or the recipe's is none.

    """
    if not is_hugging_face(recipe.start):
        return recipe
    from edgewise.interop.huggingface.checkpoint import read
    from edgewise.interop.huggingface.label_heads import label_head

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
    head = label_head(theirs.without_prefix(f"{kind}."))
    if head is not None and head.dense and isinstance(recipe.task, TextClassification):
        values["task.pool"] = "class"  # as its head was trained
    return with_values(recipe, values)


def load_their_weights(model: nn.Module, start: str, labels: Sequence[str]) -> None:
    """Take the weights of a folder; of tokens that its tokenizer does not have there are none.

    A head for labels is kept where it is of the same ones, in whatever order. What is not kept is
    named in a warning.

    Args:
        model: what is to be trained.
        start: the folder.
        labels: of the data, in the order of the model's outputs.

    Raises:
        ArgumentError: weights are missing or have another shape; the first are listed.
        MissingDataError: there are no safetensors in the folder.

    """
    from edgewise.interop import huggingface

    theirs = huggingface.load(start, leave_out=NEXT_SENTENCE)
    classifies = isinstance(theirs, TextClassifier | TokenClassifier)
    found = theirs.state_dict()
    found = found if classifies else {f"{TRUNK}{name}": x for name, x in found.items()}
    own = model.state_dict()
    wanted = [name for name in own if name.startswith(TRUNK)]
    if not wanted:
        raise ArgumentError(
            "--from",
            expected="a recipe of a text model, such as texts, whose weights carry over",
            got=f"a {type(model).__name__}",
            remedy="leave it out, or choose another recipe",
        )
    order = _same_labels(theirs.labels, labels) if classifies else None
    if order is not None and type(theirs) is type(model):
        wanted += [name for name in own if name.startswith(HEAD)]
        found |= {name: found[name][order] for name in OF_LABELS if name in found}
    wrong, ready = [], {}
    for name in wanted:
        given = _rows(name, found.get(name), len(own[TOKENS]))
        if given is None or given.shape != own[name].shape:
            shape = "none" if given is None else list(given.shape)
            said = name.removeprefix(TRUNK)
            wrong.append(f"{said} is {shape} there and {list(own[name].shape)} here")
        else:
            ready[name] = given
    if wrong:
        raise ArgumentError(
            "--from",
            expected=f"the model of {start}",
            got=differing(wrong),
            remedy="use the tokenizer.json that was saved with it, and a recipe that wants no head "
            "where it has none",
        )
    left = sorted(name.removeprefix(TRUNK) for name in found if name not in wanted)
    if left:
        why = "this model has no place for them"
        if classifies:
            theirs_are, ours_are = (", ".join(names) or "none" for names in (theirs.labels, labels))
            why = f"its head tells the labels {theirs_are} of {_told(theirs)}, and the data have "
            why += f"{ours_are} of {_told(model)}: the head begins anew"
        warnings.warn(f"not loaded from {start}, as {why}: {', '.join(left)}", stacklevel=2)
    model.load_state_dict(ready, strict=False)


def _same_labels(theirs: Sequence[str], ours: Sequence[str]) -> list[int] | None:
    """Where each label of ours is among theirs; ``None`` where they are others."""
    named = [label.removeprefix("LABEL_") for label in theirs]  # which is what it is without a name
    if sorted(named) != sorted(ours):
        return None
    return [named.index(label) for label in ours]


def _told(model: nn.Module) -> str:
    return "words" if isinstance(model, TokenClassifier) else "texts"


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
    path = Path(start) / TOKENIZER
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: save the tokenizer there with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    return str(path)
