"""Models: one architecture a file, named after it. A new one is a file and a line here."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torch import nn

from edgewise.errors import unknown_name
from edgewise.models.gat import gat
from edgewise.models.gcn import gcn
from edgewise.models.gnn import gnn
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.models.vit import vit

NODE_MODELS: dict[str, Callable[..., nn.Module]] = {"gnn": gnn, "gcn": gcn, "gat": gat}
"""``f(in_width, out_width)``, called ``model(x [N, in_width], graph) -> [N, out_width]``."""

TOKEN_MODELS: dict[str, Callable[..., nn.Module]] = {"transformer_encoder": transformer_encoder}
"""``f(width)``, called ``model(x [..., N, width], graph=None) -> [..., N, width]``."""

IMAGE_MODELS: dict[str, Callable[..., nn.Module]] = {"vit": vit}
"""``f(image_size, channels, out_width)``, called ``model(images) -> [B, out_width]``."""

MODELS: dict[str, Callable[..., nn.Module]] = {**NODE_MODELS, **TOKEN_MODELS, **IMAGE_MODELS}
"""Every architecture by name; contract tests run over them by kind."""


def about(name: str) -> dict[str, str]:
    """What the docstring of a model's file says: ``title``, ``Formula``, ``Graph``, ``Paper``."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    title, *lines = (sys.modules[MODELS[name].__module__].__doc__ or "").strip().splitlines()
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    return {"title": title.rstrip("."), **dict(pairs)}


__all__ = [
    "IMAGE_MODELS",
    "MODELS",
    "NODE_MODELS",
    "TOKEN_MODELS",
    "about",
    "gat",
    "gcn",
    "gnn",
    "transformer_encoder",
    "vit",
]
