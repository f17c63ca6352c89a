"""Fine-tuning from a folder of Hugging Face transformers, with its model, tokenizer and weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, MissingDataError, reading
from edgewise.app.runs.pretrained import CONFIG, is_hugging_face
from edgewise.app.runs.recipe_fields import with_values
from edgewise.app.train.folder import differing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.tasks.text_classification import TextClassification
from edgewise.app.train.text.tokenizer import TOKENIZER
from edgewise.layers import ClassificationHead, TextClassifier, TokenClassifier

FAMILIES = ("bert", "roberta")
"""Text models that can be fine-tuned; their names are equal in transformers and in Edgewise."""
BACKBONE, HEAD, TOKENS = "trunk.", "head.", "trunk.embedding.tokens.weight"
OF_TOKENS = (TOKENS, "trunk.head.bias", "trunk.head.weight")
"""Names of weights with a row for each token."""
OF_LABELS = ("head.output.weight", "head.output.bias", "head.1.weight", "head.1.bias")
"""Names of weights with a row for each label, in text and token classifiers."""
DENSE = "head.dense."
POOLER = f"{BACKBONE}pooler.0.", DENSE
"""Prefix of the pooler's weights, and that of the same layer in a classification head."""
NEXT_SENTENCE = ("cls.seq_relationship",)
"""Prefix of BERT's next-sentence head, which is not loaded."""


def with_hf_model(recipe: Recipe) -> Recipe:
    """Return the recipe with the model, but not graph and dropout, of the Hugging Face folder that
    ``recipe.start`` names; unchanged without such a folder.
    """
    if not is_hugging_face(recipe.start):
        return recipe
    from edgewise.interop.huggingface.bert import model_options
    from edgewise.interop.huggingface.checkpoint import read
    from edgewise.interop.huggingface.label_heads import label_head

    checkpoint = read(recipe.start)
    family = str(checkpoint.config.get("model_type", "none"))
    check_choice(f"{recipe.start}/{CONFIG}: model_type", family, FAMILIES)
    # Values of the configuration may have any type.
    with reading(f"{recipe.start}/{CONFIG}", expected=f"a configuration of {family}"):
        sizes = {
            name: value for name, value in model_options(checkpoint).items() if name != "dropout"
        }
        head = label_head(checkpoint.without_prefix(f"{family}."))
    values: dict[str, Any] = {f"model.{name}": value for name, value in sizes.items()}
    values["model"] = family
    values["model.padding"] = checkpoint["pad_token_id"] if family == "roberta" else None
    if head is not None and head.dense and isinstance(recipe.task, TextClassification):
        values["task.pool"] = "class"  # The checkpoint's head was trained with this pooling.
    return with_values(recipe, values)


def load_hf_weights(model: nn.Module, start: str, labels: Sequence[str]) -> None:
    """Load the weights of a Hugging Face folder into a model, without embeddings beyond the vocab
    size. The classification head is loaded if it has the labels of the data, in any order. A
    warning names the weights that are not loaded.
    """
    from edgewise.interop import huggingface

    hf_model = huggingface.load(start, leave_out=NEXT_SENTENCE)
    has_labels = isinstance(hf_model, TextClassifier | TokenClassifier)
    hf_weights, weights = hf_model.state_dict(), model.state_dict()
    if not has_labels:
        hf_weights = {f"{BACKBONE}{name}": weight for name, weight in hf_weights.items()}
    names = [name for name in weights if name.startswith(BACKBONE)]
    if not names:
        raise ArgumentError(
            "--from",
            expected="a recipe with a text model, such as the recipe texts",
            got=f"a {type(model).__name__}",
            remedy="omit --from, or choose another recipe",
        )
    head = getattr(model, "head", None)
    if isinstance(head, ClassificationHead) and head.pool.pool == "class":
        # In transformers, too, a pooler is the first layer of a classifier.
        hf_weights = {n.replace(*POOLER): weight for n, weight in hf_weights.items()}
        names += [name for name in hf_weights if name.startswith(DENSE) and name in weights]
    order = _label_order(hf_model.labels, labels) if has_labels else None
    if order is not None and type(hf_model) is type(model):
        names += [name for name in weights if name.startswith(HEAD) and name not in names]
        hf_weights |= {name: hf_weights[name][order] for name in OF_LABELS if name in hf_weights}
    mismatches, loadable = [], {}
    for name in names:
        weight = hf_weights.get(name)
        if weight is not None and name in OF_TOKENS:  # It may have padding rows.
            weight = weight[: len(weights[TOKENS])]
        if weight is not None and weight.shape == weights[name].shape:
            loadable[name] = weight
            continue
        shape = "none" if weight is None else list(weight.shape)
        mismatches.append(
            f"{name.removeprefix(BACKBONE)} is {shape} in the folder, "
            f"{list(weights[name].shape)} in the model"
        )
    if mismatches:
        raise ArgumentError(
            "--from",
            expected=f"the model of {start}",
            got=differing(mismatches),
            remedy="use the tokenizer.json that was saved with this model, and a recipe whose head "
            "the folder contains",
        )
    unused = sorted(name.removeprefix(BACKBONE) for name in hf_weights if name not in names)
    if unused:
        why = "this model has no such weights"
        if has_labels:
            hf_labels, data_labels = (", ".join(x) or "none" for x in (hf_model.labels, labels))
            why = (
                f"its head predicts the labels {hf_labels} of {_labelled_unit(hf_model)}, but the "
                f"labels of the data are {data_labels}, of {_labelled_unit(model)}; the head is "
                "initialised at random"
            )
        warnings.warn(f"not loaded from {start}, because {why}: {', '.join(unused)}", stacklevel=2)
    model.load_state_dict(loadable, strict=False)


def _label_order(hf_labels: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """Return the index in ``hf_labels`` of each label of the data; None if the labels differ."""
    # In transformers, a label without a name is called LABEL_ and its index.
    names = [label.removeprefix("LABEL_") for label in hf_labels]
    return list(map(names.index, labels)) if sorted(names) == sorted(labels) else None


def _labelled_unit(model: nn.Module) -> str:
    return "words" if isinstance(model, TokenClassifier) else "texts"


def hf_tokenizer_path(start: str) -> str:
    """Return the path of ``tokenizer.json`` in a Hugging Face folder, or raise MissingDataError."""
    path = Path(start) / TOKENIZER
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: save the tokenizer in this folder with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    return str(path)
