"""Weight initialisation: normal as in BERT and GPT, Xavier as in the Transformer."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from edgewise.layers.projections import JointLinear
from edgewise.layers.transformer import Residual

M = TypeVar("M", bound=nn.Module)


def init_normal(model: M, *, std: float = 0.02, residual_depth: int | None = None) -> M:
    """Initialise linear maps and embeddings from N(0, std²) and biases with zero (BERT, GPT).

    Args:
        residual_depth: number of layers L; the last map of each residual branch is scaled by 1 /
            √(2L), so that the sum of all branches does not grow with depth (GPT-2).

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layer = layers.init_normal(torch.nn.Linear(16, 16), std=0.02)
        >>> bool((layer.bias == 0).all())
        True
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
    """Initialise all matrices with ``torch.nn.init.xavier_uniform_``, as in the Transformer.

    Matrices stored as one, such as query, key and value, are initialised separately.
    (``torch.nn.MultiheadAttention`` uses the size of the joint matrix, which halves the variance.)

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layer = layers.init_xavier(torch.nn.Linear(16, 16))
        >>> bool((layer.weight.abs() < 0.434).all())  # sqrt(6 / (16 + 16)) is 0.433
        True
    """
    joint = {m.weight: m for m in model.modules() if isinstance(m, JointLinear)}
    for parameter in model.parameters():
        if parameter.dim() == 2:
            matrices = joint[parameter].weights() if parameter in joint else (parameter,)
            for matrix in matrices:
                nn.init.xavier_uniform_(matrix.data)
    return model
