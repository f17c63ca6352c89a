"""Models whose attention calls are not over tokens and heads alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise import models
from edgewise.explain.record import LayerRecord

TOKENS = 12
SPARSE = {
    "longformer": {"radius": 1},
    "longformer_many_hubs": {"radius": 1, "hubs": tuple(range(11))},
    "bigbird": {"block": 1, "random_blocks": 1},
    "reformer": {"chunk": 4, "local_chunk": 4, "num_hashes": 2, "max_length": TOKENS},
}
"""Arguments of models whose calls of ``attend`` are not over tokens and heads alone."""


def sparse_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    options: Any = {"width": 48, "depth": 2, "heads": 3, "head_width": 16, "ffn_dim": 8}
    if name != "reformer":
        del options["head_width"]
    make = getattr(models, name.partition("_")[0])
    model = make(11, **options, **SPARSE[name]).double().eval()
    for parameter in model.parameters():  # far from equal weights
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def values_of(module: Any, x: Tensor, hubs: tuple[int, ...]) -> Tensor:
    """The values ``[N_dst, N_src, H, D]`` of an attention layer; those of hubs differ."""
    if hasattr(module, "value"):
        value = module.value(x)
    else:
        value = module.qkv(x)[..., -module.output.in_features :]
    value = value.unflatten(-1, (module.heads, -1))
    by_target = value.expand(len(value), *value.shape).clone()
    for hub in hubs:
        by_target[hub] = module.hub_value(x).unflatten(-1, (module.heads, -1))
    return by_target


def dense_weights(record: LayerRecord) -> Tensor:
    """The recorded weights as ``[N_dst, N_src, H]``."""
    weights = record.weights.reshape(-1, len(record.heads))
    dense = weights.new_zeros(record.graph.num_targets, record.graph.num_sources, len(record.heads))
    source, target = record.edge_index
    dense[target, source] = weights
    return dense
