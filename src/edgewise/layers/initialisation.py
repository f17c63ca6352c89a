"""Initialisation of weights: normal as BERT and GPT begin, Xavier as the Transformer does."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from edgewise.layers.attention import JointLinear
from edgewise.layers.transformer import Residual

M = TypeVar("M", bound=nn.Module)


def init_normal(model: M, *, std: float = 0.02, residual_depth: int | None = None) -> M:
    """Linear maps and embeddings from N(0, std²) and biases zero, as BERT and GPT begin.

    Args:
        model: is changed, and given back.
        std: standard deviation.
        residual_depth: layers L, where the last map of each residual branch begins smaller by
            √(2L), so that the sum of all branches does not grow with depth (GPT-2).
    """
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
    if residual_depth is not None:
        for branch in (module for module in model.modules() if isinstance(module, Residual)):
            last = [m for m in branch.sublayer.modules() if isinstance(m, nn.Linear)][-1]
            nn.init.normal_(last.weight, std=std / (2 * residual_depth) ** 0.5)
    return model


def init_xavier(model: M) -> M:
    """Every matrix uniform with the variance of Glorot and Bengio (2010), as the Transformer's.

    Matrices that are stored as one, such as those of query, key and value, are drawn one by one:
    the variance goes by the width of each. (``torch.nn.MultiheadAttention`` takes the width of all
    three, and begins with a variance half as large.)
    """
    joint = {m.weight: m for m in model.modules() if isinstance(m, JointLinear)}
    for parameter in model.parameters():
        if parameter.dim() == 2:
            matrices = joint[parameter].weights() if parameter in joint else (parameter,)
            for matrix in matrices:
                nn.init.xavier_uniform_(matrix.data)
    return model
