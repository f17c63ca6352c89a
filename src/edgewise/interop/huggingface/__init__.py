"""Hugging Face's ``transformers``: its weights in Edgewise's models, and its models on any graph.

:func:`load` makes a model of ours of a folder. Only its safetensors are read, nothing is unpickled
or downloaded, and ``transformers`` itself is not needed.

Once this is imported ``AutoModel.from_pretrained(folder, attn_implementation="edgewise")`` is
their own model on Edgewise's engines, and :func:`on_graph` puts it on another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgewise.arguments import check_choice
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern, check_graph, parse
from edgewise.interop.huggingface.attention import on_graph, register_when_imported
from edgewise.interop.huggingface.bert import load_bert
from edgewise.interop.huggingface.bigbird import load_bigbird
from edgewise.interop.huggingface.checkpoint import Checkpoint, read
from edgewise.interop.huggingface.gpt2 import load_gpt2
from edgewise.interop.huggingface.llama import load_llama
from edgewise.interop.huggingface.longformer import load_longformer
from edgewise.interop.huggingface.mae import load_mae
from edgewise.interop.huggingface.positions import with_positions
from edgewise.interop.huggingface.reformer import load_reformer
from edgewise.interop.huggingface.swin import load_swin
from edgewise.interop.huggingface.t5 import load_t5
from edgewise.interop.huggingface.vit import load_vit

FAMILIES: dict[str, Callable[[Checkpoint, Pattern | None], nn.Module]] = {
    "bert": load_bert,
    "big_bird": load_bigbird,
    "roberta": load_bert,
    "gpt2": load_gpt2,
    "llama": load_llama,
    "longformer": load_longformer,
    "mistral": load_llama,
    "qwen2": load_llama,
    "reformer": load_reformer,
    "t5": load_t5,
    "swin": load_swin,
    "vit": load_vit,
    "vit_mae": load_mae,
}
"""What can be loaded, by the configuration's ``model_type``."""


def load(
    model_or_folder: nn.Module | str | Path,
    graph: Pattern | str | None = None,
    *,
    positions: int | None = None,
    leave_out: Sequence[str] = (),
) -> Any:
    """The Edgewise model with these weights, in evaluation mode and in the weights' precision.

    A head for labels, tags or answers comes along.

    Args:
        model_or_folder: a live ``transformers`` model, or a folder with ``config.json`` and
            ``model.safetensors`` (or its shards).
        graph: who reads whom, in place of the model's own pattern: ``graphs.window(128) |
            graphs.hubs([0])`` makes BERT a Longformer. A causal model keeps to the past of it; of
            an encoder-decoder it is the encoder's; of ViT it is over the patches. A text such as
            ``"window(128) | hubs([0])"`` is read by :func:`edgewise.graphs.parse`.
        leave_out: parts of the names of tensors that may be dropped, such as ``"pooler"``. A tensor
            that the model has no place for is refused otherwise.
        positions: how many tokens a BERT, RoBERTa, Longformer, BigBird or GPT-2 is to read, where
            that is more than it has learned. What it has learned is repeated, as Longformer's
            authors did it (Beltagy et al., 2020), and a warning says so: such a model has to be
            trained on.

    Returns:
        A text model, called ``model(input_ids, attention_mask=None)``, gives the last hidden
        state ``[B, T, width]``; T5 takes ``decoder_input_ids`` too; ViT is called
        ``model(pixel_values)``. ``model.logits(states)`` are the language model's scores.

        With a head for labels it is a :class:`edgewise.layers.TextClassifier` (of texts) or a
        :class:`edgewise.layers.TokenClassifier` (of tokens; for questions its two logits are of
        the answer's first and last token), called with :class:`edgewise.layers.Tokens`;
        ``model.labels`` are the classes' names. ViT and Swin with their classifiers give
        ``[B, classes]``; a masked autoencoder is called ``model(pixel_values, noise)``.

    Raises:
        ArgumentError: an unknown family or variant; tensors of other shapes than the configuration
            describes, or without a place in the model, all of them listed; a graph that is none;
            or positions for a model that has no table of them, or fewer than it has.
        MissingDataError: no such folder, or no safetensors in it.
    """
    reads = parse(graph) if isinstance(graph, str) else graph
    if reads is not None:
        check_graph(reads)
    checkpoint = read(model_or_folder).without(_listed(leave_out))
    kind = checkpoint.config.get("model_type", "none")
    check_choice("model_type", str(kind), FAMILIES)
    if positions is not None:
        checkpoint = with_positions(checkpoint, positions)
    return FAMILIES[kind](checkpoint, reads).eval()


def _listed(leave_out: Sequence[str]) -> Sequence[str]:
    """A text alone would be read letter by letter, and leave out everything."""
    if not isinstance(leave_out, str) and all(leave_out):
        return leave_out
    raise ArgumentError(
        "leave_out",
        expected="a list of parts of names",
        got=repr(leave_out),
        remedy='write leave_out=["pooler"]',
    )


register_when_imported()

__all__ = ["FAMILIES", "load", "on_graph"]


def __dir__() -> list[str]:
    return __all__
