"""Load Longformer checkpoints of Hugging Face."""

from __future__ import annotations

from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.interop.huggingface.bert import HEADS, fill_bert, layer_sources, model_options
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, linear
from edgewise.models.longformer import longformer


def load_longformer(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``longformer`` with the global tokens of transformers; ``graph`` replaces windows."""
    checkpoint = checkpoint.without_prefix("longformer.").renamed(*HEADS)
    depth = checkpoint["num_hidden_layers"]
    windows = checkpoint["attention_window"]
    windows = [windows] * depth if isinstance(windows, int) else list(windows)
    if any(window % 2 for window in windows):
        raise ArgumentError(
            "attention_window",
            expected="even numbers, for windows with equally many tokens on both sides",
            got=repr(windows),
            remedy="use the config.json that was saved with the model's weights",
        )
    model = longformer(
        checkpoint["vocab_size"],
        radius=tuple(window // 2 for window in windows),
        hubs=(0,) if "classifier.dense.weight" in checkpoint.tensors else (),
        padding=checkpoint["pad_token_id"],
        **model_options(checkpoint),
    )
    if "qa_outputs.weight" in checkpoint.tensors:
        model.separator = checkpoint["sep_token_id"]
    if graph is not None:
        model.backbone.graphs = [graph] * depth
    return fill_bert(
        model, layer_sources(depth, "backbone.layers") | _hub_sources(depth), checkpoint
    )


def _hub_sources(depth: int) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for i in range(depth):
        for name in ("query", "key", "value"):
            hf_name = f"encoder.layer.{i}.attention.self.{name}_global"
            sources |= linear(f"backbone.layers.{i}.attention.sublayer.hub_{name}", hf_name)
    return sources
