"""Hugging Face ``transformers``: load checkpoints, and run its models on Edgewise's engines.

:func:`load` returns an Edgewise model with the weights of a checkpoint. From a folder it reads
safetensors only: nothing is unpickled or downloaded, and ``transformers`` is not needed.

After importing this package, ``AutoModel.from_pretrained(folder, attn_implementation="edgewise")``
returns a ``transformers`` model whose attention runs on Edgewise. :func:`on_graph` replaces the
attention graph of such a model. :func:`accelerate` is for models that compute attention themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, reading
from edgewise._utils.limits import built_within
from edgewise.graphs import Pattern, check_graph, parse
from edgewise.interop.huggingface.accelerated import accelerate
from edgewise.interop.huggingface.attention import on_graph, register_when_imported
from edgewise.interop.huggingface.bert import load_bert
from edgewise.interop.huggingface.bigbird import load_bigbird
from edgewise.interop.huggingface.checkpoint import SAVE_AGAIN, Checkpoint, read
from edgewise.interop.huggingface.gpt2 import load_gpt2
from edgewise.interop.huggingface.llama import load_llama
from edgewise.interop.huggingface.longformer import load_longformer
from edgewise.interop.huggingface.mae import load_mae
from edgewise.interop.huggingface.positions import with_positions
from edgewise.interop.huggingface.pruning import load_pruned
from edgewise.interop.huggingface.reformer import load_reformer
from edgewise.interop.huggingface.swin import load_swin
from edgewise.interop.huggingface.t5 import load_t5
from edgewise.interop.huggingface.vit import load_vit

CONFIG = "a configuration of this kind of model, with the weights of the folder"
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
"""Loading function for each ``model_type``, a value in the configuration of a checkpoint."""


def load(
    model_or_folder: nn.Module | str | Path,
    graph: Pattern | str | None = None,
    *,
    positions: int | None = None,
    leave_out: Sequence[str] = (),
) -> Any:
    """Load an Edgewise model from a checkpoint, in evaluation mode and the dtype of the weights.

    A classification, tagging or question-answering head is loaded as well: the model is then a
    :class:`edgewise.layers.TextClassifier` or :class:`edgewise.layers.TokenClassifier`, whose
    ``labels`` are the class names. For question answering, the two logits of a token score it as
    the first and as the last of the answer. ViT and Swin with a head return ``[B, classes]``. For
    the calls of other models, see :mod:`edgewise.models`.

    Args:
        model_or_folder: a live ``transformers`` model, or a folder with ``config.json`` and
            safetensors.
        graph: attention pattern, also as text, that replaces that of the model:
            ``window(128) | hubs([0])`` gives BERT the attention graph of Longformer. Causal models
            use its causal part, an encoder-decoder uses it in the encoder, a Longformer in place of
            its windows, and a ViT between patches. Reformer, Swin and masked autoencoders take no
            graph.
        positions: max length in tokens of a BERT, RoBERTa, Longformer, BigBird or GPT-2, if longer
            than in the checkpoint: learned positions are repeated (Beltagy et al., 2020), with a
            warning that the model needs further training.
        leave_out: parts of the names of tensors to drop, such as ``["pooler"]``.

    Raises:
        ArgumentError: the family or variant is unknown; tensors do not fit the configuration or
            have no place in the model (all are listed); ``graph`` is not a pattern, or the model
            takes no graph; or ``positions`` is given for a model without learned positions, or is
            too small.
        MissingDataError: the folder does not exist, or has no safetensors.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from edgewise import graphs
        >>> from edgewise.interop import huggingface
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> bert = BertModel(BertConfig(vocab_size=50, intermediate_size=8, **sizes))
        >>> model = huggingface.load(bert, graph=graphs.window(2))  # or the path of a folder
        >>> model(torch.randint(50, (1, 6))).shape
        torch.Size([1, 6, 8])
    """
    pattern = parse(graph) if isinstance(graph, str) else graph
    if pattern is not None:
        check_graph(pattern)
    # A string would be read as a list of letters.
    if isinstance(leave_out, str) or not all(leave_out):
        raise ArgumentError(
            "leave_out",
            expected="a list of strings, each a part of a tensor name",
            got=repr(leave_out),
            remedy='write a list, such as leave_out=["pooler"]',
        )
    checkpoint = read(model_or_folder).without(leave_out)
    kind = checkpoint.config.get("model_type", "none")
    check_choice("model_type", str(kind), FAMILIES)
    if isinstance(model_or_folder, nn.Module):
        return _build(checkpoint, pattern, positions)
    # The values of a configuration may have any type, so that building may fail anywhere.
    with reading(Path(model_or_folder) / "config.json", expected=CONFIG, remedy=SAVE_AGAIN):
        return _build(checkpoint, pattern, positions)


def _build(checkpoint: Checkpoint, graph: Pattern | None, positions: int | None) -> nn.Module:
    if positions is not None:
        checkpoint = with_positions(checkpoint, positions)
    num_parameters = sum(tensor.numel() for tensor in checkpoint.tensors.values())
    with built_within("model_or_folder", num_parameters):
        return FAMILIES[checkpoint.config["model_type"]](checkpoint, graph).eval()


register_when_imported()

__all__ = ["FAMILIES", "accelerate", "load", "load_pruned", "on_graph"]


def __dir__() -> list[str]:
    return __all__
