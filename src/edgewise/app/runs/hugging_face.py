"""Fine-tuning from a folder of Hugging Face transformers, with its model, tokenizer and weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, MissingDataError, reading
from edgewise.app.runs.recipe_fields import with_values
from edgewise.app.train.folder import RECIPE, differing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.tasks.text_classification import TextClassification
from edgewise.app.train.text.tokenizer import TOKENIZER
from edgewise.layers import TextClassifier, TokenClassifier

CONFIG = "config.json"
FAMILIES = ("bert", "roberta")
"""Text models that can be fine-tuned; their names are equal in transformers and in Edgewise."""
TRUNK, HEAD, TOKENS = "trunk.", "head.", "trunk.embedding.tokens.weight"
OF_TOKENS = (TOKENS, "trunk.head.bias", "trunk.head.weight")
"""Names of weights with a row for each token."""
OF_LABELS = ("head.output.weight", "head.output.bias", "head.1.weight", "head.1.bias")
"""Names of weights with a row for each label, in text and token classifiers."""
NEXT_SENTENCE = ("cls.seq_relationship",)
"""Prefix of BERT's next-sentence head, which is not loaded."""


def is_hugging_face(start: str) -> bool:
    """Return whether a path is a folder that ``save_pretrained`` wrote, and not a run folder."""
    folder = Path(start)
    return bool(start) and (folder / CONFIG).is_file() and not (folder / RECIPE).exists()


def with_their_model(recipe: Recipe) -> Recipe:
    """Return the recipe with the model of the Hugging Face folder that ``recipe.start`` names.

    The recipe's graph and dropout are kept. If the folder has a text classification head, the
    output of the class token represents a text, because the head was trained with this pooling.
    Without such a folder, the recipe is returned unchanged.

    Raises:
        ArgumentError: the folder's model is neither BERT nor RoBERTa, or the recipe has no text
            model.
    """
    if not is_hugging_face(recipe.start):
        return recipe
    from edgewise.interop.huggingface.bert import model_options
    from edgewise.interop.huggingface.checkpoint import read
    from edgewise.interop.huggingface.label_heads import label_head

    theirs = read(recipe.start)
    kind = str(theirs.config.get("model_type", "none"))
    check_choice(f"{recipe.start}/{CONFIG}: model_type", kind, FAMILIES)
    # Values of the configuration may have any type.
    with reading(f"{recipe.start}/{CONFIG}", expected=f"a configuration of {kind}"):
        sizes = {name: value for name, value in model_options(theirs).items() if name != "dropout"}
        head = label_head(theirs.without_prefix(f"{kind}."))
    values: dict[str, Any] = {f"model.{name}": value for name, value in sizes.items()}
    values["model"] = kind
    values["model.padding"] = theirs["pad_token_id"] if kind == "roberta" else None
    if head is not None and head.dense and isinstance(recipe.task, TextClassification):
        values["task.pool"] = "class"  # The checkpoint's head was trained with this pooling.
    return with_values(recipe, values)


def load_their_weights(model: nn.Module, start: str, labels: Sequence[str]) -> None:
    """Load the weights of a Hugging Face folder into a model.

    Rows of embeddings beyond the vocab size are dropped. A classification head is loaded if its
    labels are those of the data, in any order. A warning names the weights that are not loaded.

    Args:
        model: model to train.
        start: folder of a Hugging Face checkpoint.
        labels: labels of the data, in the order of the model's outputs.

    Raises:
        ArgumentError: weights are missing or have another shape.
        MissingDataError: the folder contains no safetensors file.
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
            expected="a recipe with a text model, such as the recipe texts",
            got=f"a {type(model).__name__}",
            remedy="omit --from, or choose another recipe",
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
            wrong.append(f"{said} is {shape} in the folder, {list(own[name].shape)} in the model")
        else:
            ready[name] = given
    if wrong:
        raise ArgumentError(
            "--from",
            expected=f"the model of {start}",
            got=differing(wrong),
            remedy="use the tokenizer.json that was saved with this model, and a recipe whose head "
            "the folder contains",
        )
    left = sorted(name.removeprefix(TRUNK) for name in found if name not in wanted)
    if left:
        why = "this model has no such weights"
        if classifies:
            theirs_are, ours_are = (", ".join(names) or "none" for names in (theirs.labels, labels))
            why = (
                f"its head predicts the labels {theirs_are} of {_told(theirs)}, but the labels of "
                f"the data are {ours_are}, of {_told(model)}; the head is initialised at random"
            )
        warnings.warn(f"not loaded from {start}, because {why}: {', '.join(left)}", stacklevel=2)
    model.load_state_dict(ready, strict=False)


def _same_labels(theirs: Sequence[str], ours: Sequence[str]) -> list[int] | None:
    """Return the index in ``theirs`` of each label in ``ours``; None if the labels differ.

    Args:
        theirs: labels of the checkpoint.
        ours: labels of the data.
    """
    # In transformers, a label without a name is called LABEL_ and its index.
    named = [label.removeprefix("LABEL_") for label in theirs]
    if sorted(named) != sorted(ours):
        return None
    return [named.index(label) for label in ours]


def _told(model: nn.Module) -> str:
    return "words" if isinstance(model, TokenClassifier) else "texts"


def _rows(name: str, weight: Tensor | None, vocab_size: int) -> Tensor | None:
    """Return a weight without the padding rows that embeddings have beyond the vocabulary.

    Args:
        name: name of the weight. Weights other than token embeddings are returned unchanged.
        weight: the weight, or None.
        vocab_size: number of rows to keep.
    """
    if weight is None or name not in OF_TOKENS:
        return weight
    return weight[:vocab_size]


def their_tokenizer(start: str) -> str:
    """Return the path of ``tokenizer.json`` in a Hugging Face folder.

    Raises:
        MissingDataError: the file does not exist.
    """
    path = Path(start) / TOKENIZER
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: save the tokenizer in this folder with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    return str(path)
